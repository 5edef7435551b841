"""``min_by`` and ``max_by``: the row of a batch with the least or greatest value of a field, or of several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import and_
from typing import Any

from attrs import frozen
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import StructType

from coordinators.values.attempt import TransactionAttempt
from trident_py.errors import TopologyError
from trident_py.graph.flow import Flow
from trident_py.graph.graph import Operation
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.operations import Aggregator
from trident_py.operations.builtin import Max, Min
from trident_py.rows.row import row_class
from trident_py.rows.schema import names_of, select
from trident_py.spark.frames import PLACE, column, place


@frozen
class ExtremeRow(Operation):
    """The row with the extreme value; the last of several such rows. No row if no row has a value.

    Attributes:
        fields: the fields to compare, the most significant first.
        greatest: whether the greatest value wins instead of the least.
    """

    title: str
    fields: tuple[str, ...]
    greatest: bool

    def output(self, inputs: Sequence[StructType]) -> StructType:
        for field in select(inputs[0], self.fields):
            extreme = Max(field.name) if self.greatest else Min(field.name)
            extreme.result_type(StructType([field]))
        return inputs[0]

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """Use Spark's ``min_by`` or ``max_by`` of whole rows."""
        (flow,) = inputs
        names = [f"_{position}" for position in range(len(flow.schema.names))]
        compared = [column(names[flow.schema.names.index(field)]) for field in self.fields]
        has_all = reduce(and_, [each.isNotNull() for each in compared])
        by = F.when(has_all, F.struct(*compared, column(PLACE) if self.greatest else -column(PLACE)))
        row = F.struct(*names)
        best = F.max_by(row, by) if self.greatest else F.min_by(row, by)
        placed = flow.native().toDF(*names).withColumn(PLACE, place())
        found = placed.agg(best.alias("_best")).where("_best IS NOT NULL").select("_best.*")
        return Flow.of(found.toDF(*flow.schema.names), flow.schema)


class BestRow(Aggregator[list[Any]]):
    """Emits the row with the least or greatest ``key``; the last of several such rows.

    The key is computed from the value of a field, or from a `Row` of the values of several.
    """

    def __init__(self, fields: tuple[str, ...], key: Callable[[Any], Any], *, greatest: bool) -> None:
        self.fields = fields
        self.key = key
        self.greatest = greatest

    def __repr__(self) -> str:
        return f"{'max' if self.greatest else 'min'} of {', '.join(map(repr, self.fields))}"

    def init(self, batch_id: Any, collector: TridentCollector) -> list[Any]:
        return []

    def aggregate(self, value: list[Any], row: Any, collector: TridentCollector) -> list[Any] | None:
        """Return the key and row of the winner, or None to keep the present one; a row with a null never wins."""
        values = [row[name] for name in self.fields]
        if None in values:
            return None
        key = self.key(row_class(self.fields)._make(values) if len(values) > 1 else values[0])
        if value and (key < value[0] if self.greatest else value[0] < key):
            return None
        return [key, row]

    def complete(self, value: list[Any], collector: TridentCollector) -> None:
        """Emit the winner, if any."""
        if value:
            collector.emit(value[1])


def compared_fields(in_field: str | Sequence[str]) -> tuple[str, ...]:
    """Return the fields to compare.

    Raises:
        TopologyError: there is no field.
    """
    names = names_of(in_field)
    if not names:
        raise TopologyError("name at least one field to compare")
    return names
