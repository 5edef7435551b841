"""`BatchEngine` in Python on the driver: for topologies in which no part needs Spark."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import TypeAlias

import pyarrow as pa
from attrs import define, evolve, field
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from coordinators.protocol.messages import Acked, Fingerprinted, Message
from coordinators.protocol.protocol import StreamId
from coordinators.values.attempt import TransactionAttempt
from trident_py.engine.plane.emitted import EmittedBatch, ReadRows, ReportedOffsets, Splits
from trident_py.engine.plane.instructions import Emit
from trident_py.engine.plane.reading import SplitRead, as_declared
from trident_py.engine.plane.sifting import Sifted, parted, sifted
from trident_py.engine.plane.work import Job, JobMember, Processed
from trident_py.engine.ports.batch_engine import BatchEngine, BatchWork, Jobs
from trident_py.engine.ports.requests import ByJob
from trident_py.errors import TopologyError
from trident_py.graph.graph import NeedsSpark, Node, Operation, RowFlow, Source, travelled
from trident_py.graph.queries import StateQuery
from trident_py.planner.plan import Branch, Plan
from trident_py.rows.row import rows_of
from trident_py.rows.schema import arrow_schema, arrow_table
from trident_py.spark.asking import Life
from trident_py.spark.frames import rows_of_frame
from trident_py.spark.session import topology_session
from trident_py.worker.counters import CountScope, building, count_scope, counting_at
from trident_py.worker.failures import by_spout, by_user_code, classified
from trident_py.worker.pipeline import Values
from trident_py.worker.sieve import Quarantine, Sieve, positioned

AskRows: TypeAlias = Callable[[StateQuery, RowFlow], RowFlow]
"""Queries a state: runs the operations before the query, and returns the rows with the answers."""


def rows_of_branch(
    branch: Branch,
    given: Mapping[str, Iterable[pa.RecordBatch]],
    batch_id: TransactionAttempt | None,
    ask: AskRows,
    *,
    travels: bool = True,
) -> RowFlow:
    """Return the result of ``branch`` for a batch. It runs only ``ask``, and the shared start of several paths.

    Args:
        branch: a branch of a plan that needs no Spark.
        given: the rows of each of its spouts.
        batch_id: the batch id that an `Aggregator` receives.
        ask: runs a ``state_query``.
        travels: whether user code runs in its own copies.

    Raises:
        NeedsSpark: an operation needs Spark.
    """
    flows: dict[Node | tuple[int, str], RowFlow] = {}
    read = Counter(map(_declared, branch.end.ancestry))

    def built(node: Node) -> RowFlow:
        known = _declared(node)
        if known not in flows:
            with building(f"node {node.number}"):
                made = flow_of(node)
                flows[known] = RowFlow.of(made.table().to_batches(), made.schema) if read[known] > 1 else made
        return flows[known]

    def flow_of(node: Node) -> RowFlow:
        if isinstance(node.operation, Source):
            return RowFlow.of(given[node.operation.tx_id], node.operation.schema, travels=travels)
        inputs = [built(each) for each in node.inputs]
        if isinstance(node.operation, StateQuery):
            return ask(node.operation, inputs[0])
        return node.operation.on_rows(inputs, batch_id)

    return built(branch.end)


def _declared(node: Node) -> Node | tuple[int, str]:
    """Return the identity of ``node``: hints make a copy of a node for each path that leads to it.

    If rows carry their partition on one path only, the copies have other first fields.
    """
    return node if node.number < 0 else (node.number, next(iter(node.fields.names), ""))


def spark_needed(planned: Plan) -> str | None:
    """Return the first declared operation that only Spark can run, or None. Runs nothing.

    Raises:
        TopologyError: a function can't be copied, so it couldn't be sent to a task.
    """
    graph, flows = planned.graph, dict[Node, RowFlow]()
    try:
        for node in graph.nodes:
            with graph.declaring(node.operation.title):
                flows[node] = _checked(node, [flows[each] for each in node.inputs])
    except NeedsSpark as needed:
        return str(needed)
    return None


def _checked(node: Node, inputs: list[RowFlow]) -> RowFlow:
    operation = node.operation
    fields = operation.origin([each.fields for each in node.inputs])
    if fields is not None:
        return RowFlow.of((), fields)
    flow = operation.on_rows(inputs, None)
    try:
        flow.made()
    except Exception as error:
        raise TopologyError(f"it can't be pickled into tasks: {type(error).__name__}: {error}") from error
    return flow


@define(kw_only=True, eq=False)
class RowEngine(BatchEngine):
    """Runs a topology without Spark, over plain rows in one partition and without tasks.

    Attributes:
        resources: closed when the topology ends.
    """

    plan: Plan
    resources: ExitStack
    _built: SparkSession | None = field(default=None, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def session(self) -> SparkSession:
        """Return a session for an emitter that requests one: created at the first call, stopped with the topology."""
        with self._lock:
            if self._built is None:
                self._built = self.resources.enter_context(topology_session(self.plan.graph.topology, None))
            return self._built

    def jobs(self, work: BatchWork) -> Jobs:
        return RowJobs(work)

    @property
    def request_jobs(self) -> ByJob:
        return request_on_rows

    def life(self) -> Life:
        return Life.ALIVE

    def watched(self, lost: Callable[[BaseException], object]) -> AbstractContextManager[None]:
        return nullcontext()


@define
class RowJobs(Jobs):
    """The jobs of one leadership, on job threads. A cancelled job continues, and its result is ignored."""

    work: BatchWork

    def process(self, job: Job, members: Sequence[JobMember]) -> Sequence[Processed]:
        if job.sieves:
            return [self._sieved(member, job.branch) for member in members]
        return [self._processed(member, job.branch) for member in members]

    def _sieved(self, member: JobMember, index: int) -> Processed:
        found: dict[str, list[int]] = {}
        for spout, pipelines in self.work.branches[index].row_functions().items():
            rows = positioned(member.inputs[spout].batch.table)
            found[spout] = [row for part in travelled(Sieve(pipelines))(rows.to_batches()) for (row,) in rows_of(part)]
        return Processed.sieved(member, found)

    def checkpoint(self, emit: Emit, batch: EmittedBatch, verify: bool) -> EmittedBatch:
        with count_scope(CountScope(node=f"reading of {emit.spout}")) as scope:
            read, notes = in_memory(batch)
        read = evolve(read, counts={**batch.counts, **scope.by_node})
        if not batch.is_read_once:
            return read
        return evolve(read, reported=ReportedOffsets(notes, read.known_rows, read.fingerprint() if verify else None))

    def sift(self, emit: Emit, batch: EmittedBatch, branch: int, quarantine: Quarantine) -> Sifted:
        with count_scope(CountScope()) as scope:
            read = in_memory(batch)[0]
            stage = travelled(quarantine)
            target = arrow_schema(quarantine.target)
            made = pa.Table.from_batches(classified(stage(read.table.to_batches()), by_user_code), target)
        fingerprint = read.fingerprint() if emit.spout in self.work.exact else None
        return sifted(quarantine, *parted(made), fingerprint=fingerprint, counts=scope.by_node)

    def rows_of(self, emit: Emit, batch: EmittedBatch) -> pa.Table:
        return in_memory(batch)[0].table

    def _processed(self, member: JobMember, index: int) -> Processed:
        with count_scope(CountScope()) as scope:
            return evolve(self._made(member, index), counts=scope.by_node)

    def _made(self, member: JobMember, index: int) -> Processed:
        branch, attempt = self.work.branches[index], member.attempt
        batches: dict[str, EmittedBatch] = {}
        for spout, given in member.inputs.items():
            counting_at(f"reading of {spout}")
            batches[spout] = in_memory(given.batch)[0]
        rows = {spout: batch.table.to_batches() for spout, batch in batches.items()}
        sifted = [spout for spout, batch in batches.items() if batch.is_sifted]
        begun = evolve(branch, end=branch.begun(sifted)) if sifted else branch
        made = rows_of_branch(begun, rows, attempt, self._ask).table()
        told: list[Message] = [Acked(attempt, StreamId.BATCH, given.edge) for given in member.inputs.values()]
        for spout in batches.keys() & self.work.exact:
            fingerprint = batches[spout].fingerprint()
            told += [Fingerprinted(attempt, spout, fingerprint)] if fingerprint else []
        read = {spout: batch.known_rows - member.inputs[spout].batch.known_rows for spout, batch in batches.items()}
        if not branch.output:
            return Processed(None, told, read)
        return Processed(made, told, read, written=made.num_rows)

    def _ask(self, query: StateQuery, flow: RowFlow) -> RowFlow:
        target = query.output([flow.schema])
        answered = self.work.reads.answered(query, rows_of(flow.table()), flow.schema)
        return RowFlow.of(arrow_table(answered, target).to_batches(), target)


def request_on_rows(operation: Operation, inputs: Sequence[tuple[Sequence[Values], StructType]]) -> Sequence[Values]:
    """Return the output rows of an ``operation`` of a request for inputs with these rows and fields."""
    flows = [RowFlow.of(arrow_table(rows, schema).to_batches(), schema) for rows, schema in inputs]
    return rows_of(operation.on_rows(flows, None).table())


def in_memory(batch: EmittedBatch) -> tuple[EmittedBatch, tuple[str, ...]]:
    """Return ``batch`` with all splits and DataFrames read into memory, and the notes of its splits.

    Raises:
        TaskFailed: a reader raised.
    """
    schema = arrow_schema(batch.schema)
    chunks: list[pa.Table | ReadRows] = []
    notes: list[str] = []
    for chunk in batch.chunks:
        if isinstance(chunk, Splits):
            read = travelled(chunk)
            readings = [SplitRead(read.read(split)) for split in read.splits]
            rows = (as_declared(rows, schema) for reading in readings for rows in classified(iter(reading), by_spout))
            table = pa.Table.from_batches(rows, schema)
            notes.extend(str(reading.returned) for reading in readings)
            told = (reading.hash for reading in readings)
            chunks.append(ReadRows.of(table, told) if chunk.fingerprinting else table)
        else:
            chunks.append(rows_of_frame(chunk).cast(schema) if isinstance(chunk, DataFrame) else chunk)
    batch.verify()
    return evolve(batch, chunks=tuple(chunks)), tuple(notes)
