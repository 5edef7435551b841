"""Casts of the columns of files to declared types: only those that change no value."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.types as pt


def cast_exactly(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return a column with values of another type.

    Raises:
        ArrowTypeError: no value of its type is one of the other type, or only some by chance.
        ArrowException: a value is not one of the other type.
    """
    if not may_be(column.type, kind):
        raise pa.ArrowTypeError("values of this type would change")
    return column.cast(kind)


def may_be(there: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether values of a type in a file may be values of a declared type; a cast checks each of them.

    Arrow would also cast a timestamp to its day, or 5 to true.
    """
    if there.equals(wanted) or pt.is_null(there):
        return True
    if pt.is_dictionary(there):
        return may_be(there.value_type, wanted)
    if isinstance(there, pa.BaseExtensionType):
        return may_be(there.storage_type, wanted)
    if pt.is_struct(there) and pt.is_struct(wanted):
        names = {each.name for each in there}
        return all(may_be(there.field(each.name).type, each.type) for each in wanted if each.name in names)
    if pt.is_map(there) and pt.is_map(wanted):
        return may_be(there.key_type, wanted.key_type) and may_be(there.item_type, wanted.item_type)
    if _is_list(there) and _is_list(wanted):
        return may_be(there.value_type, wanted.value_type)
    return _keeps_values(there, wanted)


def _is_list(kind: pa.DataType) -> bool:
    return (pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind)) and not pt.is_map(kind)


_FAMILIES: Mapping[str, tuple[Callable[[pa.DataType], bool], ...]] = {
    "integer": (pt.is_integer,),
    "float": (pt.is_floating,),
    "decimal": (pt.is_decimal,),
    "text": (pt.is_string, pt.is_large_string, pt.is_string_view),
    "bytes": (pt.is_binary, pt.is_large_binary, pt.is_binary_view, pt.is_fixed_size_binary),
    "date": (pt.is_date,),
    "timestamp": (pt.is_timestamp,),
}


def _family(kind: pa.DataType) -> str:
    return next((name for name, tests in _FAMILIES.items() if any(test(kind) for test in tests)), str(kind))


def _keeps_values(there: pa.DataType, wanted: pa.DataType) -> bool:
    match _family(there), _family(wanted):
        case ("integer", "integer" | "float" | "decimal") | ("decimal", "decimal") | ("date", "date"):
            return True
        case ("text" | "bytes", "text" | "bytes"):
            return True
        case ("float", "float"):
            return bool(there.bit_width <= wanted.bit_width)
        case ("timestamp", "timestamp"):  # a time without a zone is read as one of UTC, as Spark does
            return there.tz is None or wanted.tz is not None
        case ("date", "timestamp"):
            return wanted.tz is None
    return False
