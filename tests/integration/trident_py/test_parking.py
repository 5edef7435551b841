"""Batches that are left out, and counted once when they are released; with real states and sinks."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from attrs import define, field
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from tests.integration.trident_py.test_partitioned_spouts import Library, OpaqueLibrary, books, counted
from tests.topologies import until
from trident_py import (
    Count,
    DeltaSink,
    FileSink,
    FixedBatchSpout,
    IBatchSpout,
    ICommitterTridentSpout,
    PoisonBatchError,
    ReducerAggregator,
    RetryPolicy,
    SQLiteState,
    SQLSink,
    Sum,
    TopologyContext,
    TridentCollector,
    TridentConfig,
    TridentQuery,
    TridentTopology,
)
from trident_py.cli import main, rows, tx, wish
from trident_py.errors import TridentError
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey, TransactionalSink
from trident_py.testing import LocalCoordination
from trident_py.windows import TumblingCount, TumblingDuration

PATIENCE_SECONDS = 60.0
BAD = 4


@define
class Fails:
    """A row function that can't take one of the rows until there is a file."""

    mended: Path

    def __call__(self, row: Any) -> tuple[int, str]:
        if row.n == BAD and not self.mended.exists():
            raise ValueError(f"{row.n} is bad")
        return row.n, "odd" if row.n % 2 else "even"


def config(**settings: Any) -> TridentConfig:
    return TridentConfig(retry=RetryPolicy(attempts=2, backoff=0.01), **settings)


def run(
    topology: TridentTopology, coordination: LocalCoordination, spark: SparkSession | None = None, **settings: Any
) -> TridentQuery:
    query = topology.start(config(on_poison="park", **settings), coordination=coordination, spark=spark)
    query.process_all_available(PATIENCE_SECONDS)
    return query


def numbers(topology: TridentTopology, mended: Path, rows: int = 8) -> Any:
    spout = FixedBatchSpout("n bigint", 2, *[(n,) for n in range(1, rows + 1)])
    return topology.new_stream("numbers", spout).map(Fails(mended), "n bigint, kind string")


def select(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return sorted(connection.execute(query).fetchall())


class SumOfGood(ReducerAggregator[int]):
    """Runs in the commit, and can't take one of the rows."""

    def init(self) -> int:
        return 0

    def reduce(self, curr: int, row: Any) -> int:
        if row.n == BAD:
            raise ValueError(f"{row.n} is bad")
        return curr + int(row.n)


def test_of_transactions_that_commit_together_only_the_one_that_fails_is_parked(tmp_path: Path) -> None:
    topology = TridentTopology("sums")
    rows = topology.new_stream("numbers", FixedBatchSpout("n bigint", 1, *[(n,) for n in range(1, 41)]))
    state = SQLiteState(tmp_path / "sums.db", table="sums")
    kinds = rows.map(lambda row: (row.n, "odd" if row.n % 2 else "even"), "n bigint, kind string")
    kinds.group_by("kind").persistent_aggregate(state, SumOfGood(), "sum bigint")
    query = run(topology, LocalCoordination(), max_spout_pending=16, state_dir=tmp_path)
    assert [each.txid for each in query.parked()] == [BAD]
    query.stop()
    even = sum(range(2, 41, 2)) - BAD
    assert select(tmp_path / "sums.db", "SELECT kind, sum FROM sums") == [("even", even), ("odd", sum(range(1, 41, 2)))]


def test_a_batch_with_a_bad_row_is_parked_and_counts_once_it_is_released(tmp_path: Path) -> None:
    database, mended = tmp_path / "all.db", tmp_path / "mended"
    topology = TridentTopology("mended")
    stream = numbers(topology, mended)
    stream.persistent_aggregate(SQLiteState(database, table="total"), Sum("n"), "total")
    counts = stream.group_by("kind").persistent_aggregate(SQLiteState(database, table="counts"), Count(), "n")
    stream.name("log").write_to(SQLSink(f"sqlite:///{database}", "log"))
    latest = SQLSink(f"sqlite:///{database}", "latest", mode="upsert", keys="kind")
    counts.new_values_stream().name("latest").write_to(latest)
    pairs = SQLiteState(tmp_path / "w.db", table="pairs")
    windows = stream.window(TumblingCount(4), "n", Sum("n"), "sum", store=pairs)
    windows.name("windows").write_to(SQLSink(f"sqlite:///{tmp_path / 'w.db'}", "sums"))
    with run(topology, LocalCoordination()) as query:
        (parked,) = query.parked()
        assert (parked.txid, parked.by) == (2, "on_poison")
        assert "4 is bad" in parked.error
        assert select(database, "SELECT total FROM total") == [(36 - 3 - 4,)]
        assert select(database, "SELECT kind, n FROM latest") == [("even", 3), ("odd", 3)]
        assert select(database, "SELECT n FROM log") == [(1,), (2,), (5,), (6,), (7,), (8,)]
        assert select(tmp_path / "w.db", "SELECT sum FROM sums") == [(1 + 2 + 5 + 6,)]
        mended.touch()
        assert not query.release(2).refused
        query.process_all_available(PATIENCE_SECONDS)
        assert query.parked() == ()
    assert select(database, "SELECT total FROM total") == [(36,)]
    assert select(database, "SELECT kind, n FROM latest") == [("even", 4), ("odd", 4)]
    assert select(database, "SELECT n FROM log") == [(n,) for n in range(1, 9)]
    assert select(tmp_path / "w.db", "SELECT sum FROM sums") == [(14,), (7 + 8 + 3 + 4,)]


def event_windows(directory: Path, mended: Path, *, reads_late: bool) -> TridentTopology:
    """Each batch of two rows is a minute, and a window of a minute fires with the batch after it."""
    topology = TridentTopology("minutes")
    timed = numbers(topology, mended).map(
        lambda row: (row.n, datetime(2024, 5, 1, 12, (row.n - 1) // 2, tzinfo=UTC)), "n bigint, at timestamp"
    )
    fired = timed.window(
        TumblingDuration(60), ["n"], Sum("n"), "sum", timestamp="at", watermark=timedelta(0), max_ahead=timedelta.max
    )
    fired.project("sum").name("fired").write_to(SQLSink(f"sqlite:///{directory / 'w.db'}", "fired"))
    if reads_late:
        late = fired.late_rows().project("n", "late_reason")
        late.name("late").write_to(SQLSink(f"sqlite:///{directory / 'w.db'}", "late"))
    return topology


def test_released_rows_that_are_late_for_a_window_go_to_its_late_rows(tmp_path: Path) -> None:
    mended = tmp_path / "mended"
    with run(event_windows(tmp_path, mended, reads_late=True), LocalCoordination(), state_dir=tmp_path) as query:
        mended.touch()
        query.release(2)
        query.process_all_available(PATIENCE_SECONDS)
    assert select(tmp_path / "w.db", "SELECT sum FROM fired") == [(1 + 2,), (5 + 6,)]
    assert select(tmp_path / "w.db", "SELECT n, late_reason FROM late") == [(3, "late"), (BAD, "late")]


def test_where_nobody_reads_late_rows_a_release_is_refused_unless_they_may_be_lost(tmp_path: Path) -> None:
    mended = tmp_path / "mended"
    with run(event_windows(tmp_path, mended, reads_late=False), LocalCoordination(), state_dir=tmp_path) as query:
        mended.touch()
        for refused in (query.release, query.bisect):
            with pytest.raises(TridentError, match=r"nothing reads late_rows\(\) of 'numbers-window'"):
                refused(2)
        query.release(2, late=True)
        query.process_all_available(PATIENCE_SECONDS)
        assert query.parked() == ()
    assert select(tmp_path / "w.db", "SELECT sum FROM fired") == [(1 + 2,), (5 + 6,)]


@pytest.mark.long
@pytest.mark.spark
def test_files_a_delta_table_and_a_database_leave_the_same_batch_out(spark: SparkSession, tmp_path: Path) -> None:
    mended, coordination = tmp_path / "mended", LocalCoordination()
    topology = TridentTopology("agreeing")
    stream = numbers(topology, mended)
    stream.name("files").write_to(FileSink(tmp_path / "files", format="json"))
    stream.name("delta").write_to(DeltaSink(tmp_path / "delta"))
    stream.name("log").write_to(SQLSink(f"sqlite:///{tmp_path / 'log.db'}", "log"))

    def found() -> list[list[int]]:
        files = spark.read.json(str(tmp_path / "files")).select("n").collect()
        log = select(tmp_path / "log.db", "SELECT n FROM log")
        return [sorted(row.n for row in files), of_delta(tmp_path / "delta"), [n for (n,) in log]]

    with run(topology, coordination, spark) as query:
        assert found() == [[1, 2, 5, 6, 7, 8]] * 3
        assert [each.txid for each in query.parked()] == [2]
    mended.touch()
    with run(topology, coordination, spark) as query:  # the next leader
        assert [each.txid for each in query.parked()] == [2]
        query.release()
        query.process_all_available(PATIENCE_SECONDS)
    assert found() == [[*range(1, 9)]] * 3


@define
class Refuses(TransactionalSink[int]):
    """A sink that refuses the second transaction until there is a file, and can tell which it has."""

    mended: Path
    last: CommitToken | None = None
    rows: int = 0

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        return self.last

    def prepare(self, tx: SinkTransaction, frame: DataFrame) -> int:
        return frame.count()

    def commit(self, tx: SinkTransaction, receipt: int) -> None:
        if tx.txid == 2 and tx.parks is None and not self.mended.exists():
            raise ValueError("not this one")
        tx.ensure_parkable(self.last)
        if self.last is None or tx.txid > self.last.txid:
            self.last, self.rows = tx.token, self.rows + receipt

    def can_park(self, tx: SinkTransaction) -> bool:
        return tx.leaves_nothing(self.last)

    def abort(self, tx: SinkTransaction, receipt: int | None) -> None:
        pass


def halves(first: TransactionalSink[Any], second: TransactionalSink[Any]) -> TridentTopology:
    topology = TridentTopology("halves")
    stream = topology.new_stream("numbers", FixedBatchSpout("n bigint", 2, *[(n,) for n in range(1, 7)]))
    stream.name("first").write_to(first)
    stream.name("second").write_to(second)
    return topology


@pytest.mark.long
@pytest.mark.spark
def test_a_delta_table_takes_out_again_what_another_sink_refuses(spark: SparkSession, tmp_path: Path) -> None:
    second = Refuses(tmp_path / "mended")
    with run(halves(DeltaSink(tmp_path / "rows"), second), LocalCoordination(), spark) as query:
        assert [each.txid for each in query.parked()] == [2]
        assert (of_delta(tmp_path / "rows"), second.rows) == ([1, 2, 5, 6], 4)
        second.mended.touch()
        query.release()
        query.process_all_available(PATIENCE_SECONDS)
    assert (of_delta(tmp_path / "rows"), second.rows) == ([*range(1, 7)], 6)


@pytest.mark.long
@pytest.mark.spark
def test_what_files_have_is_not_left_out_and_comes_to_the_others(spark: SparkSession, tmp_path: Path) -> None:
    second, coordination = Refuses(tmp_path / "mended"), LocalCoordination()
    topology = halves(FileSink(tmp_path / "rows", format="json"), second)
    with pytest.raises(
        PoisonBatchError, match="It can't be parked either: 'first': it has it, and can't remove its rows"
    ):
        run(topology, coordination, spark)
    second.mended.touch()
    with run(topology, coordination, spark) as query:
        assert query.parked() == ()
    assert second.rows == 6


def of_delta(path: Path) -> list[int]:
    return sorted(DeltaTable(path).to_pyarrow_table()["n"].to_pylist())


def test_an_operator_parks_what_waits_for_its_replay_and_skips_it(tmp_path: Path) -> None:
    database = tmp_path / "total.db"
    topology = TridentTopology("operated")
    numbers(topology, tmp_path / "never").persistent_aggregate(SQLiteState(database, table="total"), Sum("n"), "total")
    settings = TridentConfig(retry=RetryPolicy(attempts=9, backoff=3600.0, backoff_max=3600.0))
    with topology.start(settings, coordination=LocalCoordination()) as query:
        until(lambda: query.status.failures.keys() == {2})
        with pytest.raises(TridentError, match="transaction 9 has not begun"):
            query.park(9)
        query.park(2, "wrong prices")
        query.process_all_available(PATIENCE_SECONDS)
        assert [(each.txid, each.reason, each.by) for each in query.parked()] == [(2, "wrong prices", "the program")]
        query.skip(2, "a test")
        assert query.parked() == ()
    assert select(database, "SELECT total FROM total") == [(36 - 7,)]


def test_a_wish_does_not_wait_for_a_leader_that_can_not_come(tmp_path: Path) -> None:
    topology = TridentTopology("ended")
    numbers(topology, tmp_path / "never").persistent_aggregate(
        SQLiteState(tmp_path / "t.db", table="total"), Sum("n"), "total"
    )
    query = topology.start(config(), coordination=LocalCoordination())
    with pytest.raises(PoisonBatchError):
        query.await_termination(PATIENCE_SECONDS)
    with pytest.raises(TimeoutError, match="no process leads topology 'ended': the next leader carries out the wish"):
        query.park(2, timeout=10 * PATIENCE_SECONDS)


def test_the_command_line_shows_what_is_parked_and_releases_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    coordination, mended = LocalCoordination(), tmp_path / "mended"

    @contextmanager
    def existing(_: object) -> Iterator[LocalCoordination]:
        yield coordination

    monkeypatch.setattr(tx, "existing", existing)
    monkeypatch.setattr(wish, "existing", existing)
    monkeypatch.setattr(rows, "existing", existing)
    topology = TridentTopology("told")
    numbers(topology, mended).persistent_aggregate(SQLiteState(tmp_path / "t.db", table="total"), Sum("n"), "total")
    history = tmp_path / "history.db"
    with topology.start(
        config(on_poison="park", history=history, state_dir=tmp_path), coordination=coordination
    ) as query:
        query.process_all_available(PATIENCE_SECONDS)

        def told(*words: str, status: int = 0) -> str:
            assert main(["tx", "told", *words, "--state-dir", str(tmp_path)]) == status
            return capsys.readouterr().out

        listing = ["tx", "told", "list", "--state-dir", str(tmp_path)]
        until(lambda: main(listing) == 0 and "committed" in capsys.readouterr().out)  # the history is written later
        assert "transaction 2 is parked, since " in told("list")
        shown = json.loads(told("show", "2", "--json"))
        assert [each["outcome"] for each in shown["attempts"]] == ["failed", "failed", "parked"]
        assert "2 failures, the last: ValueError: 4 is bad" in told("show", "2")
        assert shown["wishes"][0]["action"] == "park"
        assert "park by on_poison " in told("show", "2")
        assert "topology 'told': transaction 7 is not parked; nothing was changed" in told("skip", "7", status=1)
        mended.touch()
        assert "processes transaction 2 again" in told("release", "2")
        query.process_all_available(PATIENCE_SECONDS)
        assert "is parked" not in told("list")
        assert "tries the lowest transaction at once" in told("retry")
    assert select(tmp_path / "t.db", "SELECT total FROM total") == [(36,)]


def test_the_command_line_shows_the_rows_that_are_parked_and_finds_those_that_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    coordination = LocalCoordination()

    @contextmanager
    def existing(_: object) -> Iterator[LocalCoordination]:
        yield coordination

    monkeypatch.setattr(rows, "existing", existing)
    monkeypatch.setattr(wish, "existing", existing)
    topology = TridentTopology("told")
    numbers(topology, tmp_path / "never").persistent_aggregate(
        SQLiteState(tmp_path / "t.db", table="total"), Sum("n"), "total"
    )

    def told(*words: str, status: int = 0) -> str:
        assert main(["tx", "told", *words, "--state-dir", str(tmp_path)]) == status
        said = capsys.readouterr()
        return said.err if status else said.out

    with topology.start(config(on_poison="park", state_dir=tmp_path), coordination=coordination) as query:
        query.process_all_available(PATIENCE_SECONDS)
        assert "is not parked, and only of a parked one are rows kept" in told("rows", "1", status=1)
        assert "spout 'numbers', 2 rows:" in told("rows", "2")
        given = json.loads(told("rows", "2", "--json"))
        assert given == [{"spout": "numbers", "rows": [{"_position": 0, "n": 3}, {"_position": 1, "n": BAD}]}]
        found = told("bisect", "2")
        assert "the rows of transaction 2 that fail: row 1 of spout 'numbers' (positions from 0)." in found
        query.process_all_available(PATIENCE_SECONDS)
        assert "2 rows" not in told("rows", "2", "--parquet", str(tmp_path / "bad.parquet"))
        assert pq.read_table(tmp_path / "bad.parquet")["n"].to_pylist() == [BAD]


@pytest.mark.parametrize("words", [["park"], ["release"], ["release", "1", "--all"], ["skip"], ["list", "--all"]])
def test_a_command_that_names_too_few_or_too_many_is_explained(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tx", "told", *words]) == 2
    assert "trident tx NAME" in capsys.readouterr().err


@define
class Queue:
    """A source that gives each row away: what was acked is gone, and a replay may have more rows than before."""

    rows: list[int]
    given: dict[int, list[int]] = field(factory=dict)

    def take(self, batch_id: int) -> list[int]:
        taken = [*self.given.get(batch_id, ()), *self.rows[:2]]
        self.rows, self.given[batch_id] = self.rows[2:], taken
        return taken


@define
class FromQueue(IBatchSpout):
    """An opaque spout; with ``fails_at``, it can't emit that batch a third time."""

    queue: Queue
    fails_at: int = 0
    tries: int = field(default=0, init=False)
    output_schema = "n bigint"

    def emit_batch(self, batch_id: int, collector: TridentCollector) -> None:
        self.tries += batch_id == self.fails_at
        if self.tries > 2:
            raise ValueError("the queue is broken")
        for n in self.queue.take(batch_id):
            collector.emit((n,))

    def ack(self, batch_id: int) -> None:
        self.queue.given.pop(batch_id, None)


def from_queue(queue: Queue, tmp_path: Path, **options: Any) -> TridentTopology:
    topology = TridentTopology("queue")
    stream = topology.new_stream("queue", FromQueue(queue, **options)).map(
        Fails(tmp_path / "mended"), "n bigint, k string"
    )
    stream.persistent_aggregate(SQLiteState(tmp_path / "x.db", table="x"), Sum("n"), "total")
    return topology


def opaque_config(tmp_path: Path, **settings: Any) -> TridentConfig:
    return config(on_poison="park", state_dir=tmp_path / "state", batch_interval=0.02, **settings)


def test_rows_that_a_spout_can_not_emit_again_are_stored_and_released_under_a_later_leader(tmp_path: Path) -> None:
    queue, coordination = Queue([*range(1, 9)]), LocalCoordination()
    with from_queue(queue, tmp_path).start(opaque_config(tmp_path), coordination=coordination) as query:
        until(lambda: not queue.rows and bool(query.parked()) and not any(queue.given.values()))
        (parked,) = query.parked()
    (stored,) = parked.stored.values()
    left = pa.ipc.open_file(tmp_path / "state" / "queue-parked" / stored.file).read_all()["n"].to_pylist()
    assert BAD in left
    assert len(left) == stored.rows
    assert select(tmp_path / "x.db", "SELECT total FROM x") == [(36 - sum(left),)]
    (tmp_path / "mended").touch()
    with from_queue(queue, tmp_path).start(opaque_config(tmp_path), coordination=coordination) as query:
        query.release(parked.txid)
        until(lambda: query.parked() == ())
    assert select(tmp_path / "x.db", "SELECT total FROM x") == [(36,)]


def test_stored_rows_that_are_gone_stay_on_the_list_with_the_reason(tmp_path: Path) -> None:
    queue, coordination = Queue([*range(1, 9)]), LocalCoordination()
    with from_queue(queue, tmp_path).start(opaque_config(tmp_path), coordination=coordination) as query:
        until(lambda: bool(query.parked()))
        (parked,) = query.parked()
        (file,) = (tmp_path / "state" / "queue-parked").iterdir()
        file.rename(tmp_path / "elsewhere")
        (tmp_path / "mended").touch()
        query.release()
        until(lambda: "is missing" in query.parked()[0].error)
        assert query.parked()[0].txid == parked.txid
        (tmp_path / "elsewhere").rename(file)
        query.release()
        until(lambda: query.parked() == () and not queue.rows)
    assert select(tmp_path / "x.db", "SELECT total FROM x") == [(36,)]


def test_a_batch_that_can_not_be_emitted_once_more_is_not_parked(tmp_path: Path) -> None:
    topology = from_queue(Queue([*range(1, 9)]), tmp_path, fails_at=2)
    query = topology.start(opaque_config(tmp_path), coordination=LocalCoordination())
    with pytest.raises(PoisonBatchError, match=r"can't be parked either: its rows could not be stored: .*is broken"):
        query.await_termination(PATIENCE_SECONDS)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("spout", [Library, OpaqueLibrary])
def test_a_batch_of_a_partitioned_spout_is_parked_and_the_partitions_go_on_behind_it(
    spout: Any, spark: SparkSession, tmp_path: Path
) -> None:
    for name in "ab":
        (tmp_path / "shelves" / name).mkdir(parents=True)

    def check(row: Any) -> None:
        if row.book == "b2" and not (tmp_path / "mended").exists():
            raise ValueError("b2 is torn")

    def library(batches: int) -> TridentTopology:
        return books(tmp_path / "shelves", spout(tmp_path / "shelves", batches), lambda stream: stream.peek(check))

    coordination = LocalCoordination()
    for batches in (2, 4):
        with library(batches).start(opaque_config(tmp_path), coordination=coordination, spark=spark) as query:
            query.process_all_available(PATIENCE_SECONDS)
            (parked,) = query.parked()
            assert (parked.txid, parked.stored["books"].rows) == (2, 4)
    assert sorted(counted(tmp_path / "books.db")) == [f"{shelf}{n}" for shelf in "ab" for n in (0, 1, 4, 5, 6, 7)]
    (tmp_path / "mended").touch()
    with library(4).start(opaque_config(tmp_path), coordination=coordination, spark=spark) as query:
        query.release()
        query.process_all_available(PATIENCE_SECONDS)
    assert counted(tmp_path / "books.db") == {f"{shelf}{n}": 1 for shelf in "ab" for n in range(8)}


class Noting(FixedBatchSpout, ICommitterTridentSpout[Any]):
    """Notes what its emitter is told to commit, and which successes it hears of."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.committed: list[str] = []
        self.succeeded: list[int] = []

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> Any:
        emitter: Any = super().get_emitter(tx_state_id, conf, context)
        emitter.commit = lambda attempt: self.committed.append(str(attempt))
        emitter.success = lambda attempt: self.succeeded.append(attempt.txid)
        return emitter


def test_a_committer_spout_commits_what_is_parked_and_not_its_release(tmp_path: Path) -> None:
    coordination, mended = LocalCoordination(), tmp_path / "mended"

    def started(spout: Noting) -> TridentQuery:
        topology = TridentTopology("noting")
        stream = topology.new_stream("numbers", spout).map(Fails(mended), "n bigint, kind string")
        stream.persistent_aggregate(SQLiteState(tmp_path / "x.db", table="x"), Sum("n"), "n")
        return run(topology, coordination)

    rows = [(n,) for n in range(1, 7)]
    with started(spout := Noting("n bigint", 2, *rows)) as query:
        assert [each.txid for each in query.parked()] == [2]
        assert [each.partition(":")[0] for each in spout.committed] == ["1", "2", "3"]
        assert spout.succeeded == [1, 2, 3]
        assert select(tmp_path / "x.db", "SELECT n FROM x") == [(1 + 2 + 5 + 6,)]
    mended.touch()
    with started(spout := Noting("n bigint", 2, *rows)) as query:
        query.release()
        query.process_all_available(PATIENCE_SECONDS)
        assert query.parked() == ()
    assert spout.committed == []
    assert select(tmp_path / "x.db", "SELECT n FROM x") == [(21,)]
