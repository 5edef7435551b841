"""The description of a table by the catalogs of MySQL and MariaDB."""

from __future__ import annotations

import re
from typing import Any

from trident_py.states.sql.catalog import Family, FoundColumn, FoundTable, signed
from trident_py.states.sql.dialect import Connection

_COLUMNS = """
SELECT column_name, data_type, column_type, character_maximum_length, character_octet_length, numeric_precision,
    numeric_scale, datetime_precision, is_nullable, extra, character_set_name, collation_name, column_comment, {keys}
FROM information_schema.columns
WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position"""

_KEYS = """(
    SELECT group_concat(index_name, ':', column_name ORDER BY index_name, seq_in_index)
    FROM information_schema.statistics WHERE table_schema = %s AND table_name = %s AND non_unique = 0)"""

_COUNTER = re.compile(r" AUTO_INCREMENT=\d+")
_FOUND_MAX = 1_000
_found: dict[tuple[str, bool, str], FoundTable] = {}
"""The known descriptions, by schema and CREATE TABLE, whose text the server returns in a tenth of the time."""

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
    """Return the description of ``table``, whose columns can't be changed until the transaction ends.

    Args:
        connection: in its transaction.
        schema: the table's schema.
        table: its name.
        there: its name, as written in a statement.
        keys: whether its unique keys are read, too.
    """
    connection.execute(f"SELECT 1 FROM {there} LIMIT 0")  # noqa: S608 - from now on it can't be altered
    _, text, *_ = connection.execute(f"SHOW CREATE TABLE {there}").fetchone()
    known = schema, keys, _COUNTER.sub("", text)
    if known not in _found or not text.startswith("CREATE TABLE"):  # the text of a view doesn't say its types
        while len(_found) >= _FOUND_MAX:
            _found.pop(next(iter(_found)), None)
        _found[known] = _columns_of(connection, schema, table, keys=keys)
    return _found[known]


def _columns_of(connection: Connection, schema: str, table: str, *, keys: bool) -> FoundTable:
    query = _COLUMNS.format(keys=_KEYS if keys else "NULL")
    rows = connection.execute(query, [schema, table] * (1 + keys)).fetchall()
    if not rows:
        return FoundTable(())
    mark = next((row[12] for row in rows if row[0] == "_key"), "")
    return FoundTable(tuple(map(_column, rows)), (rows[0][-1] or "") if keys else None, mark)


def as_found(storage: str) -> tuple[str, ...]:
    """Return the type that the catalog shows for one of our columns, without parts that depend on the server."""
    if storage == "boolean":
        return ("tinyint",)
    collated = " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin" if re.match("longtext|varchar", storage) else ""
    return (f"{storage}{collated}",)


def _column(row: tuple[Any, ...]) -> FoundColumn:
    (name, base, written), (nullable, extra, charset, collation) = row[:3], row[8:12]
    base, extra = str(base).lower(), str(extra).lower()
    # MariaDB has a width for display that MySQL doesn't have any more.
    written = re.sub(r"\(\d+\)", "", str(written)) if base in _INTEGERS else str(written)
    collated = f" CHARACTER SET {charset} COLLATE {collation}" if charset and base != "json" else ""
    return FoundColumn(
        name=name,
        # Older MariaDB makes NULL the current time in a column of this type, if it isn't declared so.
        written=f"{written}{collated}{' NULL' if base == 'timestamp' else ''}",
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
