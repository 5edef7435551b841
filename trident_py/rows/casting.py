"""Casts of columns to declared types: only those that change no value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

T = TypeVar("T", pa.Table, pa.RecordBatch)


def cast_exactly(column: Any, kind: pa.DataType, *, rounds: bool = False) -> Any:
    """Return a column, an array of Arrow, with values of another type; ``rounds``: doubles may become floats.

    Arrow would also cast a timestamp to its day, or 5 to true.

    Raises:
        ArrowTypeError: values of its type change, or only fit by chance.
        ArrowException: a value doesn't fit.
    """
    if column.type.equals(kind):
        return column
    if pt.is_timestamp(column.type) and pt.is_date(kind):
        days = column.cast(kind)
        if not days.cast(column.type).equals(column):
            raise pa.ArrowInvalid("a time of day would be lost")
        return days
    if not _may_be(column.type, kind, rounds=rounds):
        raise pa.ArrowTypeError("values of this type would change")
    found = column.cast(kind)
    is_narrower = pt.is_float64(column.type) and pt.is_float32(kind)
    if is_narrower and pc.any(pc.and_(pc.is_inf(found), pc.is_finite(column))).as_py():
        raise pa.ArrowInvalid("a value is too large for a float; to fix this: declare the field as double")
    return found


def cast_as_declared(given: T, schema: pa.Schema) -> T:
    """Return a table or record batch with the fields of a schema, in its order and with its types.

    Doubles may become floats.

    Raises:
        ValueError: a value would change.
    """
    columns = []
    for each in schema:
        column = given.column(each.name)
        try:
            columns.append(cast_exactly(column, each.type, rounds=True))
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise ValueError(f"field {each.name!r} is {column.type}, declared is {each.type}: {error}") from error
    found: T = type(given).from_arrays(columns, names=schema.names).cast(schema)
    return found


def _may_be(there: pa.DataType, wanted: pa.DataType, *, rounds: bool) -> bool:
    """Return whether values of one type may be values of another; a cast checks each of them."""
    pairs: list[tuple[pa.DataType, pa.DataType]]
    if there.equals(wanted) or pt.is_null(there):
        return True
    if pt.is_dictionary(there):
        pairs = [(there.value_type, wanted)]
    elif isinstance(there, pa.BaseExtensionType):
        pairs = [(there.storage_type, wanted)]
    elif pt.is_struct(there) and pt.is_struct(wanted):
        names = {each.name for each in there}
        pairs = [(there.field(each.name).type, each.type) for each in wanted if each.name in names]
    elif pt.is_map(there) and pt.is_map(wanted):
        pairs = [(there.key_type, wanted.key_type), (there.item_type, wanted.item_type)]
    elif _is_list(there) and _is_list(wanted):
        pairs = [(there.value_type, wanted.value_type)]
    else:
        return _keeps_values(there, wanted) or (rounds and pt.is_floating(there) and pt.is_floating(wanted))
    return all(_may_be(*pair, rounds=rounds) for pair in pairs)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind))


_FAMILIES: Mapping[str, tuple[Callable[[pa.DataType], bool], ...]] = {
    "integer": (pt.is_integer,),
    "float": (pt.is_floating,),
    "decimal": (pt.is_decimal,),
    "text": (pt.is_string, pt.is_large_string, pt.is_string_view),
    "bytes": (pt.is_binary, pt.is_large_binary, pt.is_binary_view, pt.is_fixed_size_binary),
    "date": (pt.is_date,),
    "timestamp": (pt.is_timestamp,),
    "time": (pt.is_time,),
    "duration": (pt.is_duration,),
}


def _family(kind: pa.DataType) -> str:
    return next((name for name, tests in _FAMILIES.items() if any(test(kind) for test in tests)), str(kind))


def _keeps_values(there: pa.DataType, wanted: pa.DataType) -> bool:
    match _family(there), _family(wanted):
        case ("integer", "integer" | "float" | "decimal") | ("decimal", "decimal") | ("date", "date"):
            return True
        case ("text" | "bytes", "text" | "bytes") | ("time", "time") | ("duration", "duration"):
            return True
        case ("float", "float"):
            return bool(there.bit_width <= wanted.bit_width)
        case ("timestamp", "timestamp"):  # a time without a zone is read as one of UTC, as Spark does
            return there.tz is None or wanted.tz is not None
        case ("date", "timestamp"):
            return wanted.tz is None
    return False
