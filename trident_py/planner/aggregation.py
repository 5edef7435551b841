"""Aggregation within a batch, of all three kinds, grouped or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from attrs import frozen
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as t

from coordinators.attempt import TransactionAttempt
from trident_py.errors import TopologyError
from trident_py.graph import Operation
from trident_py.operations.base import Aggregator, CombinerAggregator, ReducerAggregator
from trident_py.operations.builtin import NativeAggregator
from trident_py.planner.flow import Flow
from trident_py.planner.folds import NO_ROW, AggregatorFold, CombineFold, Fold, GroupStage, MergeFold, ReduceFold
from trident_py.planner.pipeline import RowPipeline
from trident_py.schema import append, names_of, schema_of, select, shown
from trident_py.spark.frames import column, map_batches

AnyAggregator: TypeAlias = CombinerAggregator[Any] | ReducerAggregator[Any] | Aggregator[Any]


@frozen
class AggregatedFields:
    """The fields of an aggregation.

    Attributes:
        keys: the group fields.
        seen: what the aggregator sees.
        results: what it gives for a group.
    """

    keys: t.StructType
    seen: t.StructType
    results: t.StructType

    @property
    def needed(self) -> list[str]:
        """The names of all that is read."""
        return list(dict.fromkeys([*self.keys.names, *self.seen.names]))

    @property
    def target(self) -> t.StructType:
        """The fields behind the aggregation."""
        return append(self.keys, self.results)


@frozen(kw_only=True)
class Aggregation(Operation):
    """One value, or some rows, for each group of a batch; ungrouped: for the batch, also if it is empty (Storm S13).

    Attributes:
        keys: the group fields; none: not grouped.
        in_fields: what the aggregator sees; none: all fields.
        out: the name of the result for a `NativeAggregator`, ``"name type"`` or several for the others.
    """

    title: str
    keys: tuple[str, ...]
    aggregator: AnyAggregator
    in_fields: tuple[str, ...]
    out: str | t.StructType

    def fields(self, source: t.StructType) -> AggregatedFields:
        """The fields, where the input has those of ``source``.

        Raises:
            TopologyError: they don't go together.
        """
        keys = select(source, self.keys)
        for key in keys.fields:
            if "map<" in key.dataType.simpleString():
                raise TopologyError(f"the field {key.name!r} is {key.dataType.simpleString()}, and maps don't compare")
        match self.aggregator:
            case NativeAggregator():
                seen = select(source, self.in_fields)
                results = t.StructType([t.StructField(str(self.out), self.aggregator.result_type(seen))])
            case _:
                seen, results = select(source, self.in_fields or source.names), schema_of(self.out)
        return AggregatedFields(keys, seen, results)

    def output(self, inputs: Sequence[t.StructType]) -> t.StructType:
        """The group fields, then the result."""
        return self.fields(inputs[0]).target

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """As Spark expressions where Spark can; else one pass of Python over each partition of groups."""
        (flow,) = inputs
        fields = self.fields(flow.schema)
        fold: Fold[Any]
        match self.aggregator:
            case NativeAggregator():
                return Flow.of(_native(flow, fields, self.aggregator), fields.target)
            case CombinerAggregator():
                combine = self._stage(flow.rows, fields, CombineFold(self.aggregator), partial=True)
                combined = map_batches(flow.frame, flow.rows.source.names, combine, fields.target)
                parts = Flow.of(combined, fields.target)
                fold, fields = MergeFold(self.aggregator), AggregatedFields(fields.keys, fields.results, fields.results)
            case ReducerAggregator():
                parts, fold = flow, ReduceFold(self.aggregator)
            case _:
                parts, fold = flow, AggregatorFold(self.aggregator, batch_id, fields.results, self.title)
        parts = parts.select(fields.needed)
        stage = self._stage(RowPipeline(parts.schema), fields, fold, partial=False)
        gathered, names = _gathered(parts, self.keys)
        return Flow.of(map_batches(gathered, names, stage, fields.target), fields.target)

    def _stage(self, rows: RowPipeline, fields: AggregatedFields, fold: Fold[Any], *, partial: bool) -> GroupStage:
        return GroupStage(
            rows=rows,
            keys=fields.keys,
            in_fields=tuple(fields.seen.names),
            fold=fold,
            target=fields.target,
            partial=partial,
            title=self.title,
        )


def aggregation(
    title: str,
    keys: tuple[str, ...],
    aggregator: AnyAggregator,
    out: str | t.StructType,
    in_fields: str | Sequence[str] | None,
) -> Aggregation:
    """Checks what can be checked without knowing the input."""
    if not isinstance(aggregator, CombinerAggregator | ReducerAggregator | Aggregator):
        raise TopologyError(
            f"an aggregator is an instance of CombinerAggregator, ReducerAggregator or Aggregator, "
            f"not {shown(aggregator)}"
        )
    if isinstance(aggregator, NativeAggregator):
        if in_fields is not None:
            raise TopologyError(f"{aggregator!r} carries its input fields; leave in_fields= out")
        if not isinstance(out, str) or not out or " " in out:
            raise TopologyError(f"{aggregator!r} knows its type: give the name of the result only, not {shown(out)}")
    elif len(schema_of(out).fields) != 1 and not isinstance(aggregator, Aggregator):
        raise TopologyError(
            f"{type(aggregator).__name__} gives one value: one field, as in 'total bigint', not {out!r}"
        )
    seen = names_of(aggregator.in_fields if in_fields is None else in_fields)
    return Aggregation(title=title, keys=keys, aggregator=aggregator, in_fields=seen, out=out)


def in_one_task(frame: DataFrame, schema: t.StructType) -> DataFrame:
    """All rows of ``frame``, which has the fields of ``schema``, in one partition that is never empty.

    The last column, `NO_ROW`, marks the row that is none. Without one, Spark runs no task over an empty batch.
    """
    nothing = [F.lit(None).cast(field.dataType).alias(field.name) for field in schema.fields]
    marker = frame.sparkSession.range(1).select(*nothing, F.lit(True).alias(NO_ROW))
    return frame.withColumn(NO_ROW, F.lit(False)).unionAll(marker).repartition(1)


def _gathered(flow: Flow, keys: tuple[str, ...]) -> tuple[DataFrame, list[str]]:
    frame, names = flow.native(), flow.schema.names
    if keys:
        return frame.repartition(*map(column, keys)), names
    return in_one_task(frame, flow.schema), [*names, NO_ROW]


def _native(flow: Flow, fields: AggregatedFields, aggregator: NativeAggregator[Any]) -> DataFrame:
    frame = flow.select(fields.needed or flow.schema.names[:1]).native()
    (result,) = fields.results.fields
    value = aggregator.expression(list(map(column, fields.seen.names)), result.dataType).alias(result.name)
    return frame.groupBy(*map(column, fields.keys.names)).agg(value)
