"""What a start finds out before it starts anything: neither ZooKeeper nor Spark is there in these tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext

from tests.unit.coordinators.backends.zookeeper.test_java import java_that_says
from trident_py.errors import ConfigError, CoordinationLost, StateError
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.states import StateFactory
from trident_py.operations.builtin import Count
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.memory import MemoryMapState
from trident_py.states.sql.postgres import PostgresState
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.topology import TridentTopology


def counting(factory: StateFactory) -> TridentTopology:
    topology = TridentTopology("wc")
    stream = topology.new_stream("lines", FixedBatchSpout("word string", 1, ("a",)))
    stream.group_by("word").persistent_aggregate(factory, Count(), "n")
    return topology


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> TridentConfig:
    """Of a machine with a Java, as far as one can see from its version."""
    java_that_says('openjdk version "17.0.2"', tmp_path, monkeypatch)
    return TridentConfig(state_dir=tmp_path / "state")


@pytest.fixture(autouse=True)
def _nothing_is_started(tmp_path: Path) -> Iterator[None]:
    before = SparkContext._active_spark_context  # other tests of this process may have one
    yield
    assert SparkContext._active_spark_context is before
    assert not (tmp_path / "state" / "zookeeper" / "server.log").exists()


def test_a_java_that_is_too_old_is_told_before_anything_is_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java_that_says('openjdk version "11.0.2"', tmp_path, monkeypatch)
    config = TridentConfig(state_dir=tmp_path / "state")
    with pytest.raises(ConfigError, match=r'Java is version "11\.0\.2" .*`trident doctor`'):
        counting(MemoryMapState.factory()).start(config)


def test_a_database_that_does_not_answer_is_told_before_anything_is_started(config: TridentConfig) -> None:
    state = PostgresState("host=127.0.0.1 port=1 dbname=orders", table="revenue")
    with pytest.raises(StateError, match=r"topology 'wc', state 'revenue': table 'revenue' of .*; check the server"):
        counting(state).start(config)


def test_a_database_file_that_cannot_be_made_is_told_before_anything_is_started(
    config: TridentConfig, tmp_path: Path
) -> None:
    with pytest.raises(StateError, match=r"state 'counts': .* there is no directory .*/nowhere; to fix this: make it"):
        counting(SQLiteState(tmp_path / "nowhere" / "a.db", table="counts")).start(config)
    with pytest.raises(StateError, match="unable to open database file"):
        counting(SQLiteState(tmp_path, table="counts")).start(config)
    (tmp_path / "text").write_text("this is no database, but a text that is long enough for a header" * 9)
    with pytest.raises(StateError, match="file is not a database; to fix this"):
        counting(SQLiteState(tmp_path / "text", table="counts")).start(config)


@pytest.mark.parametrize("standby", [False, True])
def test_a_zookeeper_whose_name_has_no_address_is_told_before_anything_is_started(
    standby: bool, config: TridentConfig, tmp_path: Path
) -> None:
    elsewhere = TridentConfig(state_dir=config.state_dir, zookeeper="no-such-host.invalid:2181")
    with pytest.raises(CoordinationLost, match=r"no such host \(no-such-host\.invalid: "):
        counting(MemoryMapState.factory()).start(elsewhere, standby=standby)
