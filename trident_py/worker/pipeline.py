"""Fused steps: over Arrow batches in a Spark task, over plain rows on the driver in the commit phase.

Both have the same results, as if each step were a separate Spark stage. The values that user code makes are converted
to the declared types before the next step reads them.
"""

from __future__ import annotations

import datetime
import gc
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import compress, groupby
from operator import itemgetter, length_hint
from typing import Any, ClassVar, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field, frozen
from pyspark.sql import types as t
from pyspark.sql.types import StructType

from coordinators.values.error_text import error_text, quoted
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.operations import Function, Operation
from trident_py.rows.row import Row, column_values, row_class, rows_of
from trident_py.rows.schema import arrow_array, arrow_schema, arrow_table, clipped, columns_of, shown
from trident_py.worker.counters import built_node, counting_at, counting_for
from trident_py.worker.failures import TaskFailed, TaskFailure, by_user_code, in_user_code

log = logging.getLogger(__name__)


Values: TypeAlias = Sequence[Any]
"""A row between two steps: a tuple, list or Row with a value per field."""


@frozen(kw_only=True)
class Step(ABC):
    """One row operation.

    Attributes:
        title: the user's call, for messages.
        source: the fields of the input rows.
        in_fields: the input fields that the user's code receives, in its order.
        target: the fields of the output rows.
        node: the node of the step; the counters of the user's code belong to it.
    """

    title: str
    source: tuple[str, ...]
    in_fields: tuple[str, ...]
    target: StructType
    node: str = field(factory=built_node)

    makes_values: ClassVar[bool] = False
    """Whether user code makes values that must be checked against ``target``."""

    @property
    def user_code(self) -> object:
        """The user object that the step calls."""
        return None

    def __call__(self, rows: Iterable[Values]) -> list[Values]:
        """Apply the user's code to ``rows``; an exception gets a note with the step and the row.

        Raises:
            TypeError: user code returned something else than a tuple, list or Row as a row.
            ValueError: a returned row has the wrong number of values.
        """
        given = list(rows)
        left = iter(given)

        def place() -> str:
            at = row_class(self.source)._make(given[len(given) - length_hint(left) - 1]) if given else None
            return f"in {self.title}, at {clipped(at)}"

        counting_at(self.node)
        with in_user_code(place):
            made = self.run(given, self._views(left))
        return checked(made, self.target, self.title) if self.makes_values else made

    @abstractmethod
    def run(self, rows: list[Values], views: Iterator[Row]) -> list[Values]:
        """Consume ``views``, the user's views of ``rows``, one by one, and return the output rows."""

    def _called(self, function: Callable[[Row], Any], views: Iterator[Row], count: int) -> list[Any]:
        made = list(map(function, views))
        if len(made) < count:  # StopIteration of user code ended the list, and the other rows would be lost
            raise RuntimeError(f"{self.title} raised StopIteration")
        return made

    def _views(self, rows: Iterator[Values]) -> Iterator[Row]:
        seen = rows if self.in_fields == self.source else map(_picker(self.source, self.in_fields), rows)
        return map(row_class(self.in_fields)._make, seen)


@frozen(kw_only=True)
class MapStep(Step):
    """Maps each row to one row."""

    fn: Callable[[Row], Any]
    makes_values: ClassVar[bool] = True

    @property
    def user_code(self) -> object:
        return self.fn

    def run(self, rows: list[Values], views: Iterator[Row]) -> list[Values]:
        return self._called(self.fn, views, len(rows))


@frozen(kw_only=True)
class FlatMapStep(Step):
    """Maps each row to any number of rows."""

    fn: Callable[[Row], Any]
    makes_values: ClassVar[bool] = True

    @property
    def user_code(self) -> object:
        return self.fn

    def run(self, rows: list[Values], views: Iterator[Row]) -> list[Values]:
        """Call the function on each row, and concatenate the results."""
        made: list[Values] = []
        for view in views:
            given = self.fn(view)
            if type(given) is not list and (isinstance(given, str | bytes | dict) or not isinstance(given, Iterable)):
                raise TypeError(f"{self.title} must give an iterable of tuples, lists or Rows, not {shown(given)}")
            made.extend(given)
        return made


@frozen(kw_only=True)
class FilterStep(Step):
    """Keeps or drops rows."""

    keep: Callable[[Row], object]

    @property
    def user_code(self) -> object:
        """The filter, or the function."""
        return getattr(self.keep, "__self__", self.keep)

    def run(self, rows: list[Values], views: Iterator[Row]) -> list[Values]:
        return list(compress(rows, self._called(self.keep, views, len(rows))))


@frozen(kw_only=True)
class PeekStep(Step):
    """Passes each row to a function."""

    fn: Callable[[Row], object]

    @property
    def user_code(self) -> object:
        return self.fn

    def run(self, rows: list[Values], views: Iterator[Row]) -> list[Values]:
        """Call the function on each row, and ignore the results."""
        self._called(self.fn, views, len(rows))
        return rows


@frozen(kw_only=True)
class EachStep(Step):
    """Appends the fields that a `Function` emits."""

    function: Function
    out: StructType
    makes_values: ClassVar[bool] = True

    @property
    def user_code(self) -> object:
        return self.function

    def run(self, rows: list[Values], views: Iterator[Row]) -> list[Values]:
        """Return a copy of the row for each emitted tuple, with its values appended."""
        collector, execute = RowCollector(self.title, self.out), self.function.execute
        made: list[Values] = []
        for row, view in zip(rows, views, strict=True):
            execute(view, collector)
            made += [(*row, *emitted) for emitted in collector.take()]
        return made


@frozen(kw_only=True)
class ProjectStep(Step):
    """Keeps ``in_fields``."""

    def run(self, rows: list[Values], views: Iterator[Row]) -> list[Values]:
        return list(map(tuple, views))


@frozen(kw_only=True)
class CarryingStep(Step):
    """Runs another step over rows with one more field before all others, which that step doesn't see."""

    step: Step
    makes_values: ClassVar[bool] = True

    @property
    def user_code(self) -> object:
        return self.step.user_code

    def __call__(self, rows: Iterable[Values]) -> list[Values]:
        """Apply the step to the rows, and put the first field back."""
        return self.run(list(rows), iter(()))

    def run(self, rows: list[Values], views: Iterator[Row]) -> list[Values]:
        """Run the step separately for each run of rows with equal first fields."""
        made: list[Values] = []
        for value, group in groupby(rows, key=itemgetter(0)):
            made += [(value, *row) for row in self._run(value, [row[1:] for row in group])]
        return made

    def _run(self, value: Any, rows: list[Values]) -> list[Values]:
        """Return the output for rows with this value of the first field."""
        return self.step(rows)


@frozen(kw_only=True)
class TaggedStep(CarryingStep):
    """Runs another step separately for each transaction of a shared job: the first field has its txid."""

    def _run(self, value: Any, rows: list[Values]) -> list[Values]:
        counting_for(value)
        try:
            return self.step(rows)
        except BaseException as error:
            raise TaskFailed(TaskFailure.of(error, by_user_code, txid=value)) from error


def tagged(make: Callable[[StructType], Step], source: StructType) -> CarryingStep:
    """Return the step of ``make`` for all fields except the first, which has the txid."""
    return carrying(make, source, TaggedStep)


def carrying(
    make: Callable[[StructType], Step], source: StructType, kind: type[CarryingStep] = CarryingStep
) -> CarryingStep:
    """Return the step of ``make`` for all fields except the first, over rows that have it."""
    first, step = source.fields[0], make(StructType(source.fields[1:]))
    return kind(
        title=step.title,
        source=tuple(source.names),
        in_fields=tuple(source.names),
        target=StructType([first, *step.target.fields]),
        step=step,
    )


@define
class RowCollector(TridentCollector):
    """Collects the rows that user code emits, in a task or in the commit phase."""

    title: str
    schema: StructType
    _emitted: list[Values] = field(factory=list, init=False)
    _width: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._width = len(self.schema.fields)

    def emit(self, row: Values) -> None:
        if type(row) is tuple and len(row) == self._width:
            self._emitted.append(row)
        else:
            self._emitted.extend(checked([row], self.schema, self.title))

    def report_error(self, error: BaseException) -> None:
        log.error("%s: reported %s", self.title, error_text(error))

    def take(self) -> list[Values]:
        """Return the rows emitted since the last call."""
        emitted, self._emitted = self._emitted, []
        return emitted


def checked(rows: list[Any], schema: StructType, title: str) -> list[Values]:
    """Return ``rows``, after a check that each is a tuple, list or Row with a value per field of ``schema``."""
    kinds = set(map(type, rows))
    for kind in kinds - {tuple, list}:
        if not issubclass(kind, tuple | list):
            bad = next(row for row in rows if type(row) is kind)
            raise TypeError(f"{title} must give a tuple, list or Row for each row, not {shown(bad)}")
    width = len(schema.names)
    if set(map(len, rows)) - {width}:
        bad = next(row for row in rows if len(row) != width)
        raise ValueError(f"{title} gave {len(bad)} values, {shown(bad)}, for the {width} fields {schema.names}")
    return rows if kinds <= {tuple, list} else list(map(tuple, rows))


def _picker(source: tuple[str, ...], names: tuple[str, ...]) -> Callable[[Values], Values]:
    positions = [source.index(name) for name in names]
    if not positions:
        return lambda row: ()
    if len(positions) == 1:
        (only,) = positions
        return lambda row: (row[only],)
    return itemgetter(*positions)


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

    def columns(self, chunk: pa.RecordBatch, begins: Callable[[Step], object] = lambda _: None) -> Columns:
        """Run over one chunk. The values are those of user code, not yet converted to the declared types.

        ``begins`` is called with each step before it runs.
        """
        columns = list(map(column_values, chunk.columns, chunk.schema.names))
        if not self.steps:
            return columns
        rows: Iterable[Values] = zip(*columns, strict=True)
        *before, last = self.steps
        for step in before:
            begins(step)
            made = step(rows)
            rows = _settled(made, step.target, step.title) if step.makes_values else made
        begins(last)
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
    for position, column in enumerate(schema.fields):
        if not set(map(type, columns[position])) <= {_PYTHON_OWN.get(type(column.dataType)), type(None)}:
            columns[position] = column_values(batch.column(position))
    return zip(*columns, strict=True)
