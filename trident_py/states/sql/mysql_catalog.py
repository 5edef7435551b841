"""What MySQL's and MariaDB's catalogs say of a table."""

from __future__ import annotations

import re
from typing import Any

from trident_py.states.sql.catalog import Family, FoundColumn, FoundTable, signed
from trident_py.states.sql.dialect import Connection

_COLUMNS = """
SELECT column_name, data_type, column_type, character_maximum_length, character_octet_length, numeric_precision,
    numeric_scale, datetime_precision, is_nullable, extra, character_set_name, collation_name
FROM information_schema.columns
WHERE table_schema = %s AND table_name = %s AND NOT EXISTS (SELECT 1 FROM {} WHERE 1 = 0)
ORDER BY ordinal_position"""
"""The subquery has the server keep others from changing the table until the transaction ends."""

_KEYS = """
SELECT index_name, column_name FROM information_schema.statistics
WHERE table_schema = %s AND table_name = %s AND non_unique = 0 ORDER BY index_name, seq_in_index"""

_INTEGERS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_PLAIN = {
    "date": Family.DATE,
    "enum": Family.FORM,
    "json": Family.JSON,
    "uuid": Family.FORM,
    "inet4": Family.FORM,
    "inet6": Family.FORM,
}
_TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_BINARIES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_MEMBER = re.compile(r"'((?:[^']|'')*)'")


def columns_of(connection: Connection, schema: str, table: str, there: str, *, keys: bool) -> FoundTable:
    """Return what is there of ``table``, and keep others from changing its columns until the transaction ends.

    Args:
        connection: in its transaction.
        schema: where the table is.
        table: its name.
        there: its name as it stands in a statement.
        keys: whether its unique keys are asked for, too.
    """
    rows = connection.execute(_COLUMNS.format(there), [schema, table]).fetchall()
    by_key: dict[str, list[str]] = {}
    for key, name in connection.execute(_KEYS, [schema, table]).fetchall() if keys else ():
        by_key.setdefault(key, []).append(name)
    return FoundTable(tuple(map(_column, rows)), tuple(map(tuple, by_key.values())))


def _column(row: tuple[Any, ...]) -> FoundColumn:
    name, base, written, *_, nullable, extra, charset, collation = row
    base, written, extra = str(base).lower(), str(written), str(extra).lower()
    collated = f" CHARACTER SET {charset} COLLATE {collation}" if charset and base != "json" else ""
    return FoundColumn(
        name=name,
        written=f"{written}{collated}",
        is_required=nullable == "NO",
        is_generated="generated" in extra and "default_generated" not in extra,
        **_family(base, written, row),
    )


def _family(base: str, written: str, row: tuple[Any, ...]) -> dict[str, Any]:
    chars, octets, precision, scale, fraction = row[3:8]
    if base in _INTEGERS:
        bits = _INTEGERS[base]
        bounds = (0, 2**bits - 1) if "unsigned" in written else signed(bits)
        return {"family": Family.INTEGER, "bounds": bounds}
    if base in ("float", "double"):
        is_rounded = "," in written or "unsigned" in written
        return {"family": Family.OTHER if is_rounded else Family.FLOAT, "size": 24 if base == "float" else 53}
    if base in ("datetime", "timestamp"):
        return {"family": Family.CLOCK if base == "datetime" else Family.INSTANT, "size": fraction}
    if base in _TEXTS:
        is_sized = base in ("char", "varchar")
        size = {"size": chars} if is_sized else {"octets": octets if base != "longtext" else None}
        return {"family": Family.TEXT, "is_padded": base == "char", **size}
    if base in _BINARIES:
        octets = octets if base != "longblob" else None  # which is more than a statement holds
        return {"family": Family.BINARY, "size": octets, "is_padded": base == "binary"}
    if base == "decimal" and "unsigned" not in written:
        return {"family": Family.EXACT, "digits": (int(precision), int(scale))}
    members = tuple(each.replace("''", "'") for each in _MEMBER.findall(written)) if base == "enum" else ()
    return {"family": _PLAIN.get(base, Family.OTHER), "members": members}
