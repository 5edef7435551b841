"""Rows as PostgreSQL's COPY reads them, made by Arrow column by column: a sixth of the time that row by row takes."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from trident_py.errors import StateError
from trident_py.rows.row import column_values
from trident_py.states.sql.columns import TypedColumn
from trident_py.states.sql.limits import plain_array
from trident_py.states.sql.stored import StoredRows

NULL = r"\N"
NO_NUL = "PostgreSQL's texts don't hold NUL"
_ESCAPED = (("\\", r"\\"), ("\n", r"\n"), ("\r", r"\r"), ("\t", r"\t"))
"""In this order: the backslash first."""

_TEXT = pa.large_string()
"""Lines of a batch may be more than the 2 GiB of a plain string array."""

_PLAIN = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_timestamp,
)
"""Types whose values as text have nothing to escape."""


def copied(part: StoredRows, task: int) -> memoryview:
    """Return the lines of some rows of a task for a staging table: their columns, the keys' texts, the task.

    Raises:
        StateError: a value doesn't fit its column, or Arrow hands it over as a type that isn't known.
    """
    part.check()
    columns = [_texts(part, column, data) for column, data in zip(part.columns, part.data.columns, strict=True)]
    ends = [_escaped(pa.array(part.texts(), _TEXT)), pa.scalar(f"{task}\n", _TEXT)]
    separator = pa.scalar("\t", _TEXT)
    lines = pc.binary_join_element_wise(*columns, *ends, separator, null_handling="replace", null_replacement=NULL)
    _, offsets, data = lines.buffers()
    first, last = (pa.Array.from_buffers(pa.int64(), len(lines) + 1, [None, offsets])[at].as_py() for at in (0, -1))
    return memoryview(data)[first:last]


def _texts(part: StoredRows, column: TypedColumn, data: pa.Array) -> pa.Array:
    """Return each value as COPY reads it."""
    data = plain_array(data)
    kind = data.type
    if pa.types.is_nested(kind):
        return _escaped(pa.array(part.stored(column, column_values(data)), _TEXT))
    if pa.types.is_large_binary(kind):
        hexed = [None if value is None else f"\\x{value.hex()}" for value in data.to_pylist()]
        return _escaped(pa.array(hexed, _TEXT))
    if pa.types.is_large_string(kind):
        number = pc.fill_null(pc.match_substring(data, "\0"), False).index(True).as_py()
        if number >= 0:
            raise part.unfit(column, number, NO_NUL)
        return _escaped(data)
    if not any(test(kind) for test in _PLAIN):
        raise StateError(
            f"field {column.name!r} is {column.kind.simpleString()}, and Spark hands it over as Arrow's {kind}, which "
            f"can't be copied into PostgreSQL; to fix this: cast the field to a type that docs/databases.md lists"
        )
    if pa.types.is_float32(kind):
        data = data.cast(pa.float64())  # as which its column stores it
    if pa.types.is_timestamp(kind):
        data = data.cast(pa.timestamp("us", tz="UTC" if kind.tz else None))
    return data.cast(_TEXT)


def _escaped(texts: pa.Array) -> pa.Array:
    for raw, escaped in _ESCAPED:
        texts = pc.replace_substring(texts, raw, escaped)
    return texts
