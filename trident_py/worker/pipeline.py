"""Fused steps: over Arrow batches in a Spark task, over plain rows on the driver in the commit phase.

Both have the same results, as if each step were a separate Spark stage. The values that user code makes are converted
to the declared types before the next step reads them.
"""

from __future__ import annotations

import datetime
import gc
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen
from pyspark.sql import types as t

from coordinators.values.error_text import quoted
from trident_py.interfaces.operations import Operation
from trident_py.rows.row import Row, column_values, rows_of
from trident_py.rows.schema import arrow_array, arrow_schema, arrow_table, columns_of
from trident_py.worker.failures import in_user_code
from trident_py.worker.steps import Step, Values

log = logging.getLogger(__name__)

Columns: TypeAlias = list[list[Any]]
"""The values of each field, of all rows of a chunk."""

NO_ROW = "_no_row"
"""The hidden column that is true in a marker row, which is not a row of the batch; see `Flow.marked`."""

CHUNK_ROWS = 2048
"""Rows that pass through all steps at once: enough to amortise an Arrow batch, few enough to stay in the caches."""

CHUNK_BYTES = 1 << 20
"""The same limit in bytes, for long rows: all output of user code for a chunk is in memory at once."""


@frozen
class RowPipeline:
    """Several consecutive row operations over rows of ``source``."""

    source: t.StructType
    steps: tuple[Step, ...] = ()

    @property
    def target(self) -> t.StructType:
        """The fields of the output rows."""
        return self.steps[-1].target if self.steps else self.source

    def then(self, step: Step) -> RowPipeline:
        """Add one more step."""
        return RowPipeline(self.source, (*self.steps, step))

    @property
    def title(self) -> str:
        """Its steps' titles, for messages."""
        return " → ".join(step.title for step in self.steps)

    @property
    def user_code(self) -> list[object]:
        """The user objects that its steps call."""
        return [step.user_code for step in self.steps]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run over Arrow batches, as ``DataFrame.mapInArrow`` requires."""
        with prepared(self.user_code, self.title):
            for chunk in chunks(batches):
                with collector_paused():
                    made = record_batch(self.columns(chunk), self.target, self.title)
                yield made

    def rows(self, rows: Sequence[Values]) -> list[Row]:
        """Run over rows; input and output have the declared types."""
        return [row for batch in self(arrow_table(rows, self.source).to_batches()) for row in rows_of(batch)]

    def columns(self, chunk: pa.RecordBatch) -> Columns:
        """Run over one chunk. The values are those of user code, not yet converted to the declared types."""
        columns = list(map(column_values, chunk.columns, chunk.schema.names))
        if not self.steps:
            return columns
        rows: Iterable[Values] = zip(*columns, strict=True)
        *before, last = self.steps
        for step in before:
            made = step(rows)
            rows = _settled(made, step.target, step.title) if step.makes_values else made
        return columns_of(last(rows), len(last.target.fields))


@contextmanager
def prepared(user_code: Iterable[object], title: str) -> Iterator[None]:
    """Prepare the operations among ``user_code`` for the block, and clean up after it."""
    operations = {id(each): each for each in user_code if isinstance(each, Operation)}.values()
    try:
        for each in operations:
            with in_user_code(partial("in {}.prepare, of {}".format, type(each).__name__, title)):
                each.prepare()
        yield
    finally:
        for each in operations:
            try:
                each.cleanup()
            except Exception as error:
                log.error("%s: %s.cleanup raised", title, type(each).__name__, exc_info=quoted(error))


def chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in chunks, without marker rows."""
    for batch in map(_real_rows, batches):
        size = CHUNK_ROWS
        if batch.nbytes > CHUNK_BYTES:
            size = max(1, min(CHUNK_ROWS, CHUNK_BYTES * batch.num_rows // batch.nbytes))
        for offset in range(0, batch.num_rows, size):
            yield batch.slice(offset, size)


def _real_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    if NO_ROW not in batch.schema.names:
        return batch
    return batch.filter(pc.invert(batch.column(NO_ROW))).drop_columns([NO_ROW])


def record_batch(columns: Sequence[Sequence[Any]], schema: t.StructType, title: str) -> pa.RecordBatch:
    """Return values as an Arrow batch of the declared types; the error of a wrong value names ``title``."""
    try:
        arrays = [arrow_array(values, field) for values, field in zip(columns, schema.fields, strict=True)]
    except TypeError as error:
        raise TypeError(f"{title}: {error}") from error
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(schema))


@contextmanager
def collector_paused() -> Iterator[None]:
    """Disable the garbage collector while rows are made: it took half the time, only to find that all are in use."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


_PYTHON_OWN: dict[type[t.DataType], type] = {
    t.StringType: str,
    t.BooleanType: bool,
    t.DoubleType: float,
    t.ByteType: int,
    t.ShortType: int,
    t.IntegerType: int,
    t.LongType: int,
    t.BinaryType: bytes,
    t.DateType: datetime.date,
}
"""Types with values that Arrow returns unchanged, if they are of this Python type."""


def _settled(rows: Sequence[Values], schema: t.StructType, title: str) -> Iterable[Values]:
    columns = columns_of(rows, len(schema.fields))
    batch = record_batch(columns, schema, title)
    for position, field in enumerate(schema.fields):
        if not set(map(type, columns[position])) <= {_PYTHON_OWN.get(type(field.dataType)), type(None)}:
            columns[position] = column_values(batch.column(position))
    return zip(*columns, strict=True)
