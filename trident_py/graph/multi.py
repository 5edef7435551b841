"""``multi_reduce``: one user-written reducer over several streams, within each batch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from attrs import frozen
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import IntegerType, StructField, StructType

from coordinators.values.attempt import TransactionAttempt
from trident_py.graph.aggregation import AggregateCall, Aggregation
from trident_py.graph.flow import Flow
from trident_py.graph.graph import Engine, Node, Operation
from trident_py.graph.joining import check_same_keys
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.operations import Aggregator, GroupedMultiReducer, MultiReducer
from trident_py.rows.row import row_class
from trident_py.rows.schema import select
from trident_py.spark.frames import column

AnyMultiReducer = MultiReducer[Any] | GroupedMultiReducer[Any]


@frozen
class MultiReduce(Operation):
    """One reducer over the rows of several streams.

    Attributes:
        keys: for each stream, its group fields; empty if not grouped: then one task receives the whole batch.
        in_fields: for each stream, the fields that the reducer receives; empty: all fields.
        out: the fields that it emits.
    """

    title: str
    keys: tuple[tuple[str, ...], ...]
    in_fields: tuple[tuple[str, ...], ...]
    reducer: AnyMultiReducer
    out: StructType

    def engine(self, inputs: Sequence[Node]) -> Engine:
        """Return Python, which runs over partitions of groups."""
        return Engine.PYTHON

    def output(self, inputs: Sequence[StructType]) -> StructType:
        self._tagged(inputs)
        return self.out

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """Aggregate all rows in one frame: each row has its stream's number, and its values in a struct."""
        schemas = [flow.schema for flow in inputs]
        tagged = self._tagged(schemas)
        frames = [self._frame(number, flow, tagged) for number, flow in enumerate(inputs)]
        names = tuple(field.name for field in tagged.fields if field.name.startswith("_group_"))
        aggregation = Aggregation(
            title=self.title,
            keys=names,
            calls=(AggregateCall(aggregator=_Reducing(self.reducer, self.keys[0]), in_fields=(), out=self.out),),
        )
        union = Flow.of(reduce(DataFrame.unionAll, frames), tagged)
        return aggregation.build([union], batch_id).select(self.out.names)

    def _tagged(self, inputs: Sequence[StructType]) -> StructType:
        groups = check_same_keys([select(source, keys) for source, keys in zip(inputs, self.keys, strict=True)])
        rows = [select(source, names or source.names) for source, names in zip(inputs, self.in_fields, strict=True)]
        return StructType(
            [
                *(StructField(f"_group_{number}", key.dataType) for number, key in enumerate(groups.fields)),
                StructField("_stream", IntegerType()),
                *(StructField(f"_row_{number}", row) for number, row in enumerate(rows)),
            ]
        )

    def _frame(self, number: int, flow: Flow, tagged: StructType) -> DataFrame:
        groups = [column(key).alias(f"_group_{position}") for position, key in enumerate(self.keys[number])]
        seen = self.in_fields[number] or flow.schema.names
        rows = [
            (F.struct(*map(column, seen)) if field.name == f"_row_{number}" else F.lit(None))
            .cast(field.dataType)
            .alias(field.name)
            for field in tagged.fields[len(groups) + 1 :]
        ]
        return flow.native().select(*groups, F.lit(number).alias("_stream"), *rows)


class _Reducing(Aggregator[list[Any]]):
    """Runs a multi-reducer as an aggregator of tagged rows. Its value is the reducer's value and the group."""

    def __init__(self, reducer: AnyMultiReducer, group_fields: tuple[str, ...]) -> None:
        self.reducer = reducer
        self.group_fields = group_fields

    def prepare(self) -> None:
        self.reducer.prepare()

    def cleanup(self) -> None:
        self.reducer.cleanup()

    def init(self, batch_id: Any, collector: TridentCollector) -> list[Any]:
        """Begin without a group, because only the first row has it."""
        return [] if isinstance(self.reducer, GroupedMultiReducer) else [self.reducer.init(collector)]

    def aggregate(self, value: list[Any], row: Any, collector: TridentCollector) -> None:
        """Pass the row to the reducer, with the index of its stream."""
        width = len(self.group_fields)
        stream = row[width]
        seen = row[width + 1 + stream]
        if isinstance(self.reducer, GroupedMultiReducer):
            if not value:
                group = row_class(self.group_fields)._make(row[:width])
                value[:] = [self.reducer.init(collector, group), group]
            changed = self.reducer.execute(value[0], stream, value[1], seen, collector)
        else:
            changed = self.reducer.execute(value[0], stream, seen, collector)
        if changed is not None:
            value[0] = changed

    def complete(self, value: list[Any], collector: TridentCollector) -> None:
        if isinstance(self.reducer, GroupedMultiReducer):
            reduced, group = value
            self.reducer.complete(reduced, group, collector)
        else:
            self.reducer.complete(value[0], collector)
