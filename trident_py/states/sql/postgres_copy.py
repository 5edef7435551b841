"""Rows as PostgreSQL's COPY reads them, made by Arrow column by column: a sixth of the time that row by row takes."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from trident_py.rows.row import column_values
from trident_py.states.sql.columns import TypedColumn
from trident_py.states.sql.stored import StoredRows

NULL = r"\N"
_ESCAPED = (("\\", r"\\"), ("\n", r"\n"), ("\r", r"\r"), ("\t", r"\t"))
"""In this order: the backslash first."""


def copied(part: StoredRows, task: int) -> memoryview:
    """Return the lines of some rows of a task for a staging table: their columns, the keys' texts, the task."""
    columns = [_texts(column, data) for column, data in zip(part.columns, part.data.columns, strict=True)]
    ends = [_escaped(pa.array(part.texts(), pa.string())), f"{task}\n"]
    lines = pc.binary_join_element_wise(*columns, *ends, "\t", null_handling="replace", null_replacement=NULL)
    _, offsets, data = lines.buffers()
    first, last = (pa.Array.from_buffers(pa.int32(), len(lines) + 1, [None, offsets])[at].as_py() for at in (0, -1))
    return memoryview(data)[first:last]


def _texts(column: TypedColumn, data: pa.Array) -> pa.Array:
    """Return each value as COPY wants it."""
    kind = data.type
    if pa.types.is_nested(kind):
        return _escaped(pa.array(column.stored(column_values(data)), pa.string()))
    if pa.types.is_binary(kind):
        hexed = [None if value is None else f"\\x{value.hex()}" for value in data.to_pylist()]
        return _escaped(pa.array(hexed, pa.string()))
    if pa.types.is_string(kind):
        return _escaped(data)
    if pa.types.is_float32(kind):
        data = data.cast(pa.float64())  # as which its column stores it
    if pa.types.is_timestamp(kind) and kind.tz:
        data = data.cast(pa.timestamp("us", tz="UTC"))
    return data.cast(pa.string())


def _escaped(texts: pa.Array) -> pa.Array:
    for raw, escaped in _ESCAPED:
        texts = pc.replace_substring(texts, raw, escaped)
    return texts
