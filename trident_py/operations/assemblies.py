"""The built-in assemblies."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from trident_py.errors import TopologyError
from trident_py.interfaces.operations import Assembly
from trident_py.rows.schema import check_comparable, select, shown
from trident_py.spark.frames import PLACE, column, place


class FirstN(Assembly):
    """The first ``n`` rows of a batch in ascending order of a field; rows without a value come last.

    Rows with the same value keep the order of the batch.

    Args:
        n: the largest number of rows.
        in_field: the field to order by; None: any ``n`` rows.
        reverse: sort in descending order.
    """

    def __init__(self, n: int, in_field: str | None = None, reverse: bool = False) -> None:
        if type(n) is not int or n < 1:
            raise TopologyError(f"FirstN gives a number of rows from 1, not {shown(n)}")
        if in_field is not None and not isinstance(in_field, str):
            raise TopologyError(f"FirstN orders by one field, not {shown(in_field)}")
        self.n = n
        self.in_field = in_field
        self.reverse = reverse

    def __repr__(self) -> str:
        order = "" if self.in_field is None else f", {self.in_field!r}"
        return f"FirstN({self.n}{order}{', reverse=True' if self.reverse else ''})"

    def apply(self, stream: Any) -> Any:
        if stream.schema is not None and self.in_field is not None:
            check_comparable(select(stream.schema, [self.in_field]))
        return stream.transform(self, stream.schema)

    def __call__(self, frame: DataFrame) -> DataFrame:
        """Return the first rows of one batch."""
        if self.in_field is not None:
            field = column(self.in_field)
            by = field.desc_nulls_last() if self.reverse else field.asc_nulls_last()
            return frame.withColumn(PLACE, place()).orderBy(by, PLACE).limit(self.n).drop(PLACE)
        return frame.limit(self.n)
