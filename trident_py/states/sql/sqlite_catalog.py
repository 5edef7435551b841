"""The description of a table by SQLite, and the effect of a column's affinity on a value."""

from __future__ import annotations

import re

from pyspark.sql import types as t

from trident_py.states.sql.catalog import Family, FoundColumn, FoundTable
from trident_py.states.sql.columns import TypedColumn
from trident_py.states.sql.dialect import Connection
from trident_py.states.sql.limits import Limits
from trident_py.states.sql.pairs import refusal

_COLUMNS = 'SELECT name, type, "notnull", pk, hidden FROM pragma_table_xinfo(?)'
_MADE = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE"
_NUMBER = r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*"
_UNTYPED = "of no type"
_TEXTUAL, _NUMERIC, _ANYTHING = "TEXT", "NUMERIC", "BLOB"
_TAKES = {
    "INTEGER": frozenset({"INTEGER", _NUMERIC, _ANYTHING}),
    "": frozenset({"REAL", _ANYTHING}),
    "TEXT": frozenset({_TEXTUAL, _NUMERIC, _ANYTHING}),
    "BLOB": frozenset({"INTEGER", "REAL", _TEXTUAL, _NUMERIC, _ANYTHING}),
}
"""The affinities of columns that keep the values of a field, by the storage of the field."""


def columns_of(connection: Connection, table: str) -> FoundTable:
    """Return the description of ``table``."""
    columns = tuple(_column(*row) for row in connection.execute(_COLUMNS, [table]).fetchall())
    ((made,),) = connection.execute(_MADE, [table]).fetchall() or [("",)]
    found = re.search(r'CONSTRAINT "(\w+)" PRIMARY KEY', made)
    return FoundTable(columns, mark=found[1] if found else "")


def as_found(storage: str) -> tuple[str, ...]:
    """Return the types that the catalog may show for one of our columns; older releases used REAL for floats."""
    return (storage,) if storage else (_UNTYPED, "REAL")


def _column(name: str, written: str, not_null: int, key: int, hidden: int) -> FoundColumn:
    return FoundColumn(
        name=name,
        written=written or _UNTYPED,
        family=Family.OTHER,
        is_required=bool(not_null) or (key > 0 and written.upper() == "INTEGER"),  # which would be numbered
        is_generated=hidden > 1,
    )


def affinity(written: str) -> str:
    """Return the affinity of a column by its type: https://www.sqlite.org/datatype3.html#determination_of_column_affinity."""
    kind = "" if written == _UNTYPED else written.upper()
    if "INT" in kind:
        return "INTEGER"
    if any(each in kind for each in ("CHAR", "CLOB", "TEXT")):
        return _TEXTUAL
    if "BLOB" in kind or not kind:
        return _ANYTHING
    return "REAL" if re.search("REAL|FLOA|DOUB", kind) else _NUMERIC


def limits_of(field: TypedColumn, column: FoundColumn) -> Limits:
    """Return the values of ``field`` that ``column`` keeps; its affinity converts some values to others.

    Raises:
        StateError: the column keeps none of them, or the database makes its values itself.
    """
    its, kind = affinity(column.written), field.kind
    if column.is_generated:
        raise refusal(field, column, "the database makes its values itself", "leave the field out")
    is_exact = its == "REAL" and isinstance(kind, t.ByteType | t.ShortType | t.IntegerType)
    is_written = its == _TEXTUAL and field.storage == "INTEGER" and not isinstance(kind, t.BooleanType)
    is_rounded = its == _NUMERIC and isinstance(kind, t.DecimalType)
    if not (its in _TAKES[field.storage] or is_exact or is_written) or is_rounded:
        raise refusal(
            field,
            column,
            f"SQLite would store its values as others, by the column's affinity {its}",
            f"give the column the affinity {field.storage or 'REAL'}, or map the field to a type that it keeps",
        )
    avoids = (
        (_NUMBER, f"SQLite would store it as a number in {column.written}")
        if (its == _NUMERIC and isinstance(kind, t.StringType))
        else None
    )
    return Limits(column=column.written, avoids=avoids, keeps_minus_zero=its != "REAL", is_required=column.is_required)
