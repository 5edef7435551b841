"""What a batch is compared by when it is emitted again: the same by every road that it may take through Spark."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from attrs import define
from pyspark.sql import DataFrame, SparkSession

from coordinators.protocol.messages import Fingerprinted, Message
from coordinators.record.store import TopologyIdentity
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Fingerprint
from coordinators.values.errors import About
from tests.servers.spark import NEEDS_REPORTS
from trident_py.engine.plane.emitted import EmittedBatch, ReportedOffsets
from trident_py.engine.plane.instructions import Emit
from trident_py.engine.plane.work import BranchInput, Job, JobMember
from trident_py.engine.ports.batch_engine import BatchWork
from trident_py.engine.ports.job_names import JobNames
from trident_py.engine.ports.reads import StateReads
from trident_py.engine.rows.row_engine import RowJobs
from trident_py.engine.spark import input_frames
from trident_py.engine.spark.shared_job import SharedJobs, shareable, small_session
from trident_py.engine.spark.spark_job import MicroBatches
from trident_py.engine.threads.spout_executor import SpoutCollector
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.sinks import SinkTransaction, TransactionalSink, TransactionKey
from trident_py.operations.builtin import Count
from trident_py.participants.participant import Leaf, Participant, SinkParticipant
from trident_py.planner.plan import Branch, plan
from trident_py.rows.row import hash_rows
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.spouts.files.content import open_content
from trident_py.spouts.files.files import FileEmitter
from trident_py.spouts.files.formats import TextLines
from trident_py.spouts.files.identity import Identity
from trident_py.spouts.files.lines import LineReader, Piece
from trident_py.spouts.files.splits import Split
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.memory import MemoryMapState
from trident_py.topology import TridentTopology

pytestmark = pytest.mark.spark

SCHEMA = schema_of(
    "word string, n bigint, at timestamp, day date, price decimal(7, 2), ratio double, "
    "seen map<string, timestamp>, parts array<struct<a: int, b: binary>>"
)
NOON = datetime(2026, 7, 1, 12, 30, 15, 123456, UTC)
ROWS = [
    (
        None if n % 7 == 0 else f"wört {n}",
        n,
        NOON + timedelta(minutes=n),
        date(1900, 1, 1) + timedelta(days=n),
        Decimal(n) / 4,
        float("nan") if n % 5 == 0 else -0.0,
        {"b": NOON, "a": None},
        [(None, b"\x00"), None, (n, b"")],
    )
    for n in range(500)
]
LINES = TextLines.fields
TABLE = arrow_table(ROWS, SCHEMA)
ATTEMPT = TransactionAttempt(3, 1)


class Discarding(TransactionalSink[int]):
    """Reads what it is given, and keeps nothing."""

    def recover(self, topology: TopologyIdentity, epoch: int) -> None:
        """There is nothing to recover."""

    def prepare(self, tx: SinkTransaction, frame: DataFrame) -> int:
        return frame.count()

    def commit(self, tx: SinkTransaction, receipt: int) -> None:
        """There is nothing to commit."""

    def abort(self, tx: SinkTransaction, receipt: int | None) -> None:
        """There is nothing to give up."""


class Slices:
    """Reads rows of `TABLE`."""

    def __call__(self, split: tuple[int, int]) -> Iterator[pa.RecordBatch]:
        yield from TABLE.slice(split[0], split[1] - split[0]).to_batches(40)


def collector(schema: Any = SCHEMA, reports_offsets: bool = False) -> SpoutCollector:
    return SpoutCollector("the test", schema, Metrics(), About(), reports_offsets)


def emitted_rows(_: Path) -> Iterator[EmittedBatch]:
    """Row by row, and as Arrow data in pieces."""
    one, other = collector(), collector()
    for row in ROWS:
        one.emit(row)
    for first in range(0, len(ROWS), 90):
        other.emit_arrow(TABLE.slice(first, 90))
    yield from (one.collected(), other.collected())


def emitted_splits(_: Path) -> Iterator[EmittedBatch]:
    """By one task, by three, by the driver."""
    for cuts, on_driver in (([], False), ([100, 450], False), ([7], True)):
        one = collector()
        splits = list(itertools.pairwise([0, *cuts, len(ROWS)]))
        one.emit_splits(splits, Slices(), on_driver=on_driver)
        yield one.collected()


def emitted_notes(_: Path) -> Iterator[EmittedBatch]:
    """By tasks that give notes."""
    for cuts in ([], [100, 450]):
        one = collector(reports_offsets=True)
        one.emit_splits(list(itertools.pairwise([0, *cuts, len(ROWS)])), Slices())
        yield one.collected()


def emitted_lines(directory: Path) -> Iterator[EmittedBatch]:
    """Lines that the driver reads; the same ones where tasks do, in another encoding."""
    file = directory / "a.txt"
    file.write_bytes("fünf\r\nsix\n\n".encode() * 900)
    few, many = collector(LINES), collector(LINES)
    size = file.stat().st_size
    with open_content(str(file)) as content:
        identity = Identity.of(content, size)
    FileEmitter(LineReader(TextLines("utf-8", "strict")), 2).emit_batch(
        ATTEMPT, [Split(str(file), 0, size, size, identity).stored], few
    )
    cuts = itertools.pairwise([0, 1000, 5001, size])
    pieces = [[Piece(str(file), 0, size, *cut, identity)] for cut in cuts]
    many.emit_splits(pieces, LineReader(TextLines("latin-1", "replace")), fingerprinting=True)
    yield from (few.collected(), many.collected())


@define
class Roads:
    """The roads that a batch may take through Spark; each gives the fingerprints that the driver is told."""

    spark: SparkSession

    def alone(self, batch: EmittedBatch, *, meeting: bool = False, end: Participant | None = None) -> list[Fingerprint]:
        """In a job of its own, in which ways from the spout may meet."""
        topology = TridentTopology("t")
        stream = topology.new_stream("s", FixedBatchSpout(batch.schema, 1))
        if meeting:
            topology.merge(stream, stream.filter(bool))
        return told(self._jobs(topology, end or Leaf("s")).process(member(batch), 0).reports)

    def shared(self, batch: EmittedBatch) -> list[Fingerprint]:
        """In a job that it shares with another one."""
        topology = TridentTopology("t")
        name = batch.schema.names[0]
        topology.new_stream("s", FixedBatchSpout(batch.schema, 1)).group_by(name).persistent_aggregate(
            MemoryMapState.factory(), Count(), "count"
        )
        other = member(EmittedBatch(batch.schema, (batch.table.slice(0, 3),)), TransactionAttempt(4, 0))
        with small_session(self.spark) as small:
            work = self._work(topology, Leaf("s"))
            jobs = SharedJobs(session=small, work=work, branches=shareable(small, work.branches))
            return told(jobs.process([member(batch), other], 0)[0].reports)

    def checkpointed(self, batch: EmittedBatch) -> list[Fingerprint]:
        """By a job that keeps the rows."""
        reported = self.reported(batch, is_driver=False)
        return [reported.fingerprint] if reported and reported.fingerprint else []

    def reported(self, batch: EmittedBatch, *, is_driver: bool) -> ReportedOffsets | None:
        """What is known of it when it was read once."""
        work = self._work(TridentTopology("t"), Leaf("s"))
        jobs = RowJobs(work) if is_driver else MicroBatches(session=self.spark, work=work)
        return jobs.checkpoint(Emit(ATTEMPT, 3, "s", None), batch, True).reported

    def on_driver(self, batch: EmittedBatch) -> list[Fingerprint]:
        """Without Spark."""
        topology = TridentTopology("t")
        topology.new_stream("s", FixedBatchSpout(batch.schema, 1))
        jobs = RowJobs(self._work(topology, Leaf("s")))
        return told(jobs.process(Job(0, (ATTEMPT,)), [member(batch)])[0].reports)

    def _jobs(self, topology: TridentTopology, end: Participant) -> MicroBatches:
        return MicroBatches(session=self.spark, work=self._work(topology, end))

    def _work(self, topology: TridentTopology, end: Participant) -> BatchWork:
        return BatchWork(
            exact=frozenset({"s"}),
            names=JobNames("t", 1),
            branches=branches(topology),
            participants=[end],
            transaction=lambda attempt, time: SinkTransaction(TransactionKey("u", 0, attempt.txid), attempt, 1, time),
            draw_edge=itertools.count(1).__next__,
            reads=StateReads("t", {}),
        )


def branches(topology: TridentTopology) -> tuple[Branch, ...]:
    return plan(topology._graph).branches


def member(batch: EmittedBatch, attempt: TransactionAttempt = ATTEMPT) -> JobMember:
    return JobMember(attempt, 0, {"s": BranchInput(1, batch)})


def told(reports: Sequence[Message]) -> list[Fingerprint]:
    return [each.fingerprint for each in reports if isinstance(each, Fingerprinted)]


@pytest.fixture(params=["as they are", "other settings"])
def roads(request: pytest.FixtureRequest, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Roads:
    if request.param == "as they are":
        return Roads(spark)
    monkeypatch.setattr(input_frames, "TABLE_BYTES_MAX", 0)
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    session.conf.set("spark.sql.shuffle.partitions", "1")
    session.conf.set("spark.sql.jsonGenerator.ignoreNullFields", "false")
    return Roads(session)


@pytest.mark.parametrize(
    ("emitted", "kind"), [(emitted_rows, "rows"), (emitted_splits, "rows"), (emitted_lines, "read")]
)
def test_each_road_gives_the_fingerprint_that_each_other_gives(
    roads: Roads, tmp_path: Path, emitted: Callable[[Path], Iterator[EmittedBatch]], kind: str
) -> None:
    batches = list(emitted(tmp_path))
    (expected,) = roads.alone(batches[0])
    assert (expected.rows, expected.kind) == (2700 if kind == "read" else len(ROWS), kind)
    assert kind == "read" or expected == hash_rows(TABLE)
    for batch in batches:
        assert roads.alone(batch) == [expected]
        assert roads.on_driver(batch) == [expected]
        if batch.is_small:
            assert roads.shared(batch) == [expected]
    assert roads.alone(batches[1], meeting=True) == [expected]
    assert roads.alone(batches[1], end=SinkParticipant("s", Discarding())) == ([] if batches[1].tasks else [expected])


@NEEDS_REPORTS
def test_what_tasks_note_has_the_fingerprint_of_the_same_rows(roads: Roads, tmp_path: Path) -> None:
    assert [roads.checkpointed(batch) for batch in emitted_notes(tmp_path)] == [[hash_rows(TABLE)]] * 2


@NEEDS_REPORTS
def test_what_is_noted_without_spark_has_it_too(roads: Roads, tmp_path: Path) -> None:
    for batch in emitted_notes(tmp_path):
        by_spark, here = (roads.reported(batch, is_driver=is_driver) for is_driver in (False, True))
        assert here == by_spark
