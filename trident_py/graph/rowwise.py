"""The row operations: Python's, which run together in one stage, and Spark's own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, ClassVar

from attrs import evolve, frozen
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructField, StructType

from coordinators.values.attempt import TransactionAttempt
from trident_py.errors import TopologyError
from trident_py.graph.flow import Flow, project_step
from trident_py.graph.graph import Engine, Node, Operation, RowFlow, RowWise
from trident_py.interfaces.config import seconds
from trident_py.interfaces.operations import Filter, Function
from trident_py.operations.builtin import NativeFilter, Negate
from trident_py.rows.row import Row
from trident_py.rows.schema import append, same_fields, schema_of, select, shown
from trident_py.spark.frames import column
from trident_py.worker.async_map import AsyncMapStep
from trident_py.worker.failures import in_user_code
from trident_py.worker.pipeline import (
    EachStep,
    FilterStep,
    FlatMapStep,
    MapStep,
    PeekStep,
    RowPipeline,
    Step,
    carrying,
    tagged,
)


@frozen
class RowOperation(Operation):
    """A row operation in Python.

    Attributes:
        make: makes the step for rows with these fields.
        native: the same operation in Spark, if possible: used if no Python function runs before it. It receives a
            frame, the names of the input fields, and the names of the first fields, which it keeps unchanged.
        is_tagged: whether the first field is passed through and not read; see `sharing`.
        is_carrying: whether the same applies to the next field; see `trident_py.graph.tracing`.
    """

    title: str
    make: Callable[[StructType], Step]
    native: Callable[[DataFrame, Sequence[str], Sequence[str]], DataFrame] | None = None
    is_tagged: bool = False
    is_carrying: bool = False

    keeps_partitions: ClassVar[bool] = True

    def engine(self, inputs: Sequence[Node]) -> Engine:
        """Return the engine that `build` chooses: Spark, if it can and no Python operation is deferred before it."""
        before = inputs[0]
        waits = isinstance(before.operation, RowOperation) and before.operation.engine(before.inputs) is Engine.PYTHON
        return Engine.SPARK if self.native and not waits else Engine.PYTHON

    def fused(self, rows: RowPipeline) -> RowPipeline:
        """Return ``rows`` with the step added."""
        return rows.then(self.step(rows.target))

    def step(self, source: StructType) -> Step:
        """Return the step for rows with these fields."""
        make = partial(carrying, self.make) if self.is_carrying else self.make
        return tagged(make, source) if self.is_tagged else make(source)

    def shared(self, field: StructField, source: StructType, is_rowwise: RowWise) -> RowOperation:
        """Pass the field through, without reading it."""
        return evolve(self, is_tagged=True)

    def carrying(self) -> RowOperation:
        return evolve(self, is_carrying=True)

    def output(self, inputs: Sequence[StructType]) -> StructType:
        return self.step(inputs[0]).target

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """Defer the step together with those before it."""
        (flow,) = inputs
        step = self.step(flow.schema)
        if self.native is None or flow.rows.steps:
            return flow.then(step)
        native, names = self.native, flow.schema.names
        tags = names[: self.is_tagged + self.is_carrying]
        return flow.replaced(lambda frame: native(frame, names[len(tags) :], tags), step.target)

    def on_rows(self, inputs: Sequence[RowFlow], batch_id: TransactionAttempt | None) -> RowFlow:
        return inputs[0].then(self.step(inputs[0].schema))


def map_rows(title: str, fn: Callable[[Row], Any], schema: str | StructType) -> RowOperation:
    """Make the operation that maps each row to one row."""
    return _on_whole_rows(MapStep, title, fn, schema_of(schema))


def async_map_rows(
    title: str,
    fn: Callable[[Row], Awaitable[Any]],
    schema: str | StructType,
    *,
    in_flight: int,
    retries: int,
    timeout: float | timedelta | None,
) -> RowOperation:
    """Make the operation that maps each row to one row by a function that waits."""
    _check_callable(fn)
    if not (iscoroutinefunction(fn) or iscoroutinefunction(type(fn).__call__)):
        raise TopologyError(f"the function must be made by 'async def', unlike {shown(fn)}; for others there is map")
    if type(in_flight) is not int or in_flight < 1:
        raise TopologyError(f"in_flight is a whole number of at least 1, not {shown(in_flight)}")
    if type(retries) is not int or retries < 0:
        raise TopologyError(f"retries is a whole number of at least 0, not {shown(retries)}")
    limit = None if timeout is None else seconds(timeout)
    if limit is not None and limit <= 0:
        raise TopologyError(f"timeout is more than 0 seconds, or None for no limit, not {shown(timeout)}")
    kind = partial(AsyncMapStep, in_flight=in_flight, retries=retries, timeout=limit)
    return _on_whole_rows(kind, title, fn, schema_of(schema))


def flat_map_rows(title: str, fn: Callable[[Row], Any], schema: str | StructType) -> RowOperation:
    """Make the operation that maps each row to any number of rows."""
    return _on_whole_rows(FlatMapStep, title, fn, schema_of(schema))


def peek_rows(title: str, fn: Callable[[Row], object]) -> RowOperation:
    """Make the operation that calls ``fn`` with each row."""
    return _on_whole_rows(PeekStep, title, fn, None)


def _on_whole_rows(
    kind: Callable[..., Step], title: str, fn: Callable[[Row], Any], target: StructType | None
) -> RowOperation:
    _check_callable(fn)

    def step(source: StructType) -> Step:
        names = tuple(source.names)
        return kind(title=title, source=names, in_fields=names, target=target or source, fn=fn)

    return RowOperation(title, step)


def filter_rows(title: str, condition: Filter | Callable[[Row], object], in_fields: Sequence[str]) -> RowOperation:
    """Make the operation that keeps or drops rows, by ``in_fields``; empty: all fields."""
    keep: Any = condition.is_keep if isinstance(condition, Filter) else condition
    _check_callable(keep)

    def step(source: StructType) -> Step:
        seen = select(source, in_fields or source.names)
        if isinstance(condition, NativeFilter | Negate):
            condition.check(seen)
        names = tuple(seen.names)
        return FilterStep(title=title, source=tuple(source.names), in_fields=names, target=source, keep=keep)

    return RowOperation(title, step, _native(condition, in_fields) if isinstance(condition, NativeFilter) else None)


def _native(
    condition: NativeFilter, in_fields: Sequence[str]
) -> Callable[[DataFrame, Sequence[str], Sequence[str]], DataFrame]:
    return lambda frame, seen, _: frame.filter(condition.condition(list(map(column, in_fields or seen))))


def each_row(title: str, function: Function, in_fields: Sequence[str], schema: str | StructType) -> RowOperation:
    """Make the operation that appends the fields emitted by ``function``."""
    out = schema_of(schema)
    if not in_fields:
        raise TopologyError("name at least one field for the function to see")

    def step(source: StructType) -> Step:
        return EachStep(
            title=title,
            source=tuple(source.names),
            in_fields=tuple(select(source, in_fields).names),
            target=append(source, out),
            function=function,
            out=out,
        )

    return RowOperation(title, step)


def project_rows(title: str, names: Sequence[str]) -> RowOperation:
    """Make the operation that keeps the fields ``names``."""
    if not names:
        raise TopologyError("name the fields to keep")
    return RowOperation(
        title,
        lambda source: project_step(source, names),
        lambda frame, _, tags: frame.select(*map(column, [*tags, *names])),
    )


@frozen
class ColumnFilter(Operation):
    """A condition that Spark evaluates."""

    title: str
    condition: Column | str

    keeps_partitions: ClassVar[bool] = True

    def shared(self, field: StructField, source: StructType, is_rowwise: RowWise) -> ColumnFilter | None:
        """Return the same operation, if the condition depends only on one row."""
        return self if is_rowwise(self.condition, source) else None

    def carrying(self) -> ColumnFilter:
        return self

    def output(self, inputs: Sequence[StructType]) -> StructType:
        return inputs[0]

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        (flow,) = inputs
        return flow.replaced(lambda frame: frame.filter(self.condition), flow.schema)


@frozen
class Transform(Operation):
    """An arbitrary native Spark operation.

    Attributes:
        schema: the output fields, as the user declared them or as Spark found them.
    """

    title: str
    fn: Callable[[DataFrame], DataFrame]
    schema: StructType | None

    keeps_partitions: ClassVar[bool] = True
    reads_all: ClassVar[bool] = False  # there may be a ``limit``

    def output(self, inputs: Sequence[StructType]) -> StructType | None:
        return self.schema

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        (flow,) = inputs
        frame = flow.native()
        with in_user_code(lambda: f"in {self.title}"):
            made = self.fn(frame)
        if not isinstance(made, DataFrame):
            raise TopologyError(f"the function must return a DataFrame, not {shown(made)}")
        return Flow.of(made, self.schema or schema_of(made.schema))

    def with_schema(self, found: StructType) -> Transform:
        """Set the output fields that Spark found, unless the user declared them; different fields are an error."""
        if self.schema is None:
            return evolve(self, schema=schema_of(found))
        if not same_fields(self.schema, found):
            raise TopologyError(
                f"the declared fields are {self.schema.simpleString()}, but the function returns {found.simpleString()}"
            )
        return self


def transformed(title: str, fn: Callable[[DataFrame], DataFrame], schema: str | StructType | None) -> Transform:
    """Make an arbitrary native Spark operation."""
    _check_callable(fn)
    return Transform(title, fn, None if schema is None else schema_of(schema))


def _check_callable(fn: object) -> None:
    if not callable(fn):
        raise TopologyError(f"a function is needed, not {shown(fn)}")
    if isinstance(fn, type) and issubclass(fn, Function | Filter):
        raise TopologyError(f"{fn.__name__} is a class; give an instance, {fn.__name__}(…)")
