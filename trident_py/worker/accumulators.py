"""User-written aggregators over Arrow batches: one pass over a partition, with one value per group."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from decimal import localcontext
from itertools import chain, islice, product, repeat
from typing import Any, Generic, TypeAlias, TypeVar

import pyarrow as pa
from attrs import define, field, frozen
from pyspark.sql import types as t

from coordinators.values.attempt import TransactionAttempt
from trident_py.interfaces.operations import EXACT_DECIMALS, Aggregator, CombinerAggregator, ReducerAggregator
from trident_py.interfaces.removal import REMOVE
from trident_py.rows.row import Row, row_class
from trident_py.rows.schema import clipped, columns_of
from trident_py.worker.counters import built_node, counting_at, counting_for, is_counting
from trident_py.worker.failures import in_user_code
from trident_py.worker.pipeline import (
    CHUNK_ROWS,
    Columns,
    RowCollector,
    RowPipeline,
    Values,
    chunks,
    collector_paused,
    prepared,
    record_batch,
)

V = TypeVar("V")

Groups: TypeAlias = dict[tuple[Any, ...], Any]
"""The value of each group, by key."""

GROUPS_MAX = 100_000
"""Partial values that a task keeps before it passes them on; more would only use memory."""


class Accumulator(ABC, Generic[V]):
    """Accumulates the rows of one group into a value, and turns that value into result rows.

    A row is a Row of the fields that the aggregator reads; for a `ChainAccumulator`, a tuple with a Row for each
    aggregator.
    """

    @property
    def user_code(self) -> list[object]:
        """The user objects that it calls, if they must be prepared."""
        return []

    @abstractmethod
    def empty(self) -> V:
        """Return the value of no rows."""

    @abstractmethod
    def first(self, row: Any) -> V:
        """Return the value of a group's first row."""

    @abstractmethod
    def following(self, value: V, row: Any) -> V:
        """Return the value after one more row."""

    @abstractmethod
    def results(self, value: V) -> list[Values]:
        """Return the result rows of a group, without its key."""


@frozen
class CombiningAccumulator(Accumulator[Any]):
    """Rows to the partial value of a `CombinerAggregator`."""

    aggregator: CombinerAggregator[Any]

    def empty(self) -> Any:
        return self.aggregator.zero()

    def first(self, row: Row) -> Any:
        """Return the row's own value; ``zero`` is not combined in, as in Storm if it is null."""
        return self.aggregator.init(row)

    def following(self, value: Any, row: Row) -> Any:
        """Combine the value with one more row; if earlier rows cancelled each other out, start with this row."""
        return self.first(row) if value is REMOVE else self.aggregator.combine(value, self.first(row))

    def results(self, value: Any) -> list[Values]:
        return [(self.aggregator.zero() if value is REMOVE else value,)]


@frozen
class MergingAccumulator(CombiningAccumulator):
    """Partial values, one a row, to the whole value of a `CombinerAggregator`."""

    def first(self, row: Row) -> Any:
        return row[0]


@frozen
class ReducingAccumulator(Accumulator[Any]):
    """Rows to the value of a `ReducerAggregator`."""

    aggregator: ReducerAggregator[Any]

    def empty(self) -> Any:
        return self.aggregator.init()

    def first(self, row: Row) -> Any:
        """Reduce the row onto the initial value."""
        return self.aggregator.reduce(self.aggregator.init(), row)

    def following(self, value: Any, row: Row) -> Any:
        """Reduce the row onto the present value."""
        return self.aggregator.reduce(value, row)

    def results(self, value: Any) -> list[Values]:
        return [(value,)]


@define
class Emitting:
    """The value of an `Aggregator`, and the rows that it has emitted for this group."""

    value: Any
    collector: RowCollector


@frozen
class AggregatorAccumulator(Accumulator[Emitting]):
    """Rows to the rows that an `Aggregator` emits."""

    aggregator: Aggregator[Any]
    batch_id: TransactionAttempt | int | None
    out: t.StructType
    title: str

    @property
    def user_code(self) -> list[object]:
        return [self.aggregator]

    def empty(self) -> Emitting:
        """Call the aggregator's ``init``, with a collector for this group."""
        collector = RowCollector(self.title, self.out)
        return Emitting(self.aggregator.init(self.batch_id, collector), collector)

    def first(self, row: Row) -> Emitting:
        """Start, and add the first row."""
        return self.following(self.empty(), row)

    def following(self, value: Emitting, row: Row) -> Emitting:
        changed = self.aggregator.aggregate(value.value, row, value.collector)
        if changed is not None:
            value.value = changed
        return value

    def results(self, value: Emitting) -> list[Values]:
        self.aggregator.complete(value.value, value.collector)
        return value.collector.take()


@frozen
class ChainAccumulator(Accumulator[list[Any]]):
    """Several accumulators in one pass; if they have several result rows, every combination is a result."""

    accumulators: tuple[Accumulator[Any], ...]

    @property
    def user_code(self) -> list[object]:
        return [each for accumulator in self.accumulators for each in accumulator.user_code]

    def empty(self) -> list[Any]:
        return [accumulator.empty() for accumulator in self.accumulators]

    def first(self, row: tuple[Row, ...]) -> list[Any]:
        return [accumulator.first(view) for accumulator, view in zip(self.accumulators, row, strict=True)]

    def following(self, value: list[Any], row: tuple[Row, ...]) -> list[Any]:
        return [
            accumulator.following(call, view)
            for accumulator, call, view in zip(self.accumulators, value, row, strict=True)
        ]

    def results(self, value: list[Any]) -> list[Values]:
        """Return every combination of the accumulators' results; empty if one of them has no result."""
        given = [accumulator.results(call) for accumulator, call in zip(self.accumulators, value, strict=True)]
        return [tuple(chain.from_iterable(rows)) for rows in product(*given)]


@frozen(kw_only=True)
class GroupStage:
    """A fold over the rows of a partition, group by group, after the row operations before it.

    Attributes:
        rows: the row operations; they run in the same stage.
        keys: the fields to group by; empty: all rows are one group, which exists even if there are no rows.
        in_fields: the fields that the aggregator receives; for a `ChainAccumulator`, those of each aggregator.
        accumulator: accumulates the rows.
        target: the keys, and the fields of the results.
        partial: whether a group may be emitted in several rows, because another fold follows.
        title: the user's call, for messages.
        sorts: whether the groups come in Spark's order of their keys, not in the order of their first rows.
        is_tagged: whether the first key is a transaction's number, before the user's group fields.
        node: the node of the stage; the aggregator's counters belong to it.
    """

    rows: RowPipeline
    keys: t.StructType
    in_fields: tuple[tuple[str, ...], ...]
    accumulator: Accumulator[Any]
    target: t.StructType
    partial: bool
    title: str
    sorts: bool = False
    is_tagged: bool = False
    node: str = field(factory=built_node)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run over a partition, as ``DataFrame.mapInArrow`` requires."""
        with prepared([*self.rows.user_code, *self.accumulator.user_code], self.title):
            groups: Groups = {}
            for chunk in chunks(batches):
                with collector_paused():
                    self._take(groups, self.rows.columns(chunk))
                if self.partial and len(groups) > GROUPS_MAX:
                    yield from self._results(groups)
                    groups = {}
            if not groups and not self.keys.fields and not self.partial:
                counting_at(self.node)
                with in_user_code(self._place):
                    groups[()] = self.accumulator.empty()
            yield from self._results(groups)

    def _take(self, groups: Groups, columns: Columns) -> None:
        of = dict(zip(self.rows.target.names, columns, strict=True))
        keys = zip(*[_hashable(of[key.name], key.dataType) for key in self.keys], strict=True)
        seen = [_views([of[name] for name in names], names, len(columns[0])) for names in self.in_fields]
        views: Iterable[Any] = seen[0] if len(seen) == 1 else zip(*seen, strict=True)
        accumulator, view = self.accumulator, None
        counting_at(self.node)
        with in_user_code(lambda: f"{self._place()}, at {clipped(view)}"), localcontext(EXACT_DECIMALS):
            for key, view in zip(self._turned_to(keys) if self.keys else repeat(()), views):  # noqa: B905 - no end
                groups[key] = accumulator.following(groups[key], view) if key in groups else accumulator.first(view)

    def _results(self, groups: Groups) -> Iterator[pa.RecordBatch]:
        given = iter(sorted(groups.items(), key=self._order) if self.sorts else groups.items())
        while call := list(islice(given, CHUNK_ROWS)):
            counting_at(self.node)
            values = [value for _, value in call]
            with in_user_code(self._place), localcontext(EXACT_DECIMALS):
                keys = self._turned_to(key for key, _ in call)
                rows = [
                    (*key, *result)
                    for key, value in zip(keys, values, strict=True)
                    if value is not REMOVE or not self.keys.fields
                    for result in self.accumulator.results(value)
                ]
            yield record_batch(columns_of(rows, len(self.target.fields)), self.target, self.title)

    def _order(self, group: tuple[tuple[Any, ...], Any]) -> tuple[Any, ...]:
        return tuple(spark_order(value, key.dataType) for value, key in zip(group[0], self.keys.fields, strict=True))

    def _turned_to(self, keys: Iterable[Values]) -> Iterable[Any]:
        return self._counting_for(keys) if self.is_tagged and is_counting() else keys

    def _counting_for(self, keys: Iterable[Any]) -> Iterator[Any]:
        for key in keys:
            counting_for(key[0])
            yield key

    def _place(self) -> str:
        return f"in {self.title}"


def _views(columns: Columns, names: tuple[str, ...], rows: int) -> Iterator[Row]:
    values: Iterable[Values] = zip(*columns, strict=True) if columns else repeat((), rows)
    return map(row_class(names)._make, values)


def _hashable(values: list[Any], kind: t.DataType) -> list[Any]:
    convert = _key_converter(kind)
    return list(map(convert, values)) if convert else values


def _key_converter(kind: t.DataType) -> Callable[[Any], Any] | None:
    """Return a function that makes a dict key of values of ``kind``, equal if Spark sees one group.

    There is one NaN and one zero, and lists become tuples.
    """
    match kind:
        case t.FloatType() | t.DoubleType():
            return _normal
        case t.ArrayType():
            return lambda value: None if value is None else tuple(_hashable(value, kind.elementType))
        case t.StructType():
            converters = [_key_converter(field.dataType) or _same for field in kind.fields]
            return lambda row: None if row is None else tuple(f(v) for f, v in zip(converters, row, strict=True))
    return None


def spark_order(value: Any, kind: t.DataType) -> tuple[Any, ...]:
    """Return a value that compares with others of ``kind`` as in Spark: null is the least, NaN the greatest."""
    if value is None:
        return (0,)
    match kind:
        case t.FloatType() | t.DoubleType():
            return (2,) if math.isnan(value) else (1, value)
        case t.ArrayType():
            return 1, tuple(spark_order(each, kind.elementType) for each in value)
        case t.StructType():
            return 1, tuple(spark_order(each, part.dataType) for each, part in zip(value, kind.fields, strict=True))
    return 1, value


def _same(value: Any) -> Any:
    return value


def _normal(number: float | None) -> float | None:
    if number is None:
        return None
    return math.nan if math.isnan(number) else number + 0.0  # -0.0 + 0.0 is 0.0
