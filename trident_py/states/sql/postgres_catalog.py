"""The description of a table by PostgreSQL's catalog."""

from __future__ import annotations

from typing import Any

from trident_py.states.sql.catalog import Family, FoundColumn, FoundTable, signed
from trident_py.states.sql.dialect import Connection

_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod),
    CASE WHEN b.typtype = 'd' THEN 'cstring' ELSE coalesce(b.typname, y.typname) END,
    CASE WHEN y.typtype = 'd' THEN y.typtypmod ELSE a.atttypmod END,
    a.attnotnull OR y.typnotnull, a.attgenerated <> '' OR a.attidentity = 'a', c.oid::bigint,
    (SELECT conname FROM pg_constraint WHERE conrelid = c.oid AND contype = 'p')
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_type AS y ON y.oid = a.atttypid
LEFT JOIN pg_type AS b ON b.oid = y.typbasetype
WHERE n.nspname = %s AND c.relname = %s AND NOT EXISTS (SELECT FROM {} WHERE false)
ORDER BY a.attnum"""
"""The subquery locks the table before the statement's snapshot is taken, so nothing changes until the end of the
transaction. A domain over a domain counts as a type that takes no text as it is. A table without columns gives one row,
in which the column is NULL."""

_INTEGERS = {"int2": 16, "int4": 32, "int8": 64}
_FLOATS = {"float4": 24, "float8": 53}
_PLAIN = {
    "bool": Family.BOOLEAN,
    "text": Family.TEXT,
    "citext": Family.TEXT,
    "bytea": Family.BINARY,
    "date": Family.DATE,
    "json": Family.JSON,
    "jsonb": Family.JSON,
}
_CLOCKS = {"timestamp": Family.CLOCK, "timestamptz": Family.INSTANT}
_CUTTING = frozenset({"char", "name", "money", "cstring"})
"""Types whose input function cuts or rounds a text in silence."""

_TIMES = frozenset({"time", "timetz", "interval"})
_HEADER = 4
"""The offset of a type's modifier, if it is a length."""


def columns_of(connection: Connection, schema: str, table: str, there: str) -> FoundTable:
    """Return the description of ``table``, whose columns can't be changed until the transaction ends.

    Args:
        connection: in its transaction.
        schema: the table's schema.
        table: its name.
        there: its name, as written in a statement.
    """
    rows = connection.execute(_COLUMNS.format(there), [schema, table]).fetchall()
    *_, made, key = rows[0] if rows else (None, None)
    columns = tuple(_column(*row[:6]) for row in rows if row[0] is not None)
    return FoundTable(columns, mark=key or "", identity=made, is_cased=True)


def _column(name: str, written: str, base: str, modifier: int, is_required: bool, is_generated: bool) -> FoundColumn:
    return FoundColumn(
        name=name,
        written=written,
        is_required=is_required,
        is_generated=is_generated,
        parses=True,
        **_family(base, modifier),
    )


def _family(base: str, modifier: int) -> dict[str, Any]:
    is_plain = modifier < 0
    if base in _INTEGERS:
        return {"family": Family.INTEGER, "bounds": signed(_INTEGERS[base])}
    if base in _FLOATS:
        return {"family": Family.FLOAT, "size": _FLOATS[base]}
    if base in _CLOCKS:
        return {"family": _CLOCKS[base], "size": None if is_plain else modifier}
    if base in _PLAIN:
        return {"family": _PLAIN[base]}
    match base:
        case "numeric":
            return {"family": Family.EXACT, "digits": None if is_plain else _digits(modifier - _HEADER)}
        case "varchar" | "bpchar":
            size = None if is_plain else modifier - _HEADER
            return {"family": Family.TEXT, "size": size, "is_padded": base == "bpchar"}
    is_cut = base in _CUTTING or (base in _TIMES and not is_plain)
    return {"family": Family.OTHER if is_cut else Family.FORM}


def _digits(modifier: int) -> tuple[int, int]:
    scale = modifier & 0x7FF
    return modifier >> 16 & 0xFFFF, (scale ^ 1024) - 1024  # as numeric_typmod_scale does it: it may be negative
