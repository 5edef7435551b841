"""A stream of a batch while it is made on the driver, by Python alone: what `Flow` is to Spark."""

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
    """Only Spark can do it; says what."""


@frozen
class RowFlow:
    """Rows, and the row operations that are still to run over them.

    Attributes:
        given: the rows in front of ``rows``; may be asked for more than once.
        rows: the waiting row operations.
        travels: whether user code runs in copies of its own, as in tasks; else it is called as it was declared.
    """

    given: Iterable[pa.RecordBatch]
    rows: RowPipeline
    travels: bool = True

    @classmethod
    def of(cls, given: Iterable[pa.RecordBatch], schema: StructType, *, travels: bool = True) -> RowFlow:
        """Begin with rows, and nothing to do to them."""
        return cls(given, RowPipeline(schema), travels)

    @property
    def schema(self) -> StructType:
        """The fields behind the waiting operations."""
        return self.rows.target

    def then(self, step: Step) -> RowFlow:
        """Add one more row operation."""
        return evolve(self, rows=self.rows.then(step))

    def staged(self, stage: Stage, schema: StructType) -> RowFlow:
        """Return what ``stage``, which runs the waiting operations too, makes of all rows."""
        made = Made(travelled(stage) if self.travels else stage, self.given)
        return RowFlow.of(made, schema, travels=self.travels)

    def made(self) -> Iterable[pa.RecordBatch]:
        """Give the rows behind the waiting operations, which run while they are taken."""
        return self.staged(self.rows, self.schema).given if self.rows.steps else self.given

    def table(self) -> pa.Table:
        """Return all rows.

        Raises:
            TaskFailed: user code raised.
        """
        schema = arrow_schema(self.schema)
        return pa.Table.from_batches(named(self.made(), schema), schema)


def named(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Give the same values under the names of ``schema``, and with its word on which may be null."""
    return (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches)


@frozen
class Made:
    """What a stage makes of rows, made when it is asked for."""

    stage: Stage
    given: Iterable[pa.RecordBatch]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Give the rows."""
        return classified(self.stage(iter(self.given)), by_user_code)


def travelled(stage: S) -> S:
    """Return ``stage`` as a task would have it: its own copy, which shares nothing with other tasks or the driver.

    Raises:
        Exception: it can't be copied, and so couldn't travel to a task either.
    """
    copy: S = cloudpickle.loads(cloudpickle.dumps(stage))  # type: ignore[no-untyped-call]
    return copy
