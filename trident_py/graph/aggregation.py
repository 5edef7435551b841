"""Aggregation within a batch or a partition of it: all three kinds, grouped or not, with one or more aggregators."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, TypeAlias

from attrs import evolve, frozen
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql import types as t

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Json
from trident_py.errors import TopologyError
from trident_py.graph.flow import Flow
from trident_py.graph.graph import Engine, NeedsSpark, Node, Operation, RowFlow, RowWise
from trident_py.interfaces.identity import class_names
from trident_py.interfaces.operations import Aggregator, CombinerAggregator, ReducerAggregator
from trident_py.operations.builtin import Count, SparkAggregator
from trident_py.rows.schema import append, check_comparable, names_of, schema_of, select, shown
from trident_py.spark.frames import PLACE, column, has_ansi, place
from trident_py.worker.accumulators import (
    Accumulator,
    AggregatorAccumulator,
    ChainAccumulator,
    CombiningAccumulator,
    GroupStage,
    MergingAccumulator,
    ReducingAccumulator,
)
from trident_py.worker.local_count import LocalCountStage, can_tally
from trident_py.worker.pipeline import RowPipeline

AnyAggregator: TypeAlias = CombinerAggregator[Any] | ReducerAggregator[Any] | Aggregator[Any]


class Scope(Enum):
    """The rows that are aggregated together."""

    BATCH = "batch"
    PARTITION = "partition"


@frozen
class AggregatedFields:
    """The fields of an aggregation.

    Attributes:
        keys: the group fields.
        calls: for each aggregator, its input fields and its result fields.
    """

    keys: t.StructType
    calls: tuple[tuple[t.StructType, t.StructType], ...]

    @property
    def seen(self) -> t.StructType:
        """The input fields of all aggregators, without duplicates."""
        return t.StructType(list({field.name: field for seen, _ in self.calls for field in seen.fields}.values()))

    @property
    def results(self) -> t.StructType:
        """The result fields of all aggregators, in order."""
        return t.StructType([field for _, results in self.calls for field in results.fields])

    @property
    def needed(self) -> list[str]:
        """The names of all fields that are read."""
        return list(dict.fromkeys([*self.keys.names, *self.seen.names]))

    @property
    def target(self) -> t.StructType:
        """The output fields of the aggregation."""
        return append(self.keys, self.results)

    def combined(self) -> AggregatedFields:
        """Return the fields of the next aggregation, which combines the partial results of this one."""
        return AggregatedFields(self.keys, tuple((results, results) for _, results in self.calls))


@frozen(kw_only=True)
class AggregateCall:
    """One aggregator of an aggregation.

    Attributes:
        in_fields: the input fields of the aggregator; empty: all fields.
        out: the name of the result for a `SparkAggregator`; ``"name type"`` or several of these for other aggregators.
        declared: the result type that the user gave for a `SparkAggregator`; None if they gave no type.
    """

    aggregator: AnyAggregator
    in_fields: tuple[str, ...]
    out: str | t.StructType
    declared: t.DataType | None = None

    def seen(self, source: t.StructType) -> tuple[str, ...]:
        """Return the names of the input fields in ``source``; empty if the aggregator reads no value."""
        if isinstance(self.aggregator, SparkAggregator):
            return self.in_fields
        return self.in_fields or tuple(source.names)

    def fields(self, source: t.StructType) -> tuple[t.StructType, t.StructType]:
        """Return the input fields and the result fields."""
        seen = select(source, self.seen(source))
        if isinstance(self.aggregator, SparkAggregator):
            return seen, t.StructType([t.StructField(str(self.out), self._result_type(self.aggregator, seen))])
        return seen, schema_of(self.out)

    def _result_type(self, aggregator: SparkAggregator, seen: t.StructType) -> t.DataType:
        found = aggregator.result_type(seen)
        if self.declared not in (None, found):
            raise TopologyError(
                f"{aggregator!r} gives {found.simpleString()}, and {self.out!r} is declared "
                f"{self.declared.simpleString() if self.declared else ''}; give the name of the result only"
            )
        return found

    @property
    def identity(self) -> dict[str, Json]:
        """Its class and declared fields: a sum of another field has another identity."""
        return {"aggregator": class_names(self.aggregator), "aggregated fields": ", ".join(self.in_fields)}

    def accumulator(self, batch_id: TransactionAttempt | int | None, title: str) -> Accumulator[Any]:
        """Return an accumulator of rows; an `Aggregator` receives ``batch_id``."""
        match self.aggregator:
            case CombinerAggregator():
                return CombiningAccumulator(self.aggregator)
            case ReducerAggregator():
                return ReducingAccumulator(self.aggregator)
        return AggregatorAccumulator(self.aggregator, batch_id, schema_of(self.out), title)


@frozen(kw_only=True)
class Aggregation(Operation):
    """One value, or some rows, for each group of a batch. Without groups: for the batch, even if it is empty.

    Attributes:
        keys: the group fields; empty if not grouped.
        calls: the aggregators, at least one.
        scope: whether there is one result for the batch, or one for each partition of it.
        is_tagged: whether the first key is a transaction's number; see `sharing`.
    """

    title: str
    keys: tuple[str, ...]
    calls: tuple[AggregateCall, ...]
    scope: Scope = Scope.BATCH
    is_tagged: bool = False

    @property
    def is_native(self) -> bool:
        """Whether Spark computes it natively."""
        return self.scope is Scope.BATCH and all(isinstance(call.aggregator, SparkAggregator) for call in self.calls)

    def fields(self, source: t.StructType) -> AggregatedFields:
        """Return the fields, for inputs with the fields of ``source``.

        Raises:
            TopologyError: the fields and the aggregators don't match.
        """
        keys = select(source, self.keys)
        check_comparable(keys)
        return AggregatedFields(keys, tuple(call.fields(source) for call in self.calls))

    def engine(self, inputs: Sequence[Node]) -> Engine:
        return Engine.SPARK if self.is_native else Engine.PYTHON

    def shared(self, field: t.StructField, source: t.StructType, is_rowwise: RowWise) -> Aggregation | None:
        """Add the transaction as a key. This needs other keys, because a group exists only if it has rows."""
        return self.keyed(field, source) if self.scope is Scope.BATCH and self.keys else None

    def keyed(self, field: t.StructField, source: t.StructType) -> Aggregation | None:
        """Return the aggregation with ``field`` as its first key, which no aggregator reads."""
        if any(isinstance(call.aggregator, Aggregator) for call in self.calls):
            return None  # it would receive the batch id of all batches together
        calls = tuple(evolve(call, in_fields=call.seen(source)) for call in self.calls)
        return evolve(self, keys=(field.name, *self.keys), calls=calls, is_tagged=True)

    def output(self, inputs: Sequence[t.StructType]) -> t.StructType:
        """Return the group fields, then the results."""
        return self.fields(inputs[0]).target

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """Use Spark expressions if Spark can compute it; else one pass of Python over each partition of groups."""
        flow = self.unordered(inputs, batch_id)
        if self.is_native and self.keys:  # otherwise the groups come in order of their first rows
            return flow.replaced(lambda frame: frame.sortWithinPartitions(*map(column, self.keys)), flow.schema)
        return flow

    def unordered(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """Build the same aggregation, with the groups in any order."""
        (flow,) = inputs
        fields = self.fields(flow.schema)
        if self.is_native:
            return Flow.of(self._native(flow, fields), fields.target)
        combiners = [call.aggregator for call in self.calls if isinstance(call.aggregator, CombinerAggregator)]
        accumulators: list[Accumulator[Any]] = [call.accumulator(batch_id, self.title) for call in self.calls]
        if self.scope is Scope.PARTITION:
            placed = flow if self.keys or flow.is_parted else flow.marked()
            return placed.staged(self._stage(placed.rows, fields, accumulators), fields.target)
        if len(combiners) == len(self.calls):
            flow = flow.staged(self._stage(flow.rows, fields, accumulators, partial=True), fields.target)
            accumulators, fields = [MergingAccumulator(combiner) for combiner in combiners], fields.combined()
        gathered = self._gathered(flow.select(fields.needed))
        return gathered.staged(self._stage(gathered.rows, fields, accumulators), fields.target)

    def on_rows(self, inputs: Sequence[RowFlow], batch_id: TransactionAttempt | None) -> RowFlow:
        """Process all rows once, and return groups in the order of `build`.

        Raises:
            NeedsSpark: only Spark knows the number of partitions.
        """
        return self.unordered_on_rows(inputs, batch_id, sorts=self.is_native)

    def unordered_on_rows(
        self, inputs: Sequence[RowFlow], batch_id: TransactionAttempt | None, *, sorts: bool = False
    ) -> RowFlow:
        """Process all rows once, with the groups in any order, or sorted."""
        if self.scope is Scope.PARTITION:
            raise NeedsSpark(self.title)
        (flow,) = inputs
        fields = self.fields(flow.schema)
        accumulators = [call.accumulator(batch_id, self.title) for call in self.calls]
        return flow.staged(self._stage(flow.rows, fields, accumulators, sorts=sorts), fields.target)

    def _gathered(self, flow: Flow) -> Flow:
        if not self.keys:
            return flow.parted(lambda frame: frame.repartition(1))
        return flow.grouped(self.keys)

    def _stage(
        self,
        rows: RowPipeline,
        fields: AggregatedFields,
        accumulators: Sequence[Accumulator[Any]],
        *,
        partial: bool = False,
        sorts: bool = False,
    ) -> GroupStage:
        return GroupStage(
            rows=rows,
            keys=fields.keys,
            in_fields=tuple(tuple(seen.names) for seen, _ in fields.calls),
            accumulator=accumulators[0] if len(accumulators) == 1 else ChainAccumulator(tuple(accumulators)),
            target=fields.target,
            partial=partial,
            sorts=sorts,
            title=self.title,
            is_tagged=self.is_tagged,
        )

    def _native(self, flow: Flow, fields: AggregatedFields) -> DataFrame:
        only = self.calls[0].aggregator
        if type(only) is Count and len(self.calls) == 1 and flow.rows.steps and can_tally(fields.keys):
            (count,) = fields.results.names
            scope = LocalCountStage(rows=flow.rows, keys=fields.keys, count=count)
            counted = flow.staged(scope, scope.target).native()
            return counted.groupBy(*map(column, fields.keys.names)).agg(F.sum(column(count)).alias(count))
        frame = flow.select(fields.needed or flow.schema.names[:1]).native()
        if any(isinstance(each.aggregator, SparkAggregator) and each.aggregator.in_order for each in self.calls):
            frame = frame.withColumn(PLACE, place())
        is_ansi = has_ansi(frame)
        values = [
            call.aggregator.expression_in(is_ansi, list(map(column, seen.names)), result.dataType).alias(result.name)
            for call, (seen, results) in zip(self.calls, fields.calls, strict=True)
            for result in results.fields
            if isinstance(call.aggregator, SparkAggregator)
        ]
        return frame.groupBy(*map(column, fields.keys.names)).agg(*values)


def aggregate_call(
    aggregator: AnyAggregator, out: str | t.StructType, in_fields: str | Sequence[str] | None
) -> AggregateCall:
    """Make the call of one aggregator, after the checks that need no knowledge of the input."""
    if not isinstance(aggregator, CombinerAggregator | ReducerAggregator | Aggregator):
        raise TopologyError(
            f"an aggregator is an instance of CombinerAggregator, ReducerAggregator or Aggregator, "
            f"not {shown(aggregator)}"
        )
    if isinstance(aggregator, SparkAggregator):
        if in_fields is not None:
            raise TopologyError(f"{aggregator!r} has its own input fields; leave in_fields= out")
        if not isinstance(out, str) or not out or " " in out:
            raise TopologyError(f"{aggregator!r} knows its type: give the name of the result only, not {shown(out)}")
    elif len(schema_of(out).fields) != 1 and not isinstance(aggregator, Aggregator):
        raise TopologyError(
            f"{type(aggregator).__name__} gives one value: one field, as in 'total bigint', not {out!r}"
        )
    seen = names_of(aggregator.in_fields if in_fields is None else in_fields)
    return AggregateCall(aggregator=aggregator, in_fields=seen, out=out)


def schema_call(aggregator: AnyAggregator, out: str | t.StructType) -> AggregateCall:
    """Make the call of one aggregator like `aggregate_call`; a built-in one may have a declared type."""
    if not isinstance(aggregator, SparkAggregator) or (isinstance(out, str) and " " not in out):
        return aggregate_call(aggregator, out, None)
    fields = schema_of(out).fields
    if len(fields) != 1:
        raise TopologyError(f"{aggregator!r} gives one value: give the name of the result only, not {shown(out)}")
    return evolve(aggregate_call(aggregator, fields[0].name, None), declared=fields[0].dataType)


def aggregation(
    title: str,
    keys: tuple[str, ...],
    aggregator: AnyAggregator,
    out: str | t.StructType,
    in_fields: str | Sequence[str] | None,
    scope: Scope = Scope.BATCH,
) -> Aggregation:
    """Make an aggregation by one aggregator, after the checks that need no knowledge of the input."""
    return Aggregation(title=title, keys=keys, calls=(aggregate_call(aggregator, out, in_fields),), scope=scope)


def with_call(aggregation: Aggregation, call: AggregateCall, title: str) -> Aggregation:
    """Return ``aggregation`` with one more aggregator; a duplicate result name is an error."""
    names = [name for each in (*aggregation.calls, call) for name in _result_names(each)]
    for position, name in enumerate(names):
        if name.lower() in {other.lower() for other in names[:position]}:
            raise TopologyError(f"two aggregators of one chain give a field {name!r}; each needs a name of its own")
    return evolve(aggregation, calls=(*aggregation.calls, call), title=title)


def _result_names(call: AggregateCall) -> list[str]:
    return [str(call.out)] if isinstance(call.aggregator, SparkAggregator) else schema_of(call.out).names
