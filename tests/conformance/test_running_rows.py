"""Rows that show when a topology runs: one of them runs once, and each test looks at what was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import define, field
from pyspark.sql import SparkSession

from coordinators.backends.zookeeper.embedded import EmbeddedZooKeeper
from trident_py import (
    BatchCoordinator,
    CommitterEmitter,
    Count,
    FailedException,
    ICommitterTridentSpout,
    MapGet,
    ReducerAggregator,
    Snapshottable,
    SQLiteState,
    State,
    StateFactory,
    StateUpdater,
    Sum,
    TopologyContext,
    TransactionAttempt,
    TridentCollector,
    TridentConfig,
    TridentTopology,
    TupleCollectionGet,
    ValueUpdater,
)

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]

PATIENCE_SECONDS = 180
BATCHES = {1: [("a", 1), ("b", 2)], 2: [], 3: [("a", 4)]}


@define
class Recorded(BatchCoordinator[list[int]]):
    """Defines three batches, the second of which is empty."""

    calls: list[Any]

    def is_ready(self, txid: int) -> bool:
        return txid in BATCHES

    def initialize_transaction(
        self, txid: int, prev_metadata: list[int] | None, curr_metadata: list[int] | None
    ) -> list[int]:
        self.calls.append(("define", txid, prev_metadata, curr_metadata))
        return curr_metadata or [txid, 10 * txid]

    def success(self, txid: int) -> None:
        self.calls.append(("coordinator success", txid))

    def close(self) -> None:
        self.calls.append(("coordinator close",))


@define
class RecordedEmitter(CommitterEmitter[list[int]]):
    """The first emission of the second batch fails, and the first commit of the third."""

    calls: list[Any]

    def emit_batch(self, attempt: TransactionAttempt, metadata: list[int], collector: TridentCollector) -> None:
        self.calls.append(("emit", str(attempt), metadata))
        if str(attempt) == "2:0":
            raise FailedException("not now")
        for row in BATCHES[attempt.txid]:
            collector.emit(row)

    def commit(self, attempt: TransactionAttempt) -> None:
        self.calls.append(("emitter commit", str(attempt)))
        if str(attempt) == "3:0":
            raise FailedException("not yet")

    def success(self, attempt: TransactionAttempt) -> None:
        self.calls.append(("emitter success", str(attempt)))

    def close(self) -> None:
        self.calls.append(("emitter close",))


@define(eq=False)
class Spout(ICommitterTridentSpout[list[int]]):
    calls: list[Any]
    output_schema = "word string, n bigint"

    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> Recorded:
        self.calls.append(("get_coordinator", tx_state_id, context.spark))
        return Recorded(self.calls)

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> RecordedEmitter:
        self.calls.append(("get_emitter", tx_state_id))
        return RecordedEmitter(self.calls)


@define(eq=False)
class Kept(Snapshottable[int], StateFactory, StateUpdater[Any]):
    """One value, and every call."""

    calls: list[Any] = field(factory=list)
    value: int | None = None

    def make_state(self, conf: TridentConfig, metrics: Any, partition_index: int, num_partitions: int) -> State:
        metrics.add("made")
        self.calls.append(("made", conf.max_spout_pending, metrics.values(), partition_index, num_partitions))
        return self

    def begin_commit(self, txid: int) -> None:
        self.calls.append(("begin", txid))

    def commit(self, txid: int) -> None:
        self.calls.append(("commit", txid))

    def get(self) -> int | None:
        return self.value

    def set(self, value: int) -> None:
        self.value = value

    def update(self, updater: ValueUpdater[int]) -> int:
        self.value = updater(self.value)
        self.calls.append(("value", self.value))
        return self.value

    def update_state(self, state: State, tuples: Sequence[Any], collector: TridentCollector) -> None:
        assert state is self
        self.calls.append(("rows", sorted(map(tuple, tuples))))


class Total(ReducerAggregator[int]):
    def init(self) -> int:
        return 100

    def reduce(self, curr: int, row: Any) -> int:
        return curr + int(row.n)


@define
class Run:
    """What was recorded of a run, and what it answered."""

    spout: list[Any]
    persisted: list[Any]
    combined: list[Any]
    reduced: list[Any]
    answers: dict[str, Any]
    attempts: list[tuple[int, int]]
    exception: BaseException | None

    def of(self, *kinds: str) -> list[Any]:
        return [call for call in self.spout if call[0] in kinds]


@pytest.fixture(scope="module")
def run(spark: SparkSession, zookeeper_server: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Run:
    topology, calls = TridentTopology("recorded"), list[Any]()
    persisted, combined, reduced = Kept(), Kept(), Kept()
    words = topology.new_stream("words", Spout(calls))
    words.partition_persist(persisted, persisted, ["n"])
    words.name("combined").persistent_aggregate(combined, Sum("n"), "total")
    words.name("reduced").persistent_aggregate(reduced, Total(), "total bigint")
    path = tmp_path_factory.mktemp("recorded") / "counts.db"
    counts = words.group_by("word").persistent_aggregate(SQLiteState(path, table="counts"), Count(), "count")
    topology.new_drpc_stream("grouped").group_by("args").state_query(counts, "args", MapGet(), "n bigint")
    asked = topology.new_drpc_stream("joined")
    every = asked.state_query(counts, "args", TupleCollectionGet(), "word string, n bigint").project("word", "n")
    topology.join(every, "word", asked.map(lambda row: (row.args,), "key string"), "key", ["word", "n"])
    lengths = topology.new_drpc_stream("by_partition").flat_map(lambda row: [(w,) for w in row.args], "word string")
    spread = lengths.partition("ascii(word)").parallelism_hint(3).filter(lambda row: row.word != "z")
    spread.partition_aggregate(Count(), "n").filter("n >= 0").broadcast().parallelism_hint(2)
    hosts = f"{zookeeper_server.hosts}/conformance"
    with topology.start(TridentConfig(zookeeper=hosts, max_spout_pending=1), spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
        answers = {args: [query.execute(name, args) for name in ("grouped", "joined")] for args in ("a", "x")}
        answers["by_partition"] = query.execute("by_partition", "aabz")
        attempts = [(entry["txid"], entry["attempt_id"]) for entry in query.recent_progress]
    return Run(calls, persisted.calls, combined.calls, reduced.calls, answers, attempts, query.exception())


def test_S16_ST1_ST4_a_state_is_visited_by_every_batch_also_an_empty_one(run: Run) -> None:
    assert run.persisted[1:4] == [("begin", 1), ("rows", [(1,), (2,)]), ("commit", 1)]
    assert run.persisted[4:7] == [("begin", 2), ("rows", []), ("commit", 2)]
    assert run.persisted[-3:] == [("begin", 3), ("rows", [(4,)]), ("commit", 3)]


def test_S17_S18_an_empty_batch_updates_with_zero_where_it_is_combined_and_not_where_it_is_reduced(run: Run) -> None:
    combined, reduced = [[call[-1] for call in calls if call[0] == "value"] for calls in (run.combined, run.reduced)]
    assert combined == [3, 3, 7]
    assert reduced == [103, 107]


def test_ST9_ST27_what_is_not_grouped_goes_into_one_value(run: Run) -> None:
    assert run.combined[1:4] == [("begin", 1), ("value", 3), ("commit", 1)]
    assert run.reduced[1:6] == [("begin", 1), ("value", 103), ("commit", 1), ("begin", 2), ("commit", 2)]


def test_O13_ST2_a_state_is_told_its_partition_and_given_metrics(run: Run) -> None:
    assert run.persisted[0] == ("made", 1, {"made": 1}, 0, 1)
    assert run.reduced[0][0] == "made"


def test_P2_P3_P4_one_coordinator_defines_and_one_emitter_emits(run: Run) -> None:
    assert run.of("get_coordinator", "get_emitter") == [("get_coordinator", "words", None), ("get_emitter", "words")]
    defined = run.of("define")
    assert [call for call in defined if call[-1] is None] == [
        ("define", 1, None, None),
        ("define", 2, [1, 10], None),
        ("define", 3, [2, 20], None),
    ]
    assert [call for call in defined if call[-1] is not None] == [  # for the replays
        ("define", 2, [1, 10], [2, 20]),
        ("define", 3, [2, 20], [3, 30]),
    ]
    emitted = [("1:0", [1, 10]), ("2:0", [2, 20]), ("2:1", [2, 20]), ("3:0", [3, 30]), ("3:1", [3, 30])]
    assert [call[1:] for call in run.of("emit")] == emitted
    assert [call[1] for call in run.of("coordinator success")] == [1, 2, 3]


def test_I_6_an_exception_in_emit_batch_fails_the_attempt(run: Run) -> None:
    assert run.attempts == [(1, 0), (2, 1), (3, 1)]


def test_b4_5_an_exception_in_the_commit_of_a_spout_fails_the_attempt(run: Run) -> None:
    assert [call[1] for call in run.of("emitter commit")] == ["1:0", "2:1", "3:0", "3:1"]
    assert [call[1] for call in run.of("emitter success")] == ["1:0", "2:1", "3:1"]
    assert run.exception is None


def test_D1_a_request_joins_itself_and_asks_a_sql_state(run: Run) -> None:
    assert run.answers["a"] == [[["a", 2]], [["a", 2]]]
    assert run.answers["x"] == [[["x", None]], []]
    assert sorted(run.answers["by_partition"]) == [[0], [0], [1], [1], [2], [2]]  # as a batch: three, in two copies


def test_b1_18_stopping_closes_what_was_opened(run: Run) -> None:
    assert sorted(run.spout[-2:]) == [("coordinator close",), ("emitter close",)]
