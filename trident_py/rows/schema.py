"""Schemas: the fields of rows, checked without Spark, and the Arrow data for values of their types."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Iterable, Sequence
from itertools import chain
from numbers import Integral, Real
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types as t

from trident_py.errors import TopologyError
from trident_py.rows.ddl import parse_ddl

_SHOWN_CHARS = 120
_HIDDEN = {"_report", "_no_row", "_copy", "_place", "_row_hash"}
"""Columns that this library adds to frames internally."""

# --- fields -----------------------------------------------------------------------------------------------------------


def fields_text(schema: t.StructType) -> str:
    """Return the fields as in ``word string, at timestamp``."""
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema.fields)


def schema_of(schema: str | t.StructType) -> t.StructType:
    """Return the fields that a DDL string or a StructType declares.

    Raises:
        TopologyError: it doesn't parse, names a field twice (Spark ignores case), has no field, or has a type that
            Python rows can't hold.
    """
    if not isinstance(schema, str | t.StructType):
        raise TopologyError(f"a schema is a DDL string such as 'word string' or a StructType, not {shown(schema)}")
    found = parse_ddl(schema) if isinstance(schema, str) else schema
    if not found.fields:
        raise TopologyError("a schema needs at least one field")
    _check_struct(found)
    return found


def names_of(fields: str | Sequence[str]) -> tuple[str, ...]:
    """Return one field name, or several, as a tuple."""
    if not isinstance(fields, Iterable):
        raise TopologyError(f"fields are a name or a list of names, not {shown(fields)}")
    names = (fields,) if isinstance(fields, str) else tuple(fields)
    for name in names:
        if not isinstance(name, str):
            raise TopologyError(f"a field name is a string, not {shown(name)}")
    return names


def nullable(schema: t.StructType) -> list[t.StructField]:
    """Return the fields of ``schema`` as nullable, as in a row that only holds a report."""
    return [t.StructField(each.name, each.dataType, True, each.metadata) for each in schema.fields]


def select(schema: t.StructType, names: Sequence[str]) -> t.StructType:
    """Return the fields ``names``, in this order.

    Raises:
        TopologyError: one doesn't exist, or is named twice.
    """
    known = dict(zip(schema.names, schema.fields, strict=True))
    for name in names:
        if name not in known:
            raise TopologyError(f"there is no field {name!r}; there are {_listed(schema.names)}")
    _unique(names)
    return t.StructType([known[name] for name in names])


def append(schema: t.StructType, more: t.StructType) -> t.StructType:
    """Return the fields of both; a name that both have is an error."""
    taken = {name.lower() for name in schema.names}
    for name in more.names:
        if name.lower() in taken:
            raise TopologyError(f"there is a field {name!r} already; there are {_listed(schema.names)}")
    return t.StructType([*schema.fields, *more.fields])


def check_comparable(schema: t.StructType) -> None:
    """Check that values of these fields can be compared for equality.

    Raises:
        TopologyError: one of them is a map.
    """
    for field in schema.fields:
        if "map<" in field.dataType.simpleString():
            raise TopologyError(f"the field {field.name!r} is {field.dataType.simpleString()}, and maps don't compare")


def same_fields(left: t.StructType, right: t.StructType) -> bool:
    """Return whether names, order and types are equal; nullability is ignored."""
    return _without_nulls(left) == _without_nulls(right)


def shown(value: object) -> str:
    """Format a value and its type for a message, cut if it is long."""
    return f"{clipped(value)} ({type(value).__name__})"


def clipped(value: object) -> str:
    """Format a value for a message, cut if it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 1]}…"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _unique(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise TopologyError(f"the field {name!r} is named twice (Spark ignores upper and lower case)")
        seen.add(name.lower())


def _check_struct(struct: t.StructType) -> None:
    _unique(struct.names)
    for field in struct.fields:
        if not field.name or field.name.lower() in _HIDDEN:
            raise TopologyError(f"a field can't be named {field.name!r}")
        _check_type(field.name, field.dataType)


def _check_type(name: str, kind: t.DataType) -> None:
    match kind:
        case t.StructType():
            _check_struct(kind)
        case t.ArrayType():
            _check_type(name, kind.elementType)
        case t.MapType():
            _check_type(name, kind.keyType)
            _check_type(name, kind.valueType)
        case t.DecimalType():
            pass
        case _ if type(kind) not in _ARROW:
            raise TopologyError(f"the field {name!r} has the type {kind.simpleString()}, which Python rows can't hold")


def _without_nulls(kind: t.DataType) -> object:
    match kind:
        case t.StructType():
            return [(field.name, _without_nulls(field.dataType)) for field in kind.fields]
        case t.ArrayType():
            return ("array", _without_nulls(kind.elementType))
        case t.MapType():
            return ("map", _without_nulls(kind.keyType), _without_nulls(kind.valueType))
    return kind


# --- Arrow ------------------------------------------------------------------------------------------------------------

_ARROW: dict[type[t.DataType], pa.DataType] = {
    t.BooleanType: pa.bool_(),
    t.ByteType: pa.int8(),
    t.ShortType: pa.int16(),
    t.IntegerType: pa.int32(),
    t.LongType: pa.int64(),
    t.FloatType: pa.float32(),
    t.DoubleType: pa.float64(),
    t.StringType: pa.string(),
    t.BinaryType: pa.binary(),
    t.DateType: pa.date32(),
    t.TimestampType: pa.timestamp("us", tz="UTC"),
    t.TimestampNTZType: pa.timestamp("us"),
}


def arrow_type(kind: t.DataType) -> pa.DataType:
    """Return the Arrow type in which Spark accepts values of ``kind``."""
    match kind:
        case t.DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case t.ArrayType():
            return pa.list_(pa.field("element", arrow_type(kind.elementType), kind.containsNull))
        case t.MapType():
            value = pa.field("value", arrow_type(kind.valueType), kind.valueContainsNull)
            return pa.map_(pa.field("key", arrow_type(kind.keyType), nullable=False), value)
        case t.StructType():
            return pa.struct([_arrow_field(field) for field in kind.fields])
    return _ARROW[type(kind)]


_SPARK: dict[pa.DataType, t.DataType] = {
    **{arrow: kind() for kind, arrow in _ARROW.items()},
    pa.uint8(): t.ShortType(),
    pa.uint16(): t.IntegerType(),
    pa.uint32(): t.LongType(),
    pa.uint64(): t.DecimalType(20, 0),
    pa.float16(): t.FloatType(),
    pa.large_string(): t.StringType(),
    pa.string_view(): t.StringType(),
    pa.large_binary(): t.BinaryType(),
    pa.binary_view(): t.BinaryType(),
    pa.date64(): t.DateType(),
    pa.null(): t.NullType(),
}


def spark_type(kind: pa.DataType) -> t.DataType:
    """Return the type that holds every value of an Arrow type, of times those without digits below microseconds.

    Raises:
        TopologyError: Spark has none.
    """
    if pa.types.is_timestamp(kind):
        return t.TimestampNTZType() if kind.tz is None else t.TimestampType()
    if pa.types.is_decimal(kind) and kind.precision <= _DECIMAL_DIGITS_MAX:
        return t.DecimalType(kind.precision, kind.scale)
    if pa.types.is_dictionary(kind):
        return spark_type(kind.value_type)
    if pa.types.is_fixed_size_binary(kind):
        return t.BinaryType()
    if isinstance(kind, pa.BaseExtensionType):  # such as a UUID, or a text with JSON
        return spark_type(kind.storage_type)
    return _spark_nested(kind)


def _spark_nested(kind: pa.DataType) -> t.DataType:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return t.ArrayType(spark_type(kind.value_type))
    if pa.types.is_map(kind):
        return t.MapType(spark_type(kind.key_type), spark_type(kind.item_type))
    if pa.types.is_struct(kind):
        return t.StructType([t.StructField(each.name, spark_type(each.type)) for each in kind])
    if kind not in _SPARK:
        raise TopologyError(f"Spark has no type for {kind}")
    return _SPARK[kind]


def arrow_schema(schema: t.StructType) -> pa.Schema:
    """Return the Arrow schema in which Spark accepts rows of ``schema``."""
    return pa.schema([_arrow_field(field) for field in schema.fields])


def _arrow_field(field: t.StructField) -> pa.Field:
    return pa.field(field.name, arrow_type(field.dataType), field.nullable)


_ARROW_ERRORS = (ValueError, TypeError, OverflowError, NotImplementedError)


def arrow_array(values: Sequence[Any], field: t.StructField) -> pa.Array:
    """Return Python values as an Arrow column.

    In a timestamp field, a datetime without time zone counts as UTC, so that all machines read it alike.

    Raises:
        TypeError: a value is not of the field's type, or is ``None`` and the field is NOT NULL; the message has field,
            type and value.
    """
    expected = arrow_type(field.dataType)
    _check_values(values, field.dataType, field.nullable, field)
    try:
        return pa.array(values, expected)
    except _ARROW_ERRORS as error:
        raise TypeError(_blame(values, field, expected, error)) from error


def arrow_table(rows: Sequence[Sequence[Any]], schema: t.StructType) -> pa.Table:
    """Return rows as an Arrow table; wrong values raise the errors of `arrow_array`.

    Raises:
        ValueError: a row has the wrong number of values.
    """
    width = len(schema.fields)
    if set(map(len, rows)) - {width}:
        bad = next(row for row in rows if len(row) != width)
        raise ValueError(f"{len(bad)} values, {shown(bad)}, for the {width} fields {_listed(schema.names)}")
    arrays = [arrow_array(values, field) for values, field in zip(columns_of(rows, width), schema.fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=arrow_schema(schema))


def columns_of(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    """Return the values of each of ``width`` fields; ``rows`` must have that many."""
    # Not zip(*rows): an iterator per row costs twenty times as much.
    return [list(map(itemgetter(position), rows)) for position in range(width)]


def _blame(values: Sequence[Any], field: t.StructField, expected: pa.DataType, error: Exception) -> str:
    for value in values:
        try:
            pa.array([value], expected)
        except _ARROW_ERRORS as reason:
            return f"{_wrong(field, value)}: {reason}"
    return f"field {field.name!r} is declared {field.dataType.simpleString()}, and the values don't fit: {error}"


def _wrong(field: t.StructField, value: object) -> str:
    bound = "" if field.nullable else " NOT NULL"
    return f"field {field.name!r} is declared {field.dataType.simpleString()}{bound}, got {shown(value)}"


_DECIMAL_DIGITS_MAX, _ZERO_DIGITS_MAX = 38, 1000
_FLOAT_END = 2.0**128 * (1 - 2.0**-25)
"""From here on, a number is infinite as a 32-bit float."""

_INT = (int, Integral)
_FLOAT = (float, int, Real)
_PYTHON: dict[type[t.DataType], tuple[type, ...]] = {
    t.BooleanType: (bool, np.bool_),
    t.ByteType: _INT,
    t.ShortType: _INT,
    t.IntegerType: _INT,
    t.LongType: _INT,
    t.FloatType: _FLOAT,
    t.DoubleType: _FLOAT,
    t.DecimalType: (decimal.Decimal, *_INT),
    t.StringType: (str,),
    t.BinaryType: (bytes, bytearray, memoryview),
    t.DateType: (datetime.date,),
    t.TimestampType: (datetime.datetime,),
    t.TimestampNTZType: (datetime.datetime,),
    t.ArrayType: (list, tuple, np.ndarray),
    t.MapType: (dict,),
    t.StructType: (tuple, dict),
}


def _check_values(values: Sequence[Any], kind: t.DataType, nullable: bool, field: t.StructField) -> None:
    # Arrow alone takes 3.0 for an int (and stops at 3.5), 'abc' for an array<string>, 0 for a timestamp, b'a' for text.
    for python in set(map(type, values)):
        if not (nullable if python is type(None) else _fits(python, kind)):
            value = next(value for value in values if type(value) is python)
            inside = "" if kind is field.dataType else f" inside, for a {kind.simpleString()}"
            raise TypeError(_wrong(field, value) + inside)
    if isinstance(kind, t.TimestampType):
        _check_years(values, field)
    if isinstance(kind, t.DecimalType | t.FloatType):
        _check_numbers(values, kind, field)
    if isinstance(kind, t.ArrayType | t.MapType | t.StructType):
        _check_nested([value for value in values if value is not None], kind, field)


def _check_numbers(values: Sequence[Any], kind: t.DataType, field: t.StructField) -> None:
    """Check numbers that Arrow would change: it reads some decimals below 10^-38 as 0, and 1e39 as inf."""
    for value in values:
        if isinstance(value, decimal.Decimal):
            digits = value.as_tuple().exponent
            if isinstance(digits, int) and digits < -_DECIMAL_DIGITS_MAX and (value or digits < -_ZERO_DIGITS_MAX):
                raise TypeError(f"{_wrong(field, value)}: it has more than {_DECIMAL_DIGITS_MAX} decimal places")
        elif isinstance(kind, t.FloatType) and value is not None and _FLOAT_END <= abs(value) < math.inf:
            raise TypeError(f"{_wrong(field, value)}: it is too large")


def _check_years(values: Sequence[Any], field: t.StructField) -> None:
    """Check that moments are in the years 1 to 9999 in UTC too: Arrow accepts others, but can't return them."""
    for value in values:
        if value is not None and not 1 < value.year < 9999 and value.tzinfo is not None:
            try:
                value.astimezone(datetime.UTC)
            except OverflowError as error:
                raise TypeError(f"{_wrong(field, value)}: in UTC it is not in the years 1 to 9999") from error


def _check_nested(values: Sequence[Any], kind: t.ArrayType | t.MapType | t.StructType, field: t.StructField) -> None:
    match kind:
        case t.ArrayType():
            _check_values(list(chain.from_iterable(values)), kind.elementType, kind.containsNull, field)
        case t.MapType():
            _check_values(list(chain.from_iterable(values)), kind.keyType, False, field)
            entries = list(chain.from_iterable(value.values() for value in values))
            _check_values(entries, kind.valueType, kind.valueContainsNull, field)
        case t.StructType():
            rows = [_struct_values(value, kind, field) for value in values]
            for inner, parts in zip(kind.fields, zip(*rows, strict=True), strict=False):  # no rows, no parts
                _check_values(parts, inner.dataType, inner.nullable, field)


def _struct_values(value: Any, kind: t.StructType, field: t.StructField) -> Sequence[Any]:
    if isinstance(value, dict) and value.keys() <= set(kind.names):
        return [value.get(name) for name in kind.names]
    if isinstance(value, dict) or len(value) != len(kind.names):
        raise TypeError(f"{_wrong(field, value)} inside, for a {kind.simpleString()}")
    return tuple(value)


def _fits(python: type, kind: t.DataType) -> bool:
    if issubclass(python, bool):
        return isinstance(kind, t.BooleanType)
    if issubclass(python, datetime.datetime):
        return isinstance(kind, t.TimestampType | t.TimestampNTZType)
    return issubclass(python, _PYTHON[type(kind)])
