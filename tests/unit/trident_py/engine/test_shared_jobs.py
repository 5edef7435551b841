"""Whose failure the failure of a shared job is, and what becomes of the others: without Spark, by the real steps."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from queue import Queue
from typing import Any

import pyarrow as pa
import pytest
from attrs import define, field
from pyspark.sql.types import LongType, StringType, StructField, StructType

from coordinators.protocol.messages import Acked, Failed, FailureKind
from coordinators.values.attempt import TransactionAttempt
from tests.unit.trident_py.engine.driving import JOB_EDGE, WITHIN_SECONDS, Driven, driven, processed, spout_of
from trident_py.engine.plane.work import Job, JobMember, Processed
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.spouts import Emitter
from trident_py.participants.participant import Leaf
from trident_py.rows.schema import arrow_schema, schema_of
from trident_py.worker.failures import TaskFailed, TaskFailure, by_user_code, task_failures_told, telling
from trident_py.worker.pipeline import FlatMapStep, RowPipeline, tagged

SOURCE = StructType([StructField("_transaction", LongType()), StructField("value", StringType())])


def parse(row: Any) -> list[tuple[int]]:
    return [(int(row.value),)]


def parsing(source: StructType) -> FlatMapStep:
    names = tuple(source.names)
    return FlatMapStep(title="parse", source=names, in_fields=names, target=schema_of("n bigint"), fn=parse)


class Texts(Emitter[str]):
    """Emits the metadata."""

    def emit_batch(self, attempt: TransactionAttempt, metadata: str, collector: TridentCollector) -> None:
        collector.emit((metadata,))


@define
class Jobs:
    """Runs a job's Python here, and hands on what it raises as Spark does: as text."""

    ran: list[list[int]] = field(factory=list)
    is_known: bool = True
    txid: int | None = None
    gate: Queue[None] = field(factory=Queue)

    def __call__(self, job: Job, members: Sequence[JobMember]) -> list[Processed]:
        assert job.is_shared, "all batches are small"
        if not self.ran:
            self.gate.get(timeout=WITHIN_SECONDS)  # so that those behind it gather
        self.ran.append([attempt.txid for attempt in job.attempts])
        assert len(self.ran) <= 2000, "an endless loop"
        with task_failures_told():
            self._run(members)
        return processed(job, members)

    def _run(self, members: Sequence[JobMember]) -> None:
        rows = [(each.attempt.txid, each.inputs["s"].batch.table["value"][0].as_py()) for each in members]
        table = pa.table(list(map(list, zip(*rows, strict=True))), schema=arrow_schema(SOURCE))
        stage = telling(RowPipeline(SOURCE).then(tagged(parsing, SOURCE)))
        try:
            list(stage(iter(table.to_batches())))
        except Exception as error:
            if self.txid is not None:
                raise TaskFailed(TaskFailure.of(error, by_user_code, txid=self.txid)) from error
            if not self.is_known:
                raise ValueError("nobody knows whose") from error
            text = "".join(traceback.format_exception(error))
        else:
            return
        raise RuntimeError(text)


@define
class World:
    driven: Driven
    jobs: Jobs

    def outcome(self, texts: Sequence[str]) -> tuple[dict[int, FailureKind], set[int]]:
        """The failed transactions, and the processed ones, of one with each of ``texts``."""
        for txid, text in enumerate(["0", *texts], 1):
            self.driven.emit(txid, {"s": text})
        for _ in ["0", *texts]:
            assert isinstance(self.driven.next(), Acked)  # by the emitter
        self.jobs.gate.put(None)
        failed: dict[int, FailureKind] = {}
        done: set[int] = set()
        while len(failed) + len(done) < len(texts) + 1:
            match self.driven.next():
                case Failed(attempt, _, kind):
                    assert attempt.txid not in failed
                    failed[attempt.txid] = kind
                case Acked(attempt, took=took) if took == JOB_EDGE:
                    done.add(attempt.txid)
        return failed, done


@pytest.fixture
def world() -> Iterator[World]:
    jobs = Jobs()
    with driven([spout_of(Texts(), "value string")], [Leaf("steps")], shareable=[0], process=jobs) as made:
        yield World(made, jobs)


@pytest.mark.parametrize(
    "text",
    [
        "in transaction 999, which shared its job",
        "in transaction 2, which shared its job",
        "x\ntrident_py.errors.FencedError: not really",
        "SparkContext was shut down",
    ],
)
def test_a_row_says_nothing_about_whose_failure_it_is(world: World, text: str) -> None:
    failed, processed = world.outcome(["2", "3", text, "5"])
    assert failed == {4: FailureKind.USER_CODE}
    assert processed == {1, 2, 3, 5}
    assert world.jobs.ran == [[1], [2, 3, 4, 5], [2, 3, 5]]


@pytest.mark.long
def test_however_many_have_a_bad_row_each_fails_for_itself(world: World) -> None:
    bad = 600  # more than Python has frames for, if each took two
    failed, processed = world.outcome(["bad"] * bad)
    assert failed == dict.fromkeys(range(2, bad + 2), FailureKind.USER_CODE)
    assert processed == {1}
    assert len(world.jobs.ran) == bad + 1


def test_where_nobody_knows_whose_failure_it_is_it_is_looked_for_by_halves(world: World) -> None:
    world.jobs.is_known = False
    failed, processed = world.outcome(["2", "3", "bad", "5"])
    assert failed == {4: FailureKind.USER_CODE}
    assert processed == {1, 2, 3, 5}
    assert world.jobs.ran == [[1], [2, 3, 4, 5], [2, 3], [4, 5], [4], [5]]


def test_a_transaction_that_is_not_in_the_job_is_not_believed_to_be(world: World) -> None:
    world.jobs.txid = 999
    failed, processed = world.outcome(["2", "bad"])
    assert failed == {3: FailureKind.USER_CODE}
    assert processed == {1, 2}
