"""A batch as a Spark DataFrame: converts the emissions of a spout, whose reading tasks report to the acker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import groupby

import pyarrow as pa
from attrs import field, frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from coordinators.values.canonical import Fingerprint
from trident_py.engine.plane.emitted import EmittedBatch, Splits
from trident_py.engine.plane.reading import SplitRead, as_declared
from trident_py.engine.spark.task_reports import REPORT, Reports, TaskReport
from trident_py.rows.row import hash_rows
from trident_py.rows.schema import arrow_schema, nullable
from trident_py.spark.counting import mapped
from trident_py.spark.frames import DeferredScan, empty_frame, frame_of_rows
from trident_py.spark.jobs import parallelism
from trident_py.spark.resources import StageResources
from trident_py.worker.counters import built_node, drawn_at
from trident_py.worker.failures import Stage, by_spout, by_user_code, classified

TABLE_BYTES_MAX = 256 * 1024
"""Larger tables are sent to the tasks as part of their code.

``createDataFrame`` takes 80 000 rows of three columns a second. This way 10 000 rows take as long, and a million a
ninth of the time (1.4 s instead of 12).
"""

PACKED_ROWS_MAX = 10_000
"""The size of Spark's own Arrow batches; batches of 64 Ki rows took half as long again."""


def input_of(session: SparkSession, batch: EmittedBatch, reports: Reports | None) -> DataFrame | DeferredScan:
    """Return the input of a branch: the frame of `frame_of`, or splits that its first stage reads itself.

    If row functions run in the reading tasks, this saves a second Python worker, and each row's way from Python to the
    JVM and back.
    """
    match batch.chunks:
        case (Splits() as chunk,) if not chunk.reports_offsets:
            return SplitScan(session, batch.schema, chunk, reports)
    return frame_of(session, batch, reports)


def frame_of(session: SparkSession, batch: EmittedBatch, reports: Reports | None) -> DataFrame:
    """Return the rows of ``batch``; its tasks report through ``reports``, if given.

    ``reports`` must be None if another component runs the job that reads the frame. Metrics are reliable only after an
    action that is known to read everything.
    """
    edges = iter(reports.edges if reports else ())
    frames = [_frame_of_chunk(session, batch.schema, chunk, reports, edges) for chunk in _joined(batch.sources)]
    if not frames:
        return empty_frame(session, batch.schema)
    return reduce(DataFrame.unionAll, frames)


def _frame_of_chunk(
    session: SparkSession,
    schema: StructType,
    chunk: pa.Table | DataFrame | Splits,
    reports: Reports | None,
    edges: Iterator[int],
) -> DataFrame:
    if isinstance(chunk, pa.Table):
        return _frame_of_table(session, schema, chunk)
    if isinstance(chunk, DataFrame):
        return reports.observe_frame(chunk) if reports else chunk
    mine = () if chunk.reports_offsets or not reports else tuple(next(edges) for _ in chunk.splits)
    task = ReadingTask(chunk, arrow_schema(schema), mine if reports else None, hashing=_hashes(reports))
    return _read(session, task, schema, reports)


def _hashes(reports: Reports | None) -> bool:
    return reports is not None and reports.hashing


def _joined(chunks: Iterable[pa.Table | DataFrame | Splits]) -> Iterator[pa.Table | DataFrame | Splits]:
    for is_table, found in groupby(chunks, lambda chunk: isinstance(chunk, pa.Table)):
        run = list(found)
        yield from [pa.concat_tables(run)] if is_table else run


def _frame_of_table(session: SparkSession, schema: StructType, table: pa.Table) -> DataFrame:
    if table.nbytes <= TABLE_BYTES_MAX:
        return frame_of_rows(session, table, schema)
    size = -(-table.num_rows // parallelism(session))
    slices = tuple(_packed(table.slice(first, size)) for first in range(0, table.num_rows, size))
    return _read(session, ReadingTask(Splits(slices, _unpacked), arrow_schema(schema), None), schema, None)


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_table(table, PACKED_ROWS_MAX)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _unpacked(packed: bytes) -> Iterator[pa.RecordBatch]:
    with pa.ipc.open_stream(packed) as stream:
        yield from stream


def _read(
    session: SparkSession,
    task: ReadingTask,
    target: StructType,
    reports: Reports | None,
    resources: StageResources | None = None,
) -> DataFrame:
    count = len(task.chunk.splits)
    numbers = session.range(0, count, 1, count)
    profile = resources.profile(session) if resources else None
    if reports is None:
        return mapped(numbers, task, target, by_spout, profile)
    hidden = StructType([*nullable(target), StructField(REPORT, StringType())])
    return reports.observe(mapped(numbers, task, hidden, by_spout, profile), task.chunk)


@frozen
class SplitScan(DeferredScan):
    """A batch of splits; counts while they are read belong to ``node``."""

    session: SparkSession
    schema: StructType
    chunk: Splits
    reports: Reports | None
    node: str = field(factory=built_node)

    def frame(self) -> DataFrame:
        return _read(self.session, self._task(None, self.schema), self.schema, self.reports)

    def staged(self, stage: Stage, target: StructType, resources: StageResources | None = None) -> DataFrame:
        """Return the output of ``stage``, in tasks that have ``resources``."""
        return _read(self.session, self._task(stage, target), target, self.reports, resources)

    def _task(self, stage: Stage | None, target: StructType) -> ReadingTask:
        edges = tuple(self.reports.edges) if self.reports else None
        read, given = arrow_schema(self.schema), arrow_schema(target)
        return ReadingTask(self.chunk, read, edges, stage, given, hashing=_hashes(self.reports), node=self.node)


@frozen
class ReadingTask:
    """The code of a reading task: it is sent to the worker, receives its number, and yields the rows of that split.

    Attributes:
        schema: the fields of the splits.
        edges: the edge that each task reports; empty if it reports a note; None if no reports are collected.
        stage: applied to the rows in the same task.
        target: the fields after that.
        hashing: whether it reports a hash of the rows.
        node: the spout, to which counts belong while its rows are read.
    """

    chunk: Splits
    schema: pa.Schema
    edges: tuple[int, ...] | None
    stage: Stage | None = None
    target: pa.Schema | None = None
    hashing: bool = False
    node: str = field(factory=built_node, kw_only=True)

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the splits with these numbers; report each after the last row."""
        readings = {
            number: SplitRead(self.chunk.read(self.chunk.splits[number]))
            for batch in numbers
            for number in batch.column(0).to_pylist()
        }
        rows = (
            self._taken(reading, batch) for reading in readings.values() for batch in drawn_at(self.node, iter(reading))
        )
        for batch in classified(self.stage(classified(rows, by_spout)), by_user_code) if self.stage else rows:
            yield batch if self.edges is None else self._with_report(batch)
        if self.edges is not None:
            yield from (self._report(self._text(number, reading)) for number, reading in readings.items())

    @property
    def _given(self) -> pa.Schema:
        return self.target or self.schema

    def _taken(self, reading: SplitRead, rows: pa.RecordBatch) -> pa.RecordBatch:
        typed = as_declared(rows, self.schema)
        reading.seen += (
            hash_rows(typed) if self.hashing and not self.chunk.fingerprinting else Fingerprint(typed.num_rows, 0)
        )
        return typed

    def _with_report(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        nothing = pa.nulls(rows.num_rows, pa.string())
        return pa.RecordBatch.from_arrays([*rows.columns, nothing], [*self._given.names, REPORT])

    def _text(self, number: int, reading: SplitRead) -> str:
        hashed = reading.hash if self.chunk.fingerprinting else reading.seen.sum
        if not self.edges:
            return TaskReport(number, reading.seen.rows, hashed, str(reading.returned)).text
        return TaskReport(self.edges[number], reading.seen.rows, hashed).text

    def _report(self, report: str) -> pa.RecordBatch:
        nothing = [pa.nulls(1, kind) for kind in self._given.types]
        return pa.RecordBatch.from_arrays([*nothing, pa.array([report], pa.string())], [*self._given.names, REPORT])
