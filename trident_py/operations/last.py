"""``Last``: the value of a field in the last row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql import types as t

from trident_py.interfaces.operations import ReducerAggregator
from trident_py.operations.builtin import SparkAggregator
from trident_py.spark.frames import PLACE, column, place


class Last(SparkAggregator, ReducerAggregator[Any]):
    """The value of a field in the last row, including null: for a table of current values.

    Rows are processed in the order of the batch, and batches in their order. Without rows, a state keeps its value, and
    the aggregate of a batch is null.
    """

    in_order: ClassVar[bool] = True

    def __init__(self, in_field: str) -> None:
        self.in_fields = (in_field,)

    def init(self) -> None:
        """Return ``None``, the value of no rows."""

    def reduce(self, curr: Any, row: Any) -> Any:
        return row[0]

    def result_type(self, source: t.StructType) -> t.DataType:
        (field,) = source.fields
        return field.dataType

    def expression(self, columns: Sequence[Column], result: t.DataType) -> Column:
        return F.max_by(columns[0], column(PLACE))

    def needed_rows(self, frame: DataFrame, keys: Sequence[str]) -> DataFrame:
        """Return the last row of each key, so that only these rows are sent to the driver."""
        names = [f"_{position}" for position in range(len(frame.columns))]
        given = [names[frame.columns.index(key)] for key in keys]
        last = F.max_by(F.struct(*names), column(PLACE)).alias("_last")
        placed = frame.toDF(*names).withColumn(PLACE, place())
        return placed.groupBy(*given).agg(last).where("_last IS NOT NULL").select("_last.*").toDF(*frame.columns)
