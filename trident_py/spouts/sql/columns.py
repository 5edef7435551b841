"""The fields of a table's rows: how Spark has the values of each column, and how they are selected."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import types as t

from trident_py.errors import TopologyError
from trident_py.states.sql.catalog import Family, FoundColumn, signed
from trident_py.states.sql.dialect import Database

_INTEGERS: tuple[tuple[int, t.DataType], ...] = ((16, t.ShortType()), (32, t.IntegerType()), (64, t.LongType()))
_DIGITS_MAX = 38

_PLAIN: dict[Family, t.DataType] = {
    Family.BOOLEAN: t.BooleanType(),
    Family.TEXT: t.StringType(),
    Family.FORM: t.StringType(),
    Family.JSON: t.StringType(),
    Family.BINARY: t.BinaryType(),
    Family.DATE: t.DateType(),
    Family.CLOCK: t.TimestampNTZType(),
    Family.INSTANT: t.TimestampType(),
}

_UNTYPED_DATABASE = "SQLite"
_BY_NAME: tuple[tuple[str, t.DataType], ...] = (
    ("INT", t.LongType()),
    ("CHAR|CLOB|TEXT|DATE|TIME", t.StringType()),
    ("REAL|FLOA|DOUB", t.DoubleType()),
    ("BLOB", t.BinaryType()),
    ("BOOL", t.BooleanType()),
)


def field_of(column: FoundColumn, database: Database, table: str) -> t.StructField:
    """Return the field for the values of a column.

    Raises:
        TopologyError: no type of Spark's holds all of them.
    """
    if database.dialect.database == _UNTYPED_DATABASE:
        kind = next((kind for words, kind in _BY_NAME if re.search(words, column.written.upper())), None)
    else:
        kind = kind_of(column)
    if kind is None:
        raise TopologyError(
            f"column {column.name!r} of table {table!r} is {column.written}, and no type of Spark's has all of its "
            f'values; to fix this: name the columns to read and their types, as schema="id bigint, name string"'
        )
    return t.StructField(column.name, kind)


def kind_of(column: FoundColumn) -> t.DataType | None:
    """Return the type that holds all values of a column; None: only a text does."""
    match column.family:
        case Family.INTEGER:
            least, greatest = column.bounds
            fitting = (kind for bits, kind in _INTEGERS if signed(bits)[0] <= least and greatest <= signed(bits)[1])
            return next(fitting, t.DecimalType(20, 0))
        case Family.EXACT:
            precision, scale = column.digits or (_DIGITS_MAX + 1, 0)
            return t.DecimalType(precision, scale) if precision <= _DIGITS_MAX and 0 <= scale <= precision else None
        case Family.FLOAT:
            return t.FloatType() if (column.size or 53) <= 24 else t.DoubleType()
    return _PLAIN.get(column.family)


def selected(field: t.StructField, database: Database) -> str:
    """Return the expression that selects a column; text is selected as text, also of a value that has such a form."""
    name = database.dialect.quoted(field.name)
    if not isinstance(field.dataType, t.StringType) or database.dialect.database == _UNTYPED_DATABASE:
        return name
    return f"CAST({name} AS {'char' if database.dialect.quote == '`' else 'text'})"


def converted(value: Any, kind: t.DataType) -> Any:
    """Return a client's value as one of the type ``kind``; another value is returned as it is, and refused later."""
    match kind, value:
        case t.BinaryType(), bytearray() | memoryview():
            return bytes(value)
        case t.BooleanType(), 0 | 1:
            return bool(value)
        case t.TimestampType(), datetime(tzinfo=None):
            return value.replace(tzinfo=UTC)
    return value
