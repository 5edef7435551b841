"""Spark jobs of a leadership, except shared ones.

`MicroBatches` runs one branch of one attempt as one job: it builds the frames, prepares the receipt, and reports every
edge. The class `RequestJobs` runs operations of requests. `CommitSession` provides the session for jobs in commits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial

import pyarrow as pa
from attrs import define, field, frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import StructType

from coordinators.protocol.messages import Acked, Fingerprinted, Message
from coordinators.protocol.protocol import StreamId
from coordinators.values.attempt import TransactionAttempt
from trident_py.engine.plane.emitted import EmittedBatch, ReportedOffsets
from trident_py.engine.plane.instructions import Emit
from trident_py.engine.plane.sifting import Sifted, parted, sifted
from trident_py.engine.plane.work import JobMember, Processed
from trident_py.engine.ports.batch_engine import BatchWork
from trident_py.engine.ports.commit_thread import CommitThread
from trident_py.engine.ports.job_names import JobNames
from trident_py.engine.spark.input_frames import frame_of, input_of
from trident_py.engine.spark.task_reports import Reports
from trident_py.errors import TopologyError
from trident_py.graph.flow import Flow
from trident_py.graph.graph import Operation
from trident_py.graph.queries import QueryStage, StateQuery
from trident_py.participants.context import CommitSpark
from trident_py.planner.plan import Branch
from trident_py.rows.row import rows_of
from trident_py.rows.schema import arrow_table
from trident_py.spark import jobs
from trident_py.spark.counting import CountingJob, CountingJobs, mapped
from trident_py.spark.frames import DeferredScan, frame_of_rows, kept
from trident_py.worker.counters import building, counting_at
from trident_py.worker.failures import task_failures_told
from trident_py.worker.pipeline import Values
from trident_py.worker.sieve import BAD, FOUND, Quarantine, Sieve, positioned


@frozen
class RequestJobs:
    """Runs operations that only Spark can, over rows on the driver.

    Attributes:
        tag: of the jobs.
        description: for Spark's UI.
    """

    session: SparkSession
    tag: str
    description: str

    def __call__(self, operation: Operation, inputs: Sequence[tuple[Sequence[Values], StructType]]) -> Sequence[Values]:
        """Return the output rows of ``operation`` for inputs with these rows and fields."""
        flows = [
            Flow.of(frame_of_rows(self.session, arrow_table(rows, schema), schema), schema) for rows, schema in inputs
        ]
        with jobs.tagged(self.session, self.tag, self.description), task_failures_told():
            return rows_of(operation.build(flows, None).native().toArrow())


@frozen
class CommitSession(CommitSpark):
    """The session for jobs within commits.

    Attributes:
        thread: the commit thread, whose work the tasks of an attempt do.
    """

    session: SparkSession
    names: JobNames
    thread: CommitThread

    @contextmanager
    def running(self, attempt: TransactionAttempt | None = None) -> Iterator[SparkSession]:
        """Tag the jobs that the block runs in the session, on the commit thread."""
        topology = self.names.topology
        with ExitStack() as running:
            if attempt is None:
                tag, description = (
                    f"trident:{topology}:{self.names.epoch}:commits",
                    f"{topology}: new values, in a commit",
                )
            else:
                tag, description = self.names.tag(attempt), self.names.description([attempt], "changes its states")
                running.enter_context(jobs.grouped(self.session, tag))
                running.enter_context(self.thread.by_tasks(partial(jobs.tasks_done, self.session, tag)))
            running.enter_context(jobs.tagged(self.session, tag, description))
            running.enter_context(task_failures_told())
            yield self.session


@define(kw_only=True, eq=False)
class MicroBatches:
    """Processes attempts in a Spark session.

    Attributes:
        session: the topology's own session.
        work: the leadership's.
    """

    session: SparkSession
    work: BatchWork
    _counting: CountingJobs = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._counting = CountingJobs(self.session)

    def process(self, member: JobMember, index: int) -> Processed:
        """Run branch ``index`` of an attempt; return its result. Called on a job thread."""
        again = self.work.participants[index].capabilities.prepares_again
        return self._counting.run(index, lambda counting: self._process(member, index, counting), again=again)

    def sieve(self, member: JobMember, index: int) -> Processed:
        """Find the rows of an attempt, which are in memory, that make a row function of branch ``index`` raise."""
        found: dict[str, list[int]] = {}
        branch, name = self.work.branches[index], self.work.participants[index].name
        for spout, pipelines in branch.row_functions().items():
            batch = member.inputs[spout].batch
            rows, schema = positioned(batch.table), StructType([*batch.schema.fields, *FOUND.fields])
            with self._named(member.attempt, f"→ {name}"), task_failures_told():
                frame = frame_of(self.session, EmittedBatch(schema, (rows,)), None)
                found[spout] = [row for (row,) in rows_of(mapped(frame, Sieve(pipelines), FOUND).toArrow())]
        return Processed.sieved(member, found)

    def _process(self, member: JobMember, index: int, counting: CountingJob) -> Processed:
        work, attempt = self.work, member.attempt
        branch, participant = work.branches[index], work.participants[index]
        heard: dict[str, Reports] = {}
        done = work.draw_edge()
        told: list[Message] = []
        for spout, given in member.inputs.items():
            tasks = given.batch.tasks if participant.capabilities.reads_all else 0
            edges = [work.draw_edge() for _ in range(tasks)]
            heard[spout] = Reports(edges, spout in work.exact)
            # The first input's edge leads to the job itself, each one's to the tasks that read it.
            made = [*edges, *([] if told else [done])]
            told.append(Acked(attempt, StreamId.BATCH, given.edge, tuple(made)))
        with self._named(attempt, f"→ {participant.name}"), task_failures_told():
            frames = {
                spout: self._input(spout, given.batch, heard[spout] if participant.capabilities.reads_all else None)
                for spout, given in member.inputs.items()
            }
            sifted = [spout for spout, given in member.inputs.items() if given.batch.is_sifted]
            frame = branch.build(frames, attempt, partial(self._ask, member), sifted)
            if counting.is_listening and not participant.capabilities.reads_all:
                frame = self._kept(frame, is_observed=True)  # so its counts are the same, however often it is read
            counting_at(f"output of {participant.name}")
            receipt = participant.prepare(work.transaction(attempt, member.time), frame, self._collect)
            for given in member.inputs.values():
                given.batch.verify()
        for spout, reports in heard.items():
            told += [Acked(attempt, StreamId.BATCH, edge) for edge in task_reports(reports, branch)]
            fingerprint = member.inputs[spout].batch.fingerprint(reports.fingerprint()) if spout in work.exact else None
            if fingerprint is not None:
                told.append(Fingerprinted(attempt, spout, fingerprint))
        rows = {spout: reports.rows for spout, reports in heard.items()}
        counts = {node: counts for (_, node), counts in counting.heard().items()}
        written = participant.receipt_rows(receipt)
        return Processed(receipt, [*told, Acked(attempt, StreamId.BATCH, done)], rows, counts, written)

    def _input(self, spout: str, batch: EmittedBatch, reports: Reports | None) -> DataFrame | DeferredScan:
        with building(f"reading of {spout}"):
            return input_of(self.session, batch, reports)

    def checkpoint(self, emit: Emit, batch: EmittedBatch, verify: bool) -> EmittedBatch:
        """Return the same rows, read once and stored.

        It is a checkpoint, so that rows that are lost with an executor fail the attempt instead of being read again.
        """
        return self._counting.run(emit.spout, lambda counting: self._checkpoint(emit, batch, verify, counting))

    def _checkpoint(self, emit: Emit, batch: EmittedBatch, verify: bool, counting: CountingJob) -> EmittedBatch:
        reports = Reports(hashing=verify, counts_frames=batch.hashes_frames) if batch.is_read_once else None
        read_by = building(f"reading of {emit.spout}")
        with self._named(emit.attempt, f"of {emit.spout}"), task_failures_told(), read_by:
            frame = self._kept(frame_of(self.session, batch, reports), is_observed=reports is not None)
            batch.verify()
        counts = {**batch.counts, **{node: counts for (_, node), counts in counting.heard().items()}}
        if reports is None:
            return EmittedBatch(batch.schema, (frame,), counts=counts)
        fingerprint = batch.fingerprint(reports.fingerprint()) if verify else None
        return EmittedBatch(batch.schema, (frame,), ReportedOffsets(reports.notes(), reports.rows, fingerprint), counts)

    def sift(self, emit: Emit, batch: EmittedBatch, index: int, quarantine: Quarantine) -> Sifted:
        """Run the row functions of branch ``index`` before it; return their output, and the bad rows."""
        key = emit.spout, index
        return self._counting.run(key, lambda counting: self._sift(emit, batch, index, quarantine, counting))

    def _sift(
        self, emit: Emit, batch: EmittedBatch, index: int, quarantine: Quarantine, counting: CountingJob
    ) -> Sifted:
        # A frame that is kept can't be observed in Spark Connect, so there the rows are sent to the driver.
        is_collected = batch.is_small or jobs.spark_context(self.session) is None
        reports = Reports(range(1, batch.tasks + 1), emit.spout in self.work.exact)
        with (
            self._named(emit.attempt, f"→ {self.work.branches[index].name}, leaving out bad rows"),
            task_failures_told(),
        ):
            given = self._input(emit.spout, batch, reports)
            if quarantine.fixed:  # one task must see all rows, to find as many equal ones as were left out
                given = (given.frame() if isinstance(given, DeferredScan) else given).coalesce(1)
            made = Flow.of(given, quarantine.pipeline.source).staged(quarantine, quarantine.target).frame
            chunk: pa.Table | DataFrame
            if is_collected:
                chunk, bad = parted(made.toArrow())
            else:
                kept = self._kept(made, is_observed=False)
                is_bad = F.col(BAD).isNotNull()
                chunk, bad = kept.where(~is_bad).drop(BAD), kept.where(is_bad).select(f"{BAD}.*").toArrow()
            batch.verify()
        fingerprint = batch.fingerprint(reports.fingerprint()) if emit.spout in self.work.exact else None
        counts = {node: counted for (_, node), counted in counting.heard().items()}
        return sifted(quarantine, chunk, bad, fingerprint=fingerprint, counts=counts)

    def rows_of(self, emit: Emit, batch: EmittedBatch) -> pa.Table:
        """Return the rows of ``batch``, in the memory of the driver."""
        if batch.is_settled:
            return batch.table
        with self._named(emit.attempt, f"of {emit.spout}, to store its rows"), task_failures_told():
            rows = frame_of(self.session, batch, None).toArrow()
            batch.verify()
        return rows

    def _kept(self, frame: DataFrame, *, is_observed: bool) -> DataFrame:
        if is_observed and jobs.spark_context(self.session) is None:
            raise TopologyError(
                "Spark Connect doesn't deliver the reports of tasks while their rows are kept (PySpark drops the "
                "observations of a checkpoint). So spouts whose tasks determine the batch, DataFrames that must be the "
                "same again, and counters before some sinks can't run there. To fix this: run this topology on a master"
            )
        return frame.localCheckpoint(eager=True)

    def cancel(self, attempt: TransactionAttempt) -> None:
        """Cancel the running jobs of ``attempt``."""
        jobs.cancel(self.session, self.work.names.tag(attempt))

    def _ask(self, member: JobMember, query: StateQuery, flow: Flow) -> Flow:
        # Reads every row and makes a new frame, so tasks report here as they would in the branch's own job.
        target = query.output([flow.schema])
        is_large = not all(given.batch.is_small for given in member.inputs.values())
        reader = self.work.reads.task_reader(query) if is_large else None
        if reader is not None and jobs.spark_context(self.session) is not None:
            flow = Flow.of(kept(flow.native()), flow.schema)  # commits have to wait for the answers only
            answers = partial(self._answers, member.attempt, QueryStage(query, flow.schema, reader).over(flow))
            return Flow.of(self.work.reads.now(lambda _: answers(), query.title), target)
        rows = rows_of(self._collect(flow.native()))
        answered = arrow_table(self.work.reads.answered(query, rows, flow.schema), target)
        return Flow.of(frame_of_rows(self.session, answered, target), target)

    def _answers(self, attempt: TransactionAttempt, asked: Flow) -> DataFrame:
        """Let tasks answer a query; called on the commit thread, while no transaction commits."""
        with self._named(attempt, "asks a state"), task_failures_told():
            return kept(asked.native())

    def _named(self, attempt: TransactionAttempt, what: str) -> AbstractContextManager[None]:
        names = self.work.names
        return jobs.tagged(self.session, names.tag(attempt), names.description([attempt], what))

    def _collect(self, frame: DataFrame) -> pa.Table:
        return frame.toArrow()


def task_reports(reports: Reports, branch: Branch) -> list[int]:
    """Return the edges of the tasks that reported.

    If a user's ``transform`` may stop reading early (``limit``), all edges: a job that succeeded has read enough.
    """
    heard = reports.heard()
    return heard if branch.reads_all else list(reports.edges)
