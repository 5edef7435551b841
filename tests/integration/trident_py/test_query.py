"""Topologies as users run them: real Spark, real ZooKeeper, the public interface."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field
from pyspark.sql import SparkSession

from coordinators.backends.zookeeper.embedded import EmbeddedZooKeeper
from trident_py import (
    BatchCoordinator,
    CombinerAggregator,
    CommitterEmitter,
    CoordinationLost,
    Count,
    Emitter,
    FailedException,
    FeederBatchSpout,
    FencedError,
    FixedBatchSpout,
    IBatchSpout,
    ICommitterTridentSpout,
    ITridentSpout,
    MemoryMapState,
    PoisonBatchError,
    ReducerAggregator,
    Replay,
    RetryPolicy,
    SpoutError,
    SQLiteState,
    State,
    StateError,
    StateFactory,
    StateUpdater,
    Sum,
    TopologyContext,
    TransactionAttempt,
    TridentCollector,
    TridentConfig,
    TridentError,
    TridentTopology,
)
from trident_py.engine.spark import spark_job
from trident_py.engine.spark.task_reports import Reports

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]

PATIENCE_SECONDS = 180
LINES = [("the quick brown fox",), ("jumps over the lazy dog",), ("",), ("the end",), ("fox and dog",)]
WORDS = Counter(word for (line,) in LINES for word in line.split())


def split(row: Any) -> list[tuple[str]]:
    return [(word,) for word in row.value.split()]


def word_count(name: str, spout: Any, factory: StateFactory) -> TridentTopology:
    topology = TridentTopology(name)
    words = topology.new_stream("lines", spout).flat_map(split, "word string")
    words.group_by("word").persistent_aggregate(factory, Count(), "count")
    return topology


def fixed(batch: int = 1) -> FixedBatchSpout:
    return FixedBatchSpout("value string", batch, *LINES)


def counts(path: Path) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as database:
        return dict(database.execute("SELECT word, count FROM counts"))


def test_a_word_count_into_sqlite_goes_on_where_it_was(
    spark: SparkSession, config: TridentConfig, tmp_path: Path
) -> None:
    factory = SQLiteState(tmp_path / "counts.db", table="counts")
    with word_count("words", FixedBatchSpout("value string", 1, *LINES[:3]), factory).start(
        config, spark=spark
    ) as query:
        query.process_all_available(PATIENCE_SECONDS)
        assert query.last_progress is not None
        assert query.last_progress["txid"] == 3
    assert counts(tmp_path / "counts.db") == Counter(word for (line,) in LINES[:3] for word in line.split())
    with word_count("words", fixed(), factory).start(config, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
        assert [entry["txid"] for entry in query.recent_progress] == [4, 5]
    assert counts(tmp_path / "counts.db") == WORDS


def test_a_state_that_is_gone_stops_the_start_by_name(
    spark: SparkSession, config: TridentConfig, tmp_path: Path
) -> None:
    path = tmp_path / "counts.db"
    with word_count("words", fixed(5), SQLiteState(path, table="counts")).start(config, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
    for file in tmp_path.iterdir():
        file.unlink()
    with pytest.raises(StateError, match=r"'words': state .* is gone.*trident reset words"):
        word_count("words", fixed(5), SQLiteState(path, table="counts")).start(config, spark=spark)


def test_a_second_start_is_refused_by_name(spark: SparkSession, zookeeper: str, tmp_path: Path) -> None:
    config = TridentConfig(zookeeper=zookeeper, session_timeout=3)
    with word_count("words", fixed(), MemoryMapState.factory()).start(config, spark=spark) as query:
        with pytest.raises(FencedError, match="words"):
            word_count("words", fixed(), MemoryMapState.factory()).start(config, spark=spark)
        query.process_all_available(PATIENCE_SECONDS)


@pytest.mark.long
def test_a_killed_zookeeper_ends_the_query_by_name_and_the_next_start_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    config = TridentConfig(state_dir=tmp_path, session_timeout=2)
    spout = FeederBatchSpout("value string")
    factory = SQLiteState(tmp_path / "counts.db", table="counts")
    query = word_count("orphan", spout, factory).start(config, spark=spark)
    spout.feed(LINES[:2], timeout=PATIENCE_SECONDS)
    with EmbeddedZooKeeper.running(tmp_path / "zookeeper") as server:
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(CoordinationLost, match="'orphan': ZooKeeper"):
            query.await_termination(PATIENCE_SECONDS)
    spout = FeederBatchSpout("value string")
    with word_count("orphan", spout, factory).start(config, spark=spark):
        spout.feed(LINES[2:], timeout=PATIENCE_SECONDS)
    assert counts(tmp_path / "counts.db") == WORDS


def test_several_spouts_streams_and_states_share_transactions(spark: SparkSession, config: TridentConfig) -> None:
    topology = TridentTopology("several")
    numbers = topology.new_stream(
        "numbers", FixedBatchSpout("n bigint, kind string", 2, *[(n, "ab"[n % 2]) for n in range(7)])
    )
    words = topology.new_stream("words", fixed(2)).flat_map(split, "word string")
    sums, total, found = MemoryMapState.factory(), MemoryMapState.factory(), MemoryMapState.factory()
    numbers.group_by("kind").persistent_aggregate(sums, Sum("n"), "sum")
    numbers.persistent_aggregate(total, Count(), "total")
    words.group_by("word").persistent_aggregate(found, Count(), "count")
    with topology.start(config, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
        assert query.status["current_txid"] == 5
    assert sums.values() == {("a",): 12, ("b",): 9}
    assert total.values() == {(): 7}
    assert found.values() == {(word,): count for word, count in WORDS.items()}


class Longest(CombinerAggregator[str]):
    def init(self, row: Any) -> str:
        return str(row.word)

    def combine(self, left: str, right: str) -> str:
        return max(left, right, key=lambda word: (len(word), word))

    def zero(self) -> str:
        return ""


class Concatenated(ReducerAggregator[str]):
    def init(self) -> str:
        return ""

    def reduce(self, curr: str, row: Any) -> str:
        return "".join(sorted(curr + str(row.word[0])))


def test_user_written_aggregators_and_what_follows_the_new_values(spark: SparkSession, config: TridentConfig) -> None:
    seen: list[list[tuple[Any, ...]]] = []

    class Collected(State):
        def begin_commit(self, txid: int) -> None:
            self.txid = txid

        def commit(self, txid: int) -> None:
            assert txid == self.txid

    class CollectedFactory(StateFactory):
        def make_state(self, *arguments: Any) -> State:
            return Collected()

    class Collecting(StateUpdater[Collected]):
        def update_state(self, state: Collected, tuples: Sequence[Any], collector: TridentCollector) -> None:
            seen.append([tuple(row) for row in tuples])

    topology = TridentTopology("aggregators")
    words = topology.new_stream("lines", fixed(2)).flat_map(split, "word string")
    longest, letters = MemoryMapState.factory(), MemoryMapState.factory()
    state = words.persistent_aggregate(longest, Longest(), "longest string")
    words.persistent_aggregate(letters, Concatenated(), "letters string")
    state.new_values_stream().map(lambda row: (row.longest.upper(),), "loud string").partition_persist(
        CollectedFactory(), Collecting(), ["loud"]
    )
    with topology.start(config, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
    assert longest.values() == {(): "quick"}
    assert letters.values() == {(): "".join(sorted(word[0] for word in WORDS.elements()))}
    assert seen == [[("QUICK",)], [("QUICK",)], [("QUICK",)]]


@define
class Numbered(BatchCoordinator[int]):
    upto: int

    def initialize_transaction(self, txid: int, prev_metadata: int | None, curr_metadata: int | None) -> int:
        return curr_metadata or txid * 10

    def is_ready(self, txid: int) -> bool:
        return txid <= self.upto


@define
class CommitterSpout(ICommitterTridentSpout[int]):
    """Gives one row a batch, and keeps what its emitter was told."""

    upto: int
    calls: list[str] = field(factory=list)
    output_schema = "n bigint"

    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> Numbered:
        return Numbered(self.upto)

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> Emitter[int]:
        calls = self.calls

        class Committing(CommitterEmitter[int]):
            def emit_batch(self, attempt: TransactionAttempt, metadata: int, collector: TridentCollector) -> None:
                calls.append(f"emit {attempt}")
                collector.emit((metadata,))

            def commit(self, attempt: TransactionAttempt) -> None:
                calls.append(f"commit {attempt}")

            def success(self, attempt: TransactionAttempt) -> None:
                calls.append(f"success {attempt}")

        return Committing()


def test_a_stream_with_nothing_attached_is_processed_and_its_commit_acks_itself(
    spark: SparkSession, config: TridentConfig, tmp_path: Path
) -> None:
    log = str(tmp_path / "seen")

    def note(row: Any) -> None:
        with open(log, "a") as file:
            file.write(f"{row.value}\n")

    topology = TridentTopology("loose")
    topology.new_stream("lines", fixed(5)).peek(note)
    topology.new_stream("bare", fixed(5))
    with topology.start(config, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
        assert query.status["current_txid"] == 2
    assert sorted(Path(log).read_text().splitlines()) == sorted(line for (line,) in LINES)


def test_a_committer_spout_commits_once_per_committed_attempt_before_success(
    spark: SparkSession, config: TridentConfig
) -> None:
    spout = CommitterSpout(4)
    topology = TridentTopology("committer")
    topology.new_stream("numbers", spout)
    with topology.start(config, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
    for txid in range(1, 5):
        mine = [call for call in spout.calls if f" {txid}:" in call]
        assert mine == [f"emit {txid}:0", f"commit {txid}:0", f"success {txid}:0"]
    assert [call for call in spout.calls if call.startswith("commit")] == [f"commit {txid}:0" for txid in range(1, 5)]


def test_one_missing_report_times_the_attempt_out_and_it_is_replayed(
    spark: SparkSession, zookeeper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trident_py import FileSpout
    from trident_py.spouts.files import files

    monkeypatch.setattr(files, "SMALL_BYTES", 0)  # so that tasks read it, and report
    (tmp_path / "input").mkdir()
    for number, (line,) in enumerate(LINES):
        (tmp_path / "input" / f"{number}.txt").write_text(line + "\n")
    dropped: list[int] = []
    report = spark_job.task_reports

    def one_is_lost(reports: Reports, branch: Any) -> list[int]:
        heard = report(reports, branch)
        return heard if dropped or not heard else dropped.append(heard[0]) or heard[1:]  # type: ignore[func-returns-value]

    monkeypatch.setattr(spark_job, "task_reports", one_is_lost)
    state = MemoryMapState.factory()
    config = TridentConfig(zookeeper=zookeeper, message_timeout=3)
    spout = FileSpout(str(tmp_path / "input" / "*.txt"))
    with word_count("dropped", spout, state).start(config, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
        assert len(dropped) == 1
        assert query.recent_progress[0]["attempt_id"] == 1
    assert state.values() == {(word,): count for word, count in WORDS.items()}


def test_a_user_function_that_raises_makes_a_poison_batch_that_names_it(spark: SparkSession, zookeeper: str) -> None:
    def explode(row: Any) -> list[tuple[str]]:
        if "lazy" in row.value:
            raise ValueError(f"can't stand {row.value!r}")
        return split(row)

    config = TridentConfig(zookeeper=zookeeper, retry=RetryPolicy(attempts=2, backoff=0.01))
    topology = TridentTopology("poison")
    state = MemoryMapState.factory()
    words = topology.new_stream("lines", fixed()).flat_map(explode, "word string")
    words.group_by("word").persistent_aggregate(state, Count(), "count")
    with topology.start(config, spark=spark) as query:
        with pytest.raises(
            PoisonBatchError,
            match=r"'poison': transaction 2 failed 2 times, last as 2:1: ValueError: can't stand 'jumps",
        ):
            query.process_all_available(PATIENCE_SECONDS)
        assert isinstance(query.exception(), PoisonBatchError)
        with pytest.raises(PoisonBatchError):
            query.await_termination(PATIENCE_SECONDS)
    assert state.values() == {(word,): 1 for word in LINES[0][0].split()}


def test_a_failed_exception_in_a_task_fails_the_attempt_and_the_replay_counts_once(
    spark: SparkSession, config: TridentConfig, tmp_path: Path
) -> None:
    marker = str(tmp_path / "failed")

    def fail_once(row: Any) -> list[tuple[str]]:
        if "lazy" in row.value and not Path(marker).exists():
            Path(marker).touch()
            raise FailedException("once")
        return split(row)

    topology = TridentTopology("once")
    state = MemoryMapState.factory()
    words = topology.new_stream("lines", fixed()).flat_map(fail_once, "word string")
    words.group_by("word").persistent_aggregate(state, Count(), "count")
    with topology.start(config, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
        assert {entry["attempt_id"] for entry in query.recent_progress} >= {0, 1}
    assert state.values() == {(word,): count for word, count in WORDS.items()}


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("a string", "emitted 'a string'"),
        ((1, 2), r"emitted 2 values, \(1, 2\), for the 1 fields \['value'\]"),
        ((1,), "field 'value' is declared string, got 1 "),
    ],
)
def test_a_spout_that_emits_the_wrong_shape_ends_the_query_at_once_by_name(
    row: Any, complaint: str, spark: SparkSession, zookeeper: str
) -> None:
    class Wrong(IBatchSpout):
        output_schema = "value string"

        def emit_batch(self, batch_id: int, collector: TridentCollector) -> None:
            collector.emit(row)

    topology = TridentTopology("wrong")
    topology.new_stream("lines", Wrong())
    complaint = rf"'wrong', spout 'lines', attempt 1:0, definition None.*{complaint}"
    query = topology.start(TridentConfig(zookeeper=zookeeper), spark=spark)
    with query, pytest.raises(SpoutError, match=complaint):
        query.process_all_available(PATIENCE_SECONDS)


class FickleSpout(ITridentSpout[int]):
    """Emits another word in each attempt."""

    output_schema = "word string"
    replay = Replay.OPAQUE
    upto = 2

    def words(self, attempt: TransactionAttempt) -> Sequence[str]:
        return [f"of {attempt}"]

    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> Numbered:
        return Numbered(self.upto)

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> Emitter[int]:
        words = self.words

        class Changing(Emitter[int]):
            def emit_batch(self, attempt: TransactionAttempt, metadata: int, collector: TridentCollector) -> None:
                for word in words(attempt):
                    collector.emit((word,))

        return Changing()


class FailingOnce(State, StateFactory, StateUpdater[State]):
    """A state whose first commit fails."""

    failed = False

    def make_state(self, *arguments: Any) -> State:
        return self

    def begin_commit(self, txid: int) -> None:
        assert txid in (1, 2)

    def commit(self, txid: int) -> None:
        if not self.failed:
            self.failed = True
            raise FailedException("once")

    def update_state(self, state: State, tuples: Sequence[Any], collector: TridentCollector) -> None:
        assert len(tuples) == 1


def test_an_opaque_spout_that_emits_other_rows_in_a_replay_counts_the_last_ones(
    spark: SparkSession, config: TridentConfig
) -> None:
    topology = TridentTopology("fickle")
    stream = topology.new_stream("words", FickleSpout())
    state, failing = MemoryMapState.factory(), FailingOnce()
    stream.group_by("word").persistent_aggregate(state, Count(), "count")
    stream.partition_persist(failing, failing, ["word"])
    with topology.start(config, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
    assert state.values() == {("of 1:1",): 1, ("of 2:1",): 1}  # 1:0 was committed there, and rolled back


def test_pause_holds_new_batches_and_process_all_available_says_so(spark: SparkSession, config: TridentConfig) -> None:
    state = MemoryMapState.factory()
    with word_count("paused", fixed(), state).start(config, spark=spark) as query:
        query.pause()
        with pytest.raises(TridentError, match="paused"):
            query.process_all_available(PATIENCE_SECONDS)
        query.resume()
        query.process_all_available(PATIENCE_SECONDS)
    assert state.values() == {(word,): count for word, count in WORDS.items()}
    with pytest.raises(TridentError, match="was stopped"):
        query.process_all_available(PATIENCE_SECONDS)
