"""The operations that come with the product. What can be a Spark expression is one; each works in plain Python too."""

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
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as t

from trident_py.errors import TopologyError
from trident_py.interfaces.operations import CombinerAggregator, Filter, T

Number: TypeAlias = int | float | Decimal

_DECIMAL_PRECISION_MAX = 38
_SUM_EXTRA_DIGITS = 10


class SparkAggregator(ABC):
    """An aggregator that Spark can compute itself; it gives its result's type, so ``out`` is a name only.

    Attributes:
        in_fields: the fields that it sees; empty: all.
        in_order: whether ``expression`` looks at `PLACE`, the place of each row in its batch.
    """

    in_fields: tuple[str, ...] = ()
    in_order: ClassVar[bool] = False

    @abstractmethod
    def result_type(self, source: t.StructType) -> t.DataType:
        """Return the type of its result over ``source``, which holds ``in_fields`` only (all fields if there are none).

        Raises:
            TopologyError: it can't aggregate values of such a type.
        """

    @abstractmethod
    def expression(self, columns: Sequence[Column], result: t.DataType) -> Column:
        """Return the same as a Spark expression over the columns of ``in_fields``.

        Never null where its zero isn't None.
        """

    def needed_rows(self, frame: DataFrame, keys: Sequence[str]) -> DataFrame:
        """Return those rows of a batch that decide what a reducer makes of it, for each of ``keys``.

        All, if nobody knows.
        """
        return frame

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.in_fields))})"


class NativeAggregator(SparkAggregator, CombinerAggregator[T]):
    """A `CombinerAggregator` that Spark can compute itself."""


class Count(NativeAggregator[int]):
    """The number of rows: ``bigint``. Never looks at values."""

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
    """The sum of a field; nulls add nothing, and the sum of nothing is 0.

    Integers give ``bigint``, ``float`` and ``double`` give ``double`` (Storm cut floats to integers),
    ``decimal(p, s)`` gives ``decimal(min(p + 10, 38), s)``.
    """

    merge = "sum"

    def __init__(self, in_field: str) -> None:
        self.in_fields = (in_field,)

    def init(self, row: Any) -> Number:
        """Return the field's value; 0 for null."""
        value: Number | None = row[0]
        return 0 if value is None else value

    def combine(self, left: Number, right: Number) -> Number:
        return left + right  # type: ignore[operator] # one field, one type; but for the 0 that goes with all

    def zero(self) -> Number:
        return 0

    def result_type(self, source: t.StructType) -> t.DataType:
        """Return the type that follows from that of the field."""
        match kind := _only(source).dataType:
            case t.DecimalType():
                return t.DecimalType(min(kind.precision + _SUM_EXTRA_DIGITS, _DECIMAL_PRECISION_MAX), kind.scale)
            case t.IntegralType():
                return t.LongType()
            case t.FractionalType():
                return t.DoubleType()
        raise TopologyError(f"{self!r} adds numbers, and {self.in_fields[0]!r} is {kind.simpleString()}")

    def expression(self, columns: Sequence[Column], result: t.DataType) -> Column:
        """Return the sum, or an error where it overflows, also in a session without ANSI mode."""
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
        """Return the one that wins; a null never does."""
        if left is None or right is None:
            return right if left is None else left
        return self._winner(left, right)

    def zero(self) -> None:
        """Return None: there is none among no rows."""

    def result_type(self, source: t.StructType) -> t.DataType:
        kind = _only(source).dataType
        if isinstance(kind, self._UNORDERED):
            raise TopologyError(f"{self!r} compares values, and {self.in_fields[0]!r} is {kind.simpleString()}")
        return kind

    @abstractmethod
    def _winner(self, left: Any, right: Any) -> Any:
        """Return the one of two values that stays."""


class Min(_Extreme):
    """The least value of a field, which nulls aren't; null where there is none. NaN is the greatest, as in Spark."""

    merge = "min"

    def expression(self, columns: Sequence[Column], result: t.DataType) -> Column:
        return F.min(columns[0])

    def _winner(self, left: Any, right: Any) -> Any:
        return min(left, right, key=_as_spark_orders)


class Max(_Extreme):
    """The greatest value of a field, which nulls aren't; null where there is none. NaN is the greatest, as in Spark."""

    merge = "max"

    def expression(self, columns: Sequence[Column], result: t.DataType) -> Column:
        return F.max(columns[0])

    def _winner(self, left: Any, right: Any) -> Any:
        return max(left, right, key=_as_spark_orders)


class NativeFilter(Filter):
    """A `Filter` that Spark can evaluate itself."""

    @abstractmethod
    def condition(self, columns: Sequence[Column]) -> Column:
        """Return the same as a Spark condition over the columns that it sees."""

    def check(self, source: t.StructType) -> None:
        """Look at what it will see.

        Raises:
            TopologyError: it can't tell anything about values of such types.
        """


class FilterNull(NativeFilter):
    """Keeps the rows that have a value in each of these fields (no field: in all of them)."""

    def __init__(self, *in_fields: str) -> None:
        self.in_fields = in_fields

    def is_keep(self, row: Any) -> bool:
        """Tell whether no value is null."""
        return None not in row

    def condition(self, columns: Sequence[Column]) -> Column:
        """Return ``a IS NOT NULL AND b IS NOT NULL``."""
        return reduce(and_, [each.isNotNull() for each in columns])


class Equals(NativeFilter):
    """Keeps the rows in which all these fields (no field: all fields) are equal; a null equals a null."""

    def __init__(self, *in_fields: str) -> None:
        self.in_fields = in_fields

    def is_keep(self, row: Any) -> bool:
        """Tell whether each value equals the first."""
        return all(value == row[0] or (value != value and row[0] != row[0]) for value in row)

    def condition(self, columns: Sequence[Column]) -> Column:
        """Return ``a <=> b AND a <=> c``."""
        return reduce(and_, [columns[0].eqNullSafe(each) for each in columns])

    def check(self, source: t.StructType) -> None:
        """Check that there are fields to compare, of one type, and that values of it compare."""
        kinds = [field.dataType.simpleString() for field in source.fields]
        if len(kinds) < 2 or len(set(kinds)) > 1 or "map<" in kinds[0]:
            raise TopologyError(f"Equals compares two or more fields of one type, maps not, and these are {kinds}")


class Debug(Filter):
    """Keeps every row, and writes it to the standard output of the Python worker that has it.

    Args:
        name: what each line begins with.
        use_logger: log it instead, as ``INFO`` of the logger ``trident_py.debug``.
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
    """Keeps what another filter drops."""

    def __init__(self, inner: Filter) -> None:
        if not isinstance(inner, Filter):
            raise TopologyError(f"Negate takes a Filter, not {inner!r}")
        self.inner = inner
        self.in_fields = inner.in_fields

    def is_keep(self, row: Any) -> bool:
        """Tell whether the other one drops it."""
        return not self.inner.is_keep(row)

    def prepare(self) -> None:
        self.inner.prepare()

    def cleanup(self) -> None:
        """Have the other one clean up."""
        self.inner.cleanup()

    def check(self, source: t.StructType) -> None:
        """Have the other one look at what it will see."""
        if isinstance(self.inner, NativeFilter | Negate):
            self.inner.check(source)


def _only(source: t.StructType) -> t.StructField:
    (field,) = source.fields
    return field


def _as_spark_orders(value: Any) -> tuple[bool, Any]:
    return value != value, value
