"""The operations that take rows one by one: Python's, which run together in one stage, and Spark's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from attrs import evolve, frozen
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructField, StructType

from coordinators.values.attempt import TransactionAttempt
from trident_py.errors import TopologyError
from trident_py.graph.flow import Flow, project_step
from trident_py.graph.graph import Engine, Node, Operation, RowWise
from trident_py.graph.row_flow import RowFlow
from trident_py.interfaces.operations import Filter, Function
from trident_py.operations.builtin import NativeFilter, Negate
from trident_py.rows.row import Row
from trident_py.rows.schema import append, same_fields, schema_of, select, shown
from trident_py.spark.frames import column
from trident_py.worker.failures import in_user_code
from trident_py.worker.pipeline import RowPipeline
from trident_py.worker.steps import EachStep, FilterStep, FlatMapStep, MapStep, PeekStep, Step, tagged


@frozen
class RowOperation(Operation):
    """A row operation of Python's.

    Attributes:
        make: makes the step for rows with these fields.
        native: the same as Spark does it, if it can: used where no Python function runs before it. It is given a frame,
            the names of the fields that it sees, and of those that it keeps as they are, in front.
        is_tagged: whether the first field is carried along, unseen; see `sharing`.
    """

    title: str
    make: Callable[[StructType], Step]
    native: Callable[[DataFrame, Sequence[str], Sequence[str]], DataFrame] | None = None
    is_tagged: bool = False

    keeps_partitions: ClassVar[bool] = True

    def engine(self, inputs: Sequence[Node]) -> Engine:
        """Tell, as `build` decides: Spark, if it can and no Python function waits in front of it."""
        before = inputs[0]
        waits = isinstance(before.operation, RowOperation) and before.operation.engine(before.inputs) is Engine.PYTHON
        return Engine.SPARK if self.native and not waits else Engine.PYTHON

    def fused(self, rows: RowPipeline) -> RowPipeline:
        """Return the step behind those that there are."""
        return rows.then(self.step(rows.target))

    def step(self, source: StructType) -> Step:
        """Return the step for rows with these fields."""
        return tagged(self.make, source) if self.is_tagged else self.make(source)

    def shared(self, field: StructField, source: StructType, is_rowwise: RowWise) -> RowOperation:
        """Carry the field along, unseen."""
        return evolve(self, is_tagged=True)

    def output(self, inputs: Sequence[StructType]) -> StructType:
        return self.step(inputs[0]).target

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """Let the step wait with those before it."""
        (flow,) = inputs
        step = self.step(flow.schema)
        if self.native is None or flow.rows.steps:
            return flow.then(step)
        native, names = self.native, flow.schema.names
        tags = names[:1] if self.is_tagged else []
        return flow.replaced(lambda frame: native(frame, names[len(tags) :], tags), step.target)

    def on_rows(self, inputs: Sequence[RowFlow], batch_id: TransactionAttempt | None) -> RowFlow:
        """Let the step wait with those before it."""
        return inputs[0].then(self.step(inputs[0].schema))


def map_rows(title: str, fn: Callable[[Row], Any], schema: str | StructType) -> RowOperation:
    """Make one row of each row."""
    return _on_whole_rows(MapStep, title, fn, schema_of(schema))


def flat_map_rows(title: str, fn: Callable[[Row], Any], schema: str | StructType) -> RowOperation:
    """Make any number of rows of each row."""
    return _on_whole_rows(FlatMapStep, title, fn, schema_of(schema))


def peek_rows(title: str, fn: Callable[[Row], object]) -> RowOperation:
    """Show the rows."""
    return _on_whole_rows(PeekStep, title, fn, None)


def _on_whole_rows(
    kind: type[MapStep | FlatMapStep | PeekStep], title: str, fn: Callable[[Row], Any], target: StructType | None
) -> RowOperation:
    _check_callable(fn)

    def step(source: StructType) -> Step:
        names = tuple(source.names)
        return kind(title=title, source=names, in_fields=names, target=target or source, fn=fn)

    return RowOperation(title, step)


def filter_rows(title: str, condition: Filter | Callable[[Row], object], in_fields: Sequence[str]) -> RowOperation:
    """Keep or drop rows, by ``in_fields``; none: all of them."""
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
    """Append the fields that ``function`` emits."""
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
    """Keep the fields ``names``."""
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
        """Return it as it is, if it looks at nothing but a row."""
        return self if is_rowwise(self.condition, source) else None

    def output(self, inputs: Sequence[StructType]) -> StructType:
        return inputs[0]

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        (flow,) = inputs
        return flow.replaced(lambda frame: frame.filter(self.condition), flow.schema)


@frozen
class Transform(Operation):
    """Whatever Spark can do.

    Attributes:
        schema: the fields it gives, as the user said or as Spark found when it was asked.
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
        """Give it the fields that Spark has found, unless the user has said which they are."""
        if self.schema is None:
            return evolve(self, schema=schema_of(found))
        if not same_fields(self.schema, found):
            raise TopologyError(
                f"declared are the fields {self.schema.simpleString()}, the function gives {found.simpleString()}"
            )
        return self


def transformed(title: str, fn: Callable[[DataFrame], DataFrame], schema: str | StructType | None) -> Transform:
    """Whatever Spark can do."""
    _check_callable(fn)
    return Transform(title, fn, None if schema is None else schema_of(schema))


def _check_callable(fn: object) -> None:
    if not callable(fn):
        raise TopologyError(f"a function is needed, not {shown(fn)}")
    if isinstance(fn, type) and issubclass(fn, Function | Filter):
        raise TopologyError(f"{fn.__name__} is a class; give an instance, {fn.__name__}(…)")
