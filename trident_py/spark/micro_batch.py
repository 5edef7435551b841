"""A batch as Spark sees it: what a spout emitted, turned into a DataFrame whose tasks report to the acker.

An emitting task gives its rows and, last, one row that carries only its acker edge in the hidden column ``_report``.
`Reports` collects the edges below the filter that drops those rows, by ``observe``: so a task is heard only if what it
gave was read to the end, by the very job that uses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as WaitTimeout
from functools import reduce
from typing import Any

import pyarrow as pa
from attrs import define, field, frozen
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import LongType, StructField, StructType

from trident_py.engine.emitted import EmittedBatch, Extents
from trident_py.schema import arrow_schema

REPORT = "_report"
OBSERVED_WITHIN_SECS = 30.0


@define
class Reports:
    """The reports of one job's reading tasks.

    Attributes:
        edges: one for each task, in order of the extents.
    """

    edges: Sequence[int]
    _observations: list[Observation] = field(factory=list, init=False)
    rows: int = field(default=0, init=False)

    def observe(self, frame: DataFrame) -> DataFrame:
        """``frame`` without its reports, which are noted when a job reads it."""
        observation = Observation()
        self._observations.append(observation)
        report: Column = F.col(REPORT)
        watched = frame.observe(
            observation, F.collect_list(report).alias("edges"), F.count_if(report.isNull()).alias("rows")
        )
        return watched.where(report.isNull()).drop(REPORT)

    def heard(self) -> list[int]:
        """The edges that were reported; call it after the job has returned.

        A node that the optimiser proved superfluous was not run and has nothing to report: then all were heard, since
        nothing of it was needed.
        """
        heard: list[int] = []
        for observation in self._observations:
            seen = _get(observation)
            if seen is None:
                return list(self.edges)
            heard.extend(seen["edges"])
            self.rows += seen["rows"]
        return heard


def _get(observation: Observation) -> dict[str, Any] | None:
    # `get` waits for ever if Spark lost the metrics; and it raises if the node was optimised away.
    waiter = ThreadPoolExecutor(1, thread_name_prefix="trident-observation")
    try:
        return dict(waiter.submit(lambda: observation.get).result(OBSERVED_WITHIN_SECS))
    except (PySparkException, Py4JJavaError):
        return None
    except WaitTimeout:
        return {"edges": [], "rows": 0}
    finally:
        waiter.shutdown(wait=False)


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
        return session.createDataFrame(part, schema)
    if isinstance(part, DataFrame):
        return part
    count = len(part.extents)
    numbers = session.range(0, count, 1, count)
    if reports is None:
        return numbers.mapInArrow(ReadingTask(part, None, arrow_schema(schema)), schema)
    mine = tuple(next(edges) for _ in range(count))
    hidden = StructType([*_nullable(schema), StructField(REPORT, LongType())])
    return reports.observe(numbers.mapInArrow(ReadingTask(part, mine, arrow_schema(schema)), hidden))


def _nullable(schema: StructType) -> list[StructField]:
    return [StructField(field.name, field.dataType, True, field.metadata) for field in schema.fields]


@frozen
class ReadingTask:
    """What a reading task does: it travels to the worker, is told its number, and gives the rows of that extent."""

    part: Extents
    edges: tuple[int, ...] | None
    schema: pa.Schema

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the extents with these numbers; report each after its last row."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for rows in self.part.read(self.part.extents[number]):
                    yield self._with_report(rows, pa.nulls(rows.num_rows, pa.int64()))
                if self.edges is not None:
                    yield self._report(self.edges[number])

    def _with_report(self, rows: pa.RecordBatch, report: pa.Array) -> pa.RecordBatch:
        columns = [rows.column(name) for name in self.schema.names]
        if self.edges is None:
            return pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return pa.RecordBatch.from_arrays([*columns, report], [*self.schema.names, REPORT])

    def _report(self, edge: int) -> pa.RecordBatch:
        nothing = [pa.nulls(1, kind) for kind in self.schema.types]
        return pa.RecordBatch.from_arrays([*nothing, pa.array([edge], pa.int64())], [*self.schema.names, REPORT])
