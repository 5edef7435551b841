"""A batch as Spark sees it: what a spout emitted, turned into a DataFrame whose tasks report to the acker."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from functools import reduce

import pyarrow as pa
from attrs import define, frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from trident_py.engine.emitted import EmittedBatch, Extents
from trident_py.schema import arrow_schema
from trident_py.spark.frames import frame_of_rows
from trident_py.spark.reports import REPORT, Reports


def frame_of(session: SparkSession, batch: EmittedBatch, reports: Reports | None) -> DataFrame:
    """The rows of ``batch``; its tasks report through ``reports``, if somebody can listen.

    ``reports`` must be None where the job that reads the frame isn't ours: metrics are reliable only after an action
    that is known to read everything.
    """
    edges = iter(reports.edges if reports else ())
    frames = [_frame_of_part(session, batch.schema, part, reports, edges) for part in batch.parts]
    if not frames:
        return session.createDataFrame(arrow_schema(batch.schema).empty_table(), batch.schema)
    return reduce(DataFrame.unionAll, frames)


def _frame_of_part(
    session: SparkSession,
    schema: StructType,
    part: pa.Table | DataFrame | Extents,
    reports: Reports | None,
    edges: Iterator[int],
) -> DataFrame:
    if isinstance(part, pa.Table):
        rows = frame_of_rows(session, part, schema)
        return reports.observe_table(rows, part.num_rows) if reports else rows
    if isinstance(part, DataFrame):
        return reports.leave(part) if reports else part
    count = len(part.extents)
    numbers = session.range(0, count, 1, count)
    if reports is None:
        return numbers.mapInArrow(ReadingTask(part, None, arrow_schema(schema)), schema)
    mine = () if part.noting else tuple(next(edges) for _ in range(count))
    hidden = StructType([*_nullable(schema), StructField(REPORT, StringType())])
    return reports.observe_tasks(numbers.mapInArrow(ReadingTask(part, mine, arrow_schema(schema)), hidden), count)


def _nullable(schema: StructType) -> list[StructField]:
    return [StructField(field.name, field.dataType, True, field.metadata) for field in schema.fields]


@frozen
class ReadingTask:
    """What a reading task does: it travels to the worker, is told its number, and gives the rows of that extent.

    Attributes:
        edges: what each task reports; empty where it reports a note; None where nobody listens.
    """

    part: Extents
    edges: tuple[int, ...] | None
    schema: pa.Schema

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the extents with these numbers; report each after its last row."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                reading = Reading(self.part.read(self.part.extents[number]))
                for rows in reading:
                    yield self._with_report(rows)
                if self.edges is not None:
                    yield self._report(str(self.edges[number]) if self.edges else reading.note)

    def _with_report(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        columns = [rows.column(name) for name in self.schema.names]
        if self.edges is None:
            return pa.RecordBatch.from_arrays(columns, schema=self.schema)
        nothing = pa.nulls(rows.num_rows, pa.string())
        return pa.RecordBatch.from_arrays([*columns, nothing], [*self.schema.names, REPORT])

    def _report(self, report: str) -> pa.RecordBatch:
        nothing = [pa.nulls(1, kind) for kind in self.schema.types]
        return pa.RecordBatch.from_arrays([*nothing, pa.array([report], pa.string())], [*self.schema.names, REPORT])


@define
class Reading:
    """The rows of an extent, and the note that its generator returns after the last one, if it does."""

    rows: Iterable[pa.RecordBatch] | Generator[pa.RecordBatch, None, str]
    note: str = ""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The rows."""
        if isinstance(self.rows, Generator):
            self.note = yield from self.rows
        else:
            yield from self.rows
