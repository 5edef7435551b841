"""States over a user's store, queries of states, and requests, on real Spark and ZooKeeper."""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field
from pyspark.sql import SparkSession

from trident_py import (
    Count,
    FailedException,
    FeederBatchSpout,
    FixedBatchSpout,
    IBatchSpout,
    MapGet,
    MemoryMapState,
    OpaqueMap,
    OpaqueValue,
    QueryFunction,
    ReadOnlyMapState,
    ReadOnlyState,
    Replay,
    RequestError,
    SnapshotGet,
    SQLiteState,
    State,
    StateError,
    StateFactory,
    StateUpdater,
    Sum,
    TridentCollector,
    TridentConfig,
    TridentError,
    TridentTopology,
    TupleCollectionGet,
)
from trident_py.states import IBackingMap, JSONOpaqueSerializer

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]

PATIENCE_SECONDS = 180


@define(eq=False)
class Made(StateFactory):
    """Makes a state as a function says."""

    make: Callable[[], State]

    def make_state(self, *_: Any) -> State:
        return self.make()


class Lengths(ReadOnlyState, ReadOnlyMapState[int]):
    """The length of each word; notes who asks."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def multi_get(self, keys: Sequence[Any]) -> list[int | None]:
        self.asked.append(len(keys))
        return [len(word) or None for (word,) in keys]


# --- backing maps -----------------------------------------------------------------------------------------------------


def test_st13_st16_the_example_of_a_custom_state_counts_once_over_restarts(
    spark: SparkSession, config: TridentConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    example = importlib.import_module("examples.custom_state")
    (tmp_path / "logs").mkdir()

    def counts() -> dict[str, Any]:
        files = (tmp_path / "counts").glob("*.json")
        return {file.stem: JSONOpaqueSerializer().deserialize(file.read_bytes()) for file in files}

    for number, line in enumerate(["to be or not to be\n", "be\n"]):
        (tmp_path / "logs" / f"{number}.txt").write_text(line)
        with example.topology.start(config, spark=spark) as query:
            query.process_all_available(PATIENCE_SECONDS)
    assert counts() == {
        "to": OpaqueValue(1, 2),
        "be": OpaqueValue(2, 3, 2),
        "or": OpaqueValue(1, 1),
        "not": OpaqueValue(1, 1),
    }
    assert "exactly-once unless a leader" in example.topology.explain()


@define(eq=False)
class Fickle(IBatchSpout):
    """Gives another word in each attempt of its two batches."""

    output_schema = "word string"
    replay = Replay.OPAQUE
    attempts: int = 0

    def emit_batch(self, batch_id: int, collector: TridentCollector) -> None:
        self.attempts += 1
        if batch_id <= 2:
            collector.emit((f"of attempt {self.attempts}",))


@define(eq=False)
class FailsOnce(State, StateUpdater[State]):
    """A state whose first commit fails."""

    done: list[int] = field(factory=list)
    failed: bool = False

    def begin_commit(self, txid: int) -> None: ...

    def commit(self, txid: int) -> None:
        if not self.failed:
            self.failed = True
            raise FailedException("once")
        self.done.append(txid)

    def update_state(self, state: State, tuples: Sequence[Any], collector: TridentCollector) -> None: ...


@define
class Entries(IBackingMap[Any]):
    entries: dict[tuple[Any, ...], Any] = field(factory=dict)

    def multi_get(self, keys: Sequence[Any]) -> list[Any]:
        return [self.entries.get(tuple(key)) for key in keys]

    def multi_put(self, keys: Sequence[Any], values: Sequence[Any]) -> None:
        self.entries.update(zip(map(tuple, keys), values, strict=True))


def test_st16_a_replay_with_other_rows_takes_back_what_the_failed_attempt_had_committed(
    spark: SparkSession, zookeeper: str, caplog: pytest.LogCaptureFixture
) -> None:
    store, failing = Entries(), FailsOnce()
    topology = TridentTopology("fickle")
    words = topology.new_stream("words", Fickle())
    words.group_by("word").persistent_aggregate(OpaqueMap.factory(lambda: store, cache_size=5), Count(), "count")
    words.name("failing").partition_persist(Made(lambda: failing), failing, "word")
    with topology.start(TridentConfig(zookeeper=zookeeper, max_spout_pending=1), spark=spark) as query:
        while len(failing.done) < 2:
            query.await_termination(0.05)
    (warned,) = [record.message for record in caplog.records if "instead" in record.message]
    assert warned.startswith("topology 'fickle': state 'failing' behind spout 'words': at-least-once: nothing says")
    counted = sorted(key[0] for key, value in store.entries.items() if value.curr)
    assert counted == ["of attempt 2", "of attempt 3"]
    assert store.entries[("of attempt 1",)].curr is None


# --- queries ----------------------------------------------------------------------------------------------------------


def test_s15_state_query_asks_once_a_batch_and_spark_goes_on_with_the_rows(
    spark: SparkSession, config: TridentConfig, tmp_path: Path
) -> None:
    lengths = Lengths()
    topology = TridentTopology("asking")
    static = topology.new_static_state(Made(lambda: lengths))
    lines = topology.new_stream("lines", FixedBatchSpout("value string", 2, ("to be",), ("or",), ("not",), ("",)))
    words = lines.flat_map(lambda row: [(word,) for word in row.value.split(" ")], "word string")
    asked = words.state_query(static, "word", MapGet(), "length int")
    asked.filter("length is not null").group_by("length").persistent_aggregate(
        SQLiteState(tmp_path / "lengths.db", table="lengths"), Count(), "count"
    )
    with topology.start(config, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
        assert [entry["attempt_id"] for entry in query.recent_progress] == [0, 0]
    with closing(sqlite3.connect(tmp_path / "lengths.db")) as database:
        assert dict(database.execute("SELECT length, count FROM lengths")) == {2: 3, 3: 1}
    assert sorted(lengths.asked) == [2, 3]


def test_s15_a_batch_sees_what_earlier_transactions_have_committed(spark: SparkSession, zookeeper: str) -> None:
    topology = TridentTopology("earlier")
    words = topology.new_stream("words", FixedBatchSpout("word string", 1, ("a",), ("a",), ("b",), ("a",)))
    counts, seen = MemoryMapState.factory(), MemoryMapState.factory()
    state = words.group_by("word").persistent_aggregate(counts, Count(), "count")
    words.state_query(state, "word", MapGet(), "before bigint").group_by("word").persistent_aggregate(
        seen, Sum("before"), "sum"
    )
    with topology.start(TridentConfig(zookeeper=zookeeper, max_spout_pending=1), spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
    assert counts.values() == {("a",): 3, ("b",): 1}
    assert seen.values() == {("a",): 0 + 1 + 2, ("b",): 0}


def test_s15_a_query_of_the_wrong_kind_of_state_stops_the_start_by_name(
    spark: SparkSession, config: TridentConfig
) -> None:
    topology = TridentTopology("wrong-kind")
    state = topology.new_static_state(Made(Lengths))
    topology.new_drpc_stream("all").state_query(state, "args", TupleCollectionGet(), "word string, n int")
    with pytest.raises(
        StateError, match="TupleCollectionGet asks a ITupleCollection, and state 'static-state' is a Len"
    ):
        topology.start(config, spark=spark)


# --- requests ---------------------------------------------------------------------------------------------------------


def test_t7_t9_the_example_of_reach_answers(spark: SparkSession, config: TridentConfig) -> None:
    """As Storm's TridentReach does over the same tables."""
    example = importlib.import_module("examples.reach")
    with example.topology.start(config, spark=spark) as query:
        assert query.execute("reach", "aaa") == [[0]]
        assert query.execute("reach", "foo.com/blog/1") == [[16]]
        assert query.execute("reach", "engineering.twitter.com/blog/5") == [[14]]


class Explosive(QueryFunction[Any, Any]):
    def batch_retrieve(self, state: Any, args: Sequence[Any]) -> Sequence[Any]:
        raise KeyError("no such thing")

    def execute(self, row: Any, result: Any, collector: TridentCollector) -> None: ...


def test_t7_drpc_requests_see_all_states_at_one_transaction_while_batches_run(
    spark: SparkSession, config: TridentConfig
) -> None:
    topology = TridentTopology("requests")
    spout = FeederBatchSpout("word string")
    words = topology.new_stream("words", spout)
    total = words.persistent_aggregate(MemoryMapState.factory(), Count(), "total")
    counts = words.group_by("word").persistent_aggregate(MemoryMapState.factory(), Count(), "count")
    asked = topology.new_drpc_stream("both").state_query(total, "args", SnapshotGet(), "total bigint")
    asked.state_query(counts, "args", MapGet(), "count bigint").project("total", "count")
    with topology.start(config, spark=spark) as query, ThreadPoolExecutor(1) as feeding:
        fed = [feeding.submit(spout.feed, [("a",)], timeout=PATIENCE_SECONDS) for _ in range(5)]
        answers = []
        while not fed[-1].done():
            answers.append(query.execute("both", "a", timeout=PATIENCE_SECONDS))
        answers.append(query.execute("both", "a"))
        assert all(total == count for [[total, count]] in answers)
        assert len({total for [[total, _]] in answers}) > 2
        assert answers[-1] == [[5, 5]]
        assert query.execute("both", "b") == [[5, None]]
    with pytest.raises(TridentError, match="was stopped"):
        query.execute("both", "a")


def test_t7_drpc_requests_group_aggregate_and_fail_without_harm_to_the_topology(
    spark: SparkSession, config: TridentConfig
) -> None:
    topology = TridentTopology("answers")
    words = topology.new_stream("words", FixedBatchSpout("word string", 1, ("a",), ("b",), ("a",)))
    counts = words.group_by("word").persistent_aggregate(MemoryMapState.factory(), Count(), "count")
    every = topology.new_drpc_stream("all").state_query(counts, "args", TupleCollectionGet(), "word string, n bigint")
    every.filter("n > 1").group_by("word").aggregate(Sum("n"), "sum")
    topology.new_drpc_stream("explode").state_query(counts, "args", Explosive(), "n int")
    topology.new_drpc_stream("divide").map(lambda row: (1 // int(row.args),), "n int").transform(
        lambda frame: frame.selectExpr("cast(raise_error('not so') as string) as n"), "n string"
    )
    with topology.start(config, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
        assert query.execute("all", "") == [["a", 2]]
        for function, args, complaint in (
            ("explode", "a", r"'answers', function 'explode': KeyError: 'no such thing'; in state_query"),
            ("divide", "0", "function 'divide': ZeroDivisionError"),
            ("divide", "1", "not so"),
            ("none", "", "has no function 'none'; there are: 'all', 'explode', 'divide'"),
        ):
            with pytest.raises(RequestError, match=complaint):
                query.execute(function, args)
        assert query.execute("all", "") == [["a", 2]]
        assert query.exception() is None
        assert {entry["attempt_id"] for entry in query.recent_progress} == {0}
