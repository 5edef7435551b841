"""The built-in operations. Each is a Spark expression if possible, and works in plain Python too."""

from __future__ import annotations

import logging
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from decimal import Decimal
from functools import reduce
from operator import and_
from typing import Any, ClassVar, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql import types as t

from trident_py.errors import TopologyError
from trident_py.interfaces.operations import CombinerAggregator, Filter, T

Number: TypeAlias = int | float | Decimal

_DECIMAL_PRECISION_MAX = 38
_SUM_EXTRA_DIGITS = 10


class SparkAggregator(ABC):
    """An aggregator that Spark can compute itself. It defines the type of its result, so ``out`` is only a name.

    Attributes:
        in_fields: the fields that it reads; empty: all.
        in_order: whether ``expression`` uses `PLACE`, the place of each row in its batch.
    """

    in_fields: tuple[str, ...] = ()
    in_order: ClassVar[bool] = False

    @abstractmethod
    def result_type(self, source: t.StructType) -> t.DataType:
        """Return the type of the result over ``source``, which has only ``in_fields``, or all fields if they are empty.

        Raises:
            TopologyError: it can't aggregate values of this type.
        """

    @abstractmethod
    def expression(self, columns: Sequence[Column], result: t.DataType) -> Column:
        """Return the aggregation as a Spark expression over the columns of ``in_fields``.

        It is never null unless its zero is ``None``.
        """

    def expression_without_ansi(self, columns: Sequence[Column], result: t.DataType) -> Column:
        """Return the expression for a session without ANSI mode, in which Spark's own arithmetic hides overflows."""
        return self.expression(columns, result)

    def expression_in(self, is_ansi: bool, columns: Sequence[Column], result: t.DataType) -> Column:
        """Return the expression for a session with or without ANSI mode."""
        return (self.expression if is_ansi else self.expression_without_ansi)(columns, result)

    def needed_rows(self, frame: DataFrame, keys: Sequence[str]) -> DataFrame:
        """Return the rows of a batch that determine a reducer's result, for each of ``keys``.

        By default, all rows.
        """
        return frame

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.in_fields))})"


class NativeAggregator(SparkAggregator, CombinerAggregator[T]):
    """A `CombinerAggregator` that Spark can compute itself."""


class Count(NativeAggregator[int]):
    """The number of rows: ``bigint``. It reads no values."""

    merge = "sum"

    def init(self, row: Any) -> int:
        return 1

    def combine(self, left: int, right: int) -> int:
        return left + right

    def zero(self) -> int:
        return 0

    def result_type(self, source: t.StructType) -> t.DataType:
        return t.LongType()

    def expression(self, columns: Sequence[Column], result: t.DataType) -> Column:
        return F.count(F.lit(1))


class Sum(NativeAggregator[Number]):
    """The sum of a field. Nulls add nothing, and the sum of no rows is 0.

    The result of integers is ``bigint``, of ``float`` and ``double`` it is ``double`` (Storm cut floats to integers).
    The result of ``decimal(p, s)`` is ``decimal(min(p + 10, 38), s)``.
    """

    merge = "sum"

    def __init__(self, in_field: str) -> None:
        self.in_fields = (in_field,)

    def init(self, row: Any) -> Number:
        """Return the field's value, or 0 for null."""
        value: Number | None = row[0]
        return 0 if value is None else value

    def combine(self, left: Number, right: Number) -> Number:
        return left + right  # type: ignore[operator] # one field, one type; but for the 0 that goes with all

    def zero(self) -> Number:
        return 0

    def result_type(self, source: t.StructType) -> t.DataType:
        """Return the type that follows from the type of the field."""
        match kind := _only(source).dataType:
            case t.DecimalType():
                return t.DecimalType(min(kind.precision + _SUM_EXTRA_DIGITS, _DECIMAL_PRECISION_MAX), kind.scale)
            case t.IntegralType():
                return t.LongType()
            case t.FractionalType():
                return t.DoubleType()
        raise TopologyError(f"{self!r} adds numbers, and {self.in_fields[0]!r} is {kind.simpleString()}")

    def expression(self, columns: Sequence[Column], result: t.DataType) -> Column:
        return F.coalesce(F.sum(columns[0]), F.lit(0).cast(result))

    def expression_without_ansi(self, columns: Sequence[Column], result: t.DataType) -> Column:
        """Return a sum that raises an error if it overflows; it takes a third longer than an unchecked sum."""
        (values,), zero = columns, F.lit(0).cast(result)
        overflow = F.raise_error(f"{self!r} overflows {result.simpleString()}")
        return F.coalesce(F.try_sum(values), F.when(F.count(values) == 0, zero).otherwise(overflow.cast(result)))


class _Extreme(NativeAggregator[Any]):
    _UNORDERED: ClassVar[tuple[type[t.DataType], ...]] = (t.ArrayType, t.MapType, t.StructType)

    def __init__(self, in_field: str) -> None:
        self.in_fields = (in_field,)

    def init(self, row: Any) -> Any:
        return row[0]

    def combine(self, left: Any, right: Any) -> Any:
        """Return the winner of two values; null never wins."""
        if left is None or right is None:
            return right if left is None else left
        return self._winner(left, right)

    def zero(self) -> None:
        """Return ``None``, the extreme of no rows."""

    def result_type(self, source: t.StructType) -> t.DataType:
        kind = _only(source).dataType
        if isinstance(kind, self._UNORDERED):
            raise TopologyError(f"{self!r} compares values, and {self.in_fields[0]!r} is {kind.simpleString()}")
        return kind

    @abstractmethod
    def _winner(self, left: Any, right: Any) -> Any:
        """Return the winner of two values."""


class Min(_Extreme):
    """The least non-null value of a field; null if there is no value. NaN is the greatest, as in Spark."""

    merge = "min"

    def expression(self, columns: Sequence[Column], result: t.DataType) -> Column:
        return F.min(columns[0])

    def _winner(self, left: Any, right: Any) -> Any:
        return min(left, right, key=_as_spark_orders)


class Max(_Extreme):
    """The greatest non-null value of a field; null if there is no value. NaN is the greatest, as in Spark."""

    merge = "max"

    def expression(self, columns: Sequence[Column], result: t.DataType) -> Column:
        return F.max(columns[0])

    def _winner(self, left: Any, right: Any) -> Any:
        return max(left, right, key=_as_spark_orders)


class NativeFilter(Filter):
    """A `Filter` that Spark can evaluate itself."""

    @abstractmethod
    def condition(self, columns: Sequence[Column]) -> Column:
        """Return the filter as a Spark condition over the columns that it reads."""

    def check(self, source: t.StructType) -> None:
        """Check the fields that the filter will read.

        Raises:
            TopologyError: it can't compare values of these types.
        """


class FilterNull(NativeFilter):
    """Keeps the rows that have a value in each of these fields; without arguments, in all fields."""

    def __init__(self, *in_fields: str) -> None:
        self.in_fields = in_fields

    def is_keep(self, row: Any) -> bool:
        """Return whether no value is null."""
        return None not in row

    def condition(self, columns: Sequence[Column]) -> Column:
        """Return ``a IS NOT NULL AND b IS NOT NULL``."""
        return reduce(and_, [each.isNotNull() for each in columns])


class Equals(NativeFilter):
    """Keeps the rows in which all these fields are equal; without arguments, all fields. A null equals a null."""

    def __init__(self, *in_fields: str) -> None:
        self.in_fields = in_fields

    def is_keep(self, row: Any) -> bool:
        """Return whether each value equals the first."""
        return all(value == row[0] or (value != value and row[0] != row[0]) for value in row)

    def condition(self, columns: Sequence[Column]) -> Column:
        """Return ``a <=> b AND a <=> c``."""
        return reduce(and_, [columns[0].eqNullSafe(each) for each in columns])

    def check(self, source: t.StructType) -> None:
        """Check that there are fields to compare, of one comparable type."""
        kinds = [field.dataType.simpleString() for field in source.fields]
        if len(kinds) < 2 or len(set(kinds)) > 1 or "map<" in kinds[0]:
            raise TopologyError(f"Equals compares two or more fields of one type, maps not, and these are {kinds}")


class Debug(Filter):
    """Keeps every row, and writes it to the standard output of the Python worker that processes it.

    Args:
        name: the prefix of each line.
        use_logger: log it instead, at level ``INFO``, to the logger ``trident_py.debug``.
    """

    def __init__(self, name: str = "DEBUG", *, use_logger: bool = False) -> None:
        self.name = name
        self.use_logger = use_logger

    def is_keep(self, row: Any) -> bool:
        if self.use_logger:
            logging.getLogger("trident_py.debug").info("%s: %s", self.name, row)
        else:
            sys.stdout.write(f"{self.name}: {row}\n")
        return True


class Negate(Filter):
    """Keeps the rows that another filter drops."""

    def __init__(self, inner: Filter) -> None:
        if not isinstance(inner, Filter):
            raise TopologyError(f"Negate takes a Filter, not {inner!r}")
        self.inner = inner
        self.in_fields = inner.in_fields

    def is_keep(self, row: Any) -> bool:
        """Return whether the inner filter drops the row."""
        return not self.inner.is_keep(row)

    def prepare(self) -> None:
        self.inner.prepare()

    def cleanup(self) -> None:
        self.inner.cleanup()

    def check(self, source: t.StructType) -> None:
        """Check the fields that the inner filter will read."""
        if isinstance(self.inner, NativeFilter | Negate):
            self.inner.check(source)


def _only(source: t.StructType) -> t.StructField:
    (field,) = source.fields
    return field


def _as_spark_orders(value: Any) -> tuple[bool, Any]:
    return value != value, value
