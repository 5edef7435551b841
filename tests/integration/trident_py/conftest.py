"""One small Spark session for all tests that need one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.servers.spark import SparkCluster, SparkConnectServer
from tests.topologies import config as config
from trident_py import RetryPolicy, TridentConfig

CLUSTER = "TRIDENT_TEST_CLUSTER"
RESIDENT_TASKS = "TRIDENT_TEST_RESIDENT_TASKS"
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session", autouse=True)
def resident_tasks() -> None:
    """Make ``TRIDENT_TEST_RESIDENT_TASKS`` the default of `TridentConfig.resident_tasks` in this process."""
    if chosen := os.environ.get(RESIDENT_TASKS):
        defaults: Any = TridentConfig.__init__.__kwdefaults__
        defaults["resident_tasks"] = int(chosen) if chosen.isdecimal() else chosen


@pytest.fixture(scope="module", autouse=True)
def short_backoff() -> Iterator[None]:
    """Replay a failed batch ten times sooner than by default: five failures would wait 1.5 s."""
    defaults: Any = RetryPolicy.__init__.__kwdefaults__
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(defaults, "backoff", 0.01)
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session of four threads: some tests block two of them; stopped after the last test.

    It is a local one, or where ``TRIDENT_TEST_CLUSTER`` says: on a master with two workers (``standalone``), or on a
    Spark Connect server (``connect``).
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with ExitStack() as servers:
        yield servers.enter_context(_session(tmp_path_factory.mktemp("spark"), servers))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run on a cluster only what uses it, and isn't about local mode; over Connect nothing that needs a master."""
    if os.environ.get(CLUSTER):
        items[:] = [item for item in items if _is_of_a_cluster(item)]
    if os.environ.get(CLUSTER) == "connect":
        for item in items:
            for marker in item.iter_markers("master"):
                item.add_marker(pytest.mark.skip(reason=marker.args[0]))


def _is_of_a_cluster(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ()) and not item.get_closest_marker("local")


@contextmanager
def _session(directory: Path, servers: ExitStack) -> Iterator[SparkSession]:
    builder, kind = SparkSession.Builder(), os.environ.get(CLUSTER, "")
    if kind:
        os.environ["PYTHONPATH"] = str(ROOT)  # workers, which start elsewhere, import the tests
    match kind:
        case "connect":
            server = SparkConnectServer(directory=directory / "connect", cores=4)
            servers.callback(server.close)
            server.start()
            builder = builder.remote(server.url)
        case "standalone":
            cluster = SparkCluster(directory / "cluster", cores=2)
            servers.callback(cluster.stop)
            cluster.start()
            builder = local(builder).master(cluster.url).config("spark.task.maxFailures", "1")  # as a local one has it
        case "":
            builder = local(builder).master("local[4]")
        case other:
            raise ValueError(f"{CLUSTER} is {other!r}, not 'connect' or 'standalone'")
    session = builder.appName("trident tests").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    yield session
    session.stop()


def local(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Have the driver on the loopback network."""
    return (
        builder.config("spark.driver.memory", "2g")  # processes that the kit kills leave their objects there
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.python.authenticate.socketTimeout", "10m")  # as where the product makes the session
        .config("spark.ui.showConsoleProgress", "false")
    )
