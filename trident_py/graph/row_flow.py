"""A stream of a batch that Python alone computes on the driver: the counterpart of `Flow`, which is for Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import pyarrow as pa
from attrs import evolve, frozen
from pyspark import cloudpickle
from pyspark.sql.types import StructType

from trident_py.rows.schema import arrow_schema
from trident_py.worker.failures import Stage, by_user_code, classified
from trident_py.worker.pipeline import RowPipeline
from trident_py.worker.steps import Step

S = TypeVar("S")


class NeedsSpark(Exception):
    """Only Spark can run an operation; the message names it."""


@frozen
class RowFlow:
    """Rows, and the deferred row operations over them.

    Attributes:
        given: the rows before ``rows``; they may be iterated more than once.
        rows: the deferred row operations.
        travels: whether user code runs in its own copies, as in tasks; else the declared objects are called.
    """

    given: Iterable[pa.RecordBatch]
    rows: RowPipeline
    travels: bool = True

    @classmethod
    def of(cls, given: Iterable[pa.RecordBatch], schema: StructType, *, travels: bool = True) -> RowFlow:
        """Begin with rows and no operations."""
        return cls(given, RowPipeline(schema), travels)

    @property
    def schema(self) -> StructType:
        """The fields after the deferred operations."""
        return self.rows.target

    def then(self, step: Step) -> RowFlow:
        """Add a row operation."""
        return evolve(self, rows=self.rows.then(step))

    def staged(self, stage: Stage, schema: StructType) -> RowFlow:
        """Apply ``stage``, which also runs the deferred operations, to all rows."""
        made = Made(travelled(stage) if self.travels else stage, self.given)
        return RowFlow.of(made, schema, travels=self.travels)

    def made(self) -> Iterable[pa.RecordBatch]:
        """Return the rows after the deferred operations, which run during iteration."""
        return self.staged(self.rows, self.schema).given if self.rows.steps else self.given

    def table(self) -> pa.Table:
        """Return all rows.

        Raises:
            TaskFailed: user code raised an exception.
        """
        schema = arrow_schema(self.schema)
        return pa.Table.from_batches(named(self.made(), schema), schema)


def named(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the same values with the names and nullability of ``schema``."""
    return (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches)


@frozen
class Made:
    """The output of a stage over rows, computed when it is iterated."""

    stage: Stage
    given: Iterable[pa.RecordBatch]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return classified(self.stage(iter(self.given)), by_user_code)


def travelled(stage: S) -> S:
    """Return a copy of ``stage``, as a task would get it: it shares nothing with other tasks or the driver.

    Raises:
        Exception: it can't be copied, so it couldn't be sent to a task either.
    """
    copy: S = cloudpickle.loads(cloudpickle.dumps(stage))  # type: ignore[no-untyped-call]
    return copy
