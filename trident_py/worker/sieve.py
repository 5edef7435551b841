"""`Sieve`: finds the rows of a spout that make a row function raise, in one pass over a batch. Pickled into tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from attrs import frozen
from pyspark.sql import types as t

from trident_py.worker.counters import CountScope, count_scope
from trident_py.worker.pipeline import RowPipeline, chunks, prepared, record_batch

POSITION = "_position"
FOUND = t.StructType([t.StructField(POSITION, t.LongType(), False)])
"""The fields of a sieve's output: the positions of the rows that fail."""


def positioned(rows: pa.Table) -> pa.Table:
    """Return ``rows`` with the position of each, from 0 on, as the last column."""
    return rows.append_column(
        pa.field(POSITION, pa.int64(), nullable=False), pa.array(range(rows.num_rows), pa.int64())
    )


@frozen
class Sieve:
    """Runs row functions over positioned rows of a spout, and returns the positions of those that make one raise.

    A chunk of rows that raises is tried again in halves, down to single rows. So few bad rows cost little.

    Attributes:
        pipelines: the row functions of each path that begins at the spout.
    """

    pipelines: Sequence[RowPipeline]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with count_scope(CountScope()):  # what they count is not of a transaction
            for batch in chunks(batches):
                rows, positions = batch.drop_columns([POSITION]), batch.column(POSITION).to_pylist()
                failing = {row for pipeline in self.pipelines for row in _failing(pipeline, rows)}
                found = pa.array([positions[row] for row in sorted(failing)], pa.int64())
                yield pa.RecordBatch.from_arrays([found], names=[POSITION])


def _failing(pipeline: RowPipeline, rows: pa.RecordBatch) -> Iterator[int]:
    with prepared(pipeline.user_code, pipeline.title):
        waiting = [(0, rows)]
        while waiting:
            first, part = waiting.pop()
            if _passes(pipeline, part):
                continue
            if part.num_rows == 1:
                yield first
                continue
            middle = part.num_rows // 2
            waiting += [(first, part.slice(0, middle)), (first + middle, part.slice(middle))]


def _passes(pipeline: RowPipeline, rows: pa.RecordBatch) -> bool:
    try:
        record_batch(pipeline.columns(rows), pipeline.target, pipeline.title)
    except Exception:  # noqa: BLE001 - user code
        return False
    return True
