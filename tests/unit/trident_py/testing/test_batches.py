"""Topologies run without Spark and without ZooKeeper, and say so where they can't."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from tests.unit.coordinators.backends.zookeeper.test_java import java_that_says
from tests.unit.trident_py.testing.topologies import ALL, Declared, orders, row_operations
from trident_py.errors import ConfigError, FencedError, PoisonBatchError, TopologyError
from trident_py.interfaces.config import RetryPolicy, TridentConfig
from trident_py.operations.builtin import Count, Sum
from trident_py.operations.queries import MapGet
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.memory import MemoryMapState
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.streams.stream import Stream
from trident_py.testing import LocalCoordination, run_batches
from trident_py.topology import TridentTopology
from trident_py.windows.windows import TumblingCount


@pytest.fixture(autouse=True)
def _spark_is_not_started(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = SparkContext._active_spark_context  # other tests of this process may have one
    monkeypatch.setattr("trident_py.runtime.topology_session", None)
    monkeypatch.setattr("trident_py.engine.rows.row_engine.topology_session", None)
    yield
    assert SparkContext._active_spark_context is before


LEFT: dict[str, Any] = {
    "row_operations": {("books",): 105.0, ("games",): 160.0, (None,): 28.0},
    "several_states": (
        {(): "games"},
        {("books",): 2, ("games",): 2, (None,): 1, ("",): 1, ("ü",): 1},
        {(1,): 5, (2,): 2},
    ),
    "aggregated": ({(2,): 1, (7,): 1, (4,): 1, (-1,): 1}, {(1, 2): 1, (7, 3): 1, (0, 4): 1, (-1, -1): 1}),
    "merged": {("a",): 4, ("b",): 2, ("bb",): 1, ("cc",): 1},
    "queried": ({("books",): 3, ("games",): 4}, {("games",): 1, ("books",): 1, ("toys",): 1}),
    "partitioned": ({("a",): 15, ("b",): 15}, {(): 12}),
}


@pytest.mark.parametrize("declare", ALL)
def test_a_topology_runs_without_spark(declare: Callable[[Path], Declared], tmp_path: Path) -> None:
    topology, read = declare(tmp_path)
    progress = run_batches(topology)
    assert [each["txid"] for each in progress] == list(range(1, len(progress) + 1))
    assert sum(each["num_input_rows"] for each in progress) > 0
    if declare.__name__ in LEFT:
        assert read() == LEFT[declare.__name__]


def test_the_progress_of_each_transaction_is_returned_however_many_there_are() -> None:
    topology = TridentTopology("many")
    topology.new_stream("numbers", FixedBatchSpout("n int", 1, *((number,) for number in range(130))))
    progress = run_batches(topology)
    assert [(each.txid, each["num_input_rows"]) for each in progress] == [(txid, 1) for txid in range(1, 131)]
    with pytest.raises(AttributeError, match=r"no 'rows'; there are name, timestamp, txid"):
        _ = progress[0].rows


def test_a_restart_goes_on_where_the_last_run_ended(tmp_path: Path) -> None:
    coordination = LocalCoordination()

    def counted(*words: str) -> list[int]:
        topology = TridentTopology("words")
        stream = topology.new_stream("words", FixedBatchSpout("word string", 2, *((word,) for word in words)))
        stream.group_by("word").persistent_aggregate(SQLiteState(tmp_path / "a.db", table="counts"), Count(), "n")
        return [each["txid"] for each in run_batches(topology, coordination)]

    assert counted("a", "b") == [1]
    assert counted("a", "b") == []
    assert counted("a", "b", "b", "c", "c") == [2, 3]
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        assert dict(database.execute("SELECT word, n FROM counts")) == {"a": 1, "b": 2, "c": 2}


def test_a_second_start_is_refused_or_stands_by(tmp_path: Path) -> None:
    coordination = LocalCoordination()
    config = TridentConfig(state_dir=tmp_path)
    first, _ = row_operations(tmp_path)
    second, read = row_operations(tmp_path)
    with first.start(config, coordination=coordination) as leader:
        with pytest.raises(FencedError, match=r"trident_py\.active\(\)\['rows'\]\.stop\(\)"):
            second.start(config, coordination=coordination)
        standby = second.start(config, coordination=coordination, standby=True)
        leader.process_all_available()
        assert not standby.is_leading
    standby.process_all_available()
    assert standby.is_leading
    assert coordination.describe("rows").epoch == 2
    standby.stop()
    assert read() == {}  # the first one had it all, and took it along


def test_requests_are_answered_without_spark() -> None:
    topology = TridentTopology("asked")
    state = (
        topology.new_stream("orders", orders())
        .group_by("category")
        .persistent_aggregate(MemoryMapState.factory(), Sum("quantity"), "sum")
    )
    (
        topology.new_drpc_stream("sum")
        .flat_map(lambda request: [(word,) for word in request.args.split()], "category string")
        .state_query(state, "category", MapGet(), "sum bigint")
        .aggregate(Sum("sum"), "total")
    )
    with topology.start(coordination=LocalCoordination()) as query:
        query.process_all_available()
        assert query.execute("sum", "books games toys") == [[10]]


def test_user_code_has_no_part_in_the_memory_of_the_driver_as_in_tasks() -> None:
    seen: list[str] = []
    topology = TridentTopology("peeking")
    topology.new_stream("words", FixedBatchSpout("word string", 2, ("a",))).peek(lambda row: seen.append(row.word))
    run_batches(topology)
    assert seen == []


def test_what_cannot_travel_to_tasks_is_refused() -> None:
    lock = threading.Lock()
    topology = TridentTopology("locked")
    topology.new_stream("words", FixedBatchSpout("word string", 2, ("a",))).filter(lambda row: lock.locked())
    with pytest.raises(TopologyError, match=r"'locked', filter\(.*\): it can't be pickled into tasks: .*lock"):
        run_batches(topology)


def test_code_that_fails_ends_the_topology_and_is_named() -> None:
    topology = TridentTopology("failing")
    stream = topology.new_stream("words", FixedBatchSpout("word string", 2, ("a",), ("",)))
    stream.map(lambda row: (row.word[0],), "first string")
    config = TridentConfig(retry=RetryPolicy(attempts=2, backoff=0))
    with (
        pytest.raises(PoisonBatchError, match=r"IndexError.*in map\(.*at Row\(word=''\)"),
        topology.start(config, coordination=LocalCoordination()) as query,
    ):
        query.process_all_available()


NEEDING: dict[str, Callable[[Stream], object]] = {
    "transform": lambda stream: stream.transform(lambda frame: frame),
    "filter": lambda stream: stream.filter("n > 1"),
    "partition_aggregate": lambda stream: stream.partition_aggregate(Count(), "n"),
    "broadcast": lambda stream: stream.broadcast(),
}


@pytest.mark.parametrize("operation", NEEDING)
def test_what_needs_spark_is_named_where_there_is_none(
    operation: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java_that_says('openjdk version "11.0.2"', tmp_path, monkeypatch)
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    topology = TridentTopology("large")
    NEEDING[operation](topology.new_stream("numbers", FixedBatchSpout("n int", 2, (1,), (2,))))
    with pytest.raises(ConfigError, match=rf"topology 'large' needs Spark for {operation}\(.*: .*Java is version"):
        run_batches(topology)


def test_rows_that_wait_in_a_window_are_there_after_a_restart() -> None:
    coordination = LocalCoordination()

    def fired(*rows: int) -> Any:
        table = MemoryMapState.factory()
        topology = TridentTopology("windows")
        stream = topology.new_stream("numbers", FixedBatchSpout("n int", 2, *((row,) for row in rows)))
        sums = stream.window(TumblingCount(3), "n", Sum("n"), "sum")
        sums.group_by("sum").persistent_aggregate(table, Count(), "n")
        run_batches(topology, coordination)
        return table.values()

    assert fired(1, 2) == {}
    assert fired(1, 2, 3, 4) == {(6,): 1}
    coordination = LocalCoordination()
    assert fired(1, 2) == {}
