from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from trident_py.errors import ConfigError
from trident_py.spark.cluster import SparkCluster


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_REMOTE", "MASTER", "SPARK_HOME", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)


def test_without_a_word_it_is_this_machine() -> None:
    found = SparkCluster.found()
    assert (found.url, found.is_local) == ("local[*]", True)
    assert found.settings()["spark.driver.host"] == "127.0.0.1"


def test_what_was_typed_comes_first_then_remote_then_defaults_then_master(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MASTER", "spark://environment:7077")
    assert SparkCluster.found().url == "spark://environment:7077"
    (tmp_path / "spark-defaults.conf").write_text(
        "# ours\nspark.master   spark://defaults:7077\nspark.ui.enabled=false\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert SparkCluster.found().url == "spark://defaults:7077"
    monkeypatch.setenv("SPARK_REMOTE", "sc://server")
    assert SparkCluster.found().url == "sc://server"
    assert SparkCluster.found(master="yarn").url == "yarn"
    assert SparkCluster.found(remote="sc://other").url == "sc://other"


def test_master_and_remote_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="not on yarn and sc://server"):
        SparkCluster.found("yarn", "sc://server")


def test_one_of_several_masters_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        SparkCluster(master=f"spark://127.0.0.1:1,127.0.0.1:{port}").ensure_there()
        SparkCluster(remote=f"sc://127.0.0.1:{port}/;user_id=me").ensure_there()
        SparkCluster(master=f"k8s://https://127.0.0.1:{port}").ensure_there()


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        (SparkCluster(master="spark://127.0.0.1:1"), r"no Spark master answers at spark://127.0.0.1:1 \(127.0.0.1:1: "),
        (SparkCluster(remote="sc://127.0.0.1:1"), "no Spark Connect server answers at sc://127.0.0.1:1 "),
        (SparkCluster(master="spark://:7077"), "'spark://:7077' names no host and port"),
        (SparkCluster(remote="sc://127.0.0.1:many"), "names no host and port"),
    ],
)
def test_where_nobody_answers_it_is_named(cluster: SparkCluster, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        cluster.ensure_there()


def test_who_is_local_or_not_to_be_asked_is_taken_for_there() -> None:
    SparkCluster().ensure_there()
    SparkCluster(master="yarn").ensure_there()


def test_of_a_cluster_only_the_address_of_the_driver_is_set() -> None:
    assert SparkCluster(master="yarn").settings() == {}
    given = SparkCluster.found("spark://a:7077", driver_host="10.0.0.7").settings()
    assert given["spark.driver.host"] == "10.0.0.7"
    assert given["spark.kubernetes.executor.useDriverPodIP"] == "false"  # which would make it the address it binds to


@pytest.mark.parametrize(
    ("cluster", "master"),
    [
        (SparkCluster(), f"local[{len(os.sched_getaffinity(0)) + 2}]"),
        (SparkCluster(master="local[4]"), "local[4]"),
        (SparkCluster(master="spark://host:7077"), "spark://host:7077"),
    ],
    ids=["this machine", "chosen slots", "a cluster"],
)
def test_only_this_machine_gets_slots_for_tasks_that_stay(cluster: SparkCluster, master: str) -> None:
    assert cluster.with_slots(2).master == master
    assert cluster.with_slots(0) == cluster


def test_as_many_as_needed_is_one_slot_for_each_two_processors() -> None:
    processors = len(os.sched_getaffinity(0))
    found = SparkCluster().with_slots(None)
    assert found.extra_slots == max(1, processors // 2)
    assert found.master == f"local[{processors + found.extra_slots}]"
    assert found.settings()["spark.trident.slots.extra"] == str(found.extra_slots)
