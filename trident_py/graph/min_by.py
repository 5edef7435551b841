"""``min_by`` and ``max_by``: the one row of a batch that has the least or greatest value of a field."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import StructType

from coordinators.attempt import TransactionAttempt
from trident_py.graph.flow import Flow
from trident_py.graph.graph import Operation
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.operations import Aggregator
from trident_py.operations.builtin import Max, Min
from trident_py.rows.schema import select
from trident_py.spark.frames import column


@frozen
class ExtremeRow(Operation):
    """The row with the extreme value; no row where none has a value.

    Attributes:
        extreme: says which value.
    """

    title: str
    extreme: Min | Max

    def output(self, inputs: Sequence[StructType]) -> StructType:
        """The fields stay."""
        self.extreme.result_type(select(inputs[0], self.extreme.in_fields))
        return inputs[0]

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """Spark's ``min_by`` or ``max_by`` of whole rows."""
        (flow,) = inputs
        names = [f"_{position}" for position in range(len(flow.schema.names))]
        by = column(names[flow.schema.names.index(self.extreme.in_fields[0])])
        row = F.struct(*names)
        best = F.min_by(row, by) if isinstance(self.extreme, Min) else F.max_by(row, by)
        found = flow.native().toDF(*names).agg(best.alias("_best")).where("_best IS NOT NULL").select("_best.*")
        return Flow.of(found.toDF(*flow.schema.names), flow.schema)


class BestRow(Aggregator[list[Any]]):
    """Emits the row whose ``key`` of a field's value is the least or greatest, of equal ones the last."""

    def __init__(self, in_field: str, key: Callable[[Any], Any], *, greatest: bool) -> None:
        self.in_field = in_field
        self.key = key
        self.greatest = greatest

    def __repr__(self) -> str:
        return f"{'max' if self.greatest else 'min'} of {self.in_field!r}"

    def init(self, batch_id: Any, collector: TridentCollector) -> list[Any]:
        """None so far."""
        return []

    def aggregate(self, value: list[Any], row: Any, collector: TridentCollector) -> list[Any] | None:
        """The better one of the best so far, a key with its row, and ``row``; a null is none."""
        if row[self.in_field] is None:
            return None
        key = self.key(row[self.in_field])
        if value and (key < value[0] if self.greatest else value[0] < key):
            return None
        return [key, row]

    def complete(self, value: list[Any], collector: TridentCollector) -> None:
        """Emit the best, if there is one."""
        if value:
            collector.emit(value[1])
