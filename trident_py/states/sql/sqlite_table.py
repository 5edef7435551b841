"""How values of Spark types stand in a SQLite table, and the statements over it.

Every value is stored so that it reads sensibly in any client, sorts as Spark sorts it, and comes back as it was: dates
and timestamps as ISO text of fixed width (timestamps in UTC), decimals as text with all their digits, NaN as 'NaN'
(SQLite itself would make it NULL).
"""
# ruff: noqa: S608 - every name in a statement has passed `check_name`; values are always bound

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from attrs import field, frozen
from pyspark.sql import types as t

from trident_py.errors import StateError
from trident_py.states.sql.columns import (
    Convert,
    TypedColumn,
    as_day,
    as_float,
    as_integer,
    check_distinct,
    declared,
    exact_decimal,
    of_type,
)

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_ORDERED = frozenset({"min", "max"})
_CHECKS = {
    "INTEGER": "typeof({0}) IN ('integer', 'null')",  # a sum beyond 64 bits would go on as a REAL
    "REAL": "typeof({0}) IN ('real', 'null') OR {0} = 'NaN'",
    "TEXT": "typeof({0}) IN ('text', 'null')",
    "BLOB": "typeof({0}) IN ('blob', 'null')",
}
_MERGES = {
    None: "excluded.{0}",
    "sum": "coalesce({0} + excluded.{0}, {0}, excluded.{0})",
    "min": "coalesce(min({0}, excluded.{0}), {0}, excluded.{0})",
    "max": "coalesce(max({0}, excluded.{0}), {0}, excluded.{0})",
}


def check_name(name: str, what: str) -> str:
    """``name``, if it can be a table's or column's.

    Raises:
        StateError: it has other characters, is too long, or is reserved.
    """
    if not _NAME.fullmatch(name) or name.lower().startswith("sqlite_"):
        raise StateError(
            f"{what} {name!r} cannot be a name in SQLite: use up to 63 ASCII letters, digits and underscores, a letter "
            f"first, and not sqlite_…"
        )
    return name


@frozen
class Column(TypedColumn):
    """One column of a SQLite table."""

    @property
    def quoted(self) -> str:
        """The name as it stands in a statement."""
        return f'"{self.name}"'

    @property
    def declaration(self) -> str:
        """The column in CREATE TABLE."""
        return f"{self.quoted} {self.storage} CHECK ({_CHECKS[self.storage].format(self.quoted)})"


def column_of(spec: t.StructField) -> Column:
    """The column for a field.

    Raises:
        StateError: SQLite has no place for its type, or its name cannot be a column's.
    """
    name, kind = check_name(spec.name, "field"), spec.dataType
    match kind:
        case t.DecimalType():
            return Column(name, kind, "TEXT", frozenset(), _decimal_text(kind.precision, kind.scale), Decimal)
        case t.StringType() if kind != t.StringType():
            raise StateError(f"field {name!r}: SQLite cannot compare by the collation of {kind.simpleString()}")
        case _ if type(kind) not in _COLUMNS:
            raise StateError(
                f"field {name!r} is {kind.simpleString()}, which a SQLite column cannot hold; use a string, a number, "
                f"a boolean, a date, a timestamp or binary"
            )
    return Column(name, kind, *_COLUMNS[type(kind)])


def _real(value: Any) -> float | str:
    number = as_float(value)
    return "NaN" if number != number else number


def _day_text(value: date) -> str:
    return as_day(value).isoformat()


def _utc_text(value: datetime) -> str:
    # A datetime without time zone is UTC, as in what spouts emit.
    utc = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    return _text(utc) + "Z"


def _text(value: datetime) -> str:
    return value.replace(tzinfo=None).isoformat(timespec="microseconds")


def _decimal_text(precision: int, scale: int) -> Convert:
    exact = exact_decimal(precision, scale)
    return lambda value: format(exact(value), "f")


_INTEGER = ("INTEGER", _ORDERED | {"sum"}, as_integer, None, int)
_FLOAT = ("REAL", frozenset[str](), _real, float)  # not merged by SQL: infinity - infinity would be NULL
_COLUMNS: dict[type[t.DataType], Any] = {
    t.ByteType: _INTEGER,
    t.ShortType: _INTEGER,
    t.IntegerType: _INTEGER,
    t.LongType: _INTEGER,
    t.FloatType: _FLOAT,
    t.DoubleType: _FLOAT,
    t.BooleanType: ("INTEGER", _ORDERED, of_type(bool), bool, bool),
    t.StringType: ("TEXT", _ORDERED, of_type(str), None, str),
    t.BinaryType: ("BLOB", _ORDERED, of_type(bytes, bytearray), None, bytes),
    t.DateType: ("TEXT", _ORDERED, _day_text, date.fromisoformat),
    t.TimestampType: ("TEXT", _ORDERED, _utc_text, datetime.fromisoformat),
    t.TimestampNTZType: ("TEXT", _ORDERED, _text, datetime.fromisoformat),
}


@frozen
class Table:
    """A state's table: its key columns, its value, and what it takes to undo the last transaction.

    There is no index by ``_txid``: it would cost each commit half as much again, and only a commit that was cut off
    between the state and the record is ever undone.
    """

    name: str
    keys: tuple[Column, ...]
    value: Column
    columns: str = field(init=False)
    """The declared fields, to be compared with those of the table that is there."""

    @columns.default
    def _declared(self) -> str:
        return declared((*self.keys, self.value))

    @classmethod
    def of(cls, name: str, keys: t.StructType, value: t.StructField) -> Table:
        """The table for these fields.

        Raises:
            StateError: a type or a name has no place in it.
        """
        columns = [column_of(spec) for spec in (*keys.fields, value)]
        check_distinct(columns, "SQLite")
        return cls(name, tuple(columns[:-1]), columns[-1])

    @property
    def create(self) -> str:
        """CREATE TABLE; ``_born`` is the txid that made the row, ``_prev`` the value before ``_txid`` changed it."""
        declarations = ", ".join(column.declaration for column in (*self.keys, self.value))
        return (
            f'CREATE TABLE "{self.name}" ({declarations}, "_key" TEXT NOT NULL PRIMARY KEY, "_txid" INTEGER NOT NULL, '
            f'"_prev" {self.value.storage}, "_born" INTEGER NOT NULL) WITHOUT ROWID'
        )

    @property
    def read(self) -> str:
        """Key texts and values of the keys in a JSON array."""
        return (
            f'SELECT s."_key", s.{self.value.quoted} FROM json_each(?) AS wanted '
            f'CROSS JOIN "{self.name}" AS s ON s."_key" = wanted.value'
        )

    @property
    def read_all(self) -> str:
        """Key columns and value of every row that has a value."""
        names = ", ".join(column.quoted for column in (*self.keys, self.value))
        return f'SELECT {names} FROM "{self.name}" WHERE {self.value.quoted} IS NOT NULL'

    def upsert(self, merge: str | None, rows: int = 1) -> str:
        """Set or merge some values; bound are, of each, key columns, value, ``_key``, txid, txid."""
        value = self.value.quoted
        names = ", ".join([*(column.quoted for column in (*self.keys, self.value)), '"_key", "_txid", "_born"'])
        marks = ", ".join("?" * (len(self.keys) + 4))
        values = ", ".join([f"({marks})"] * rows)
        return (
            f'INSERT INTO "{self.name}" ({names}) VALUES {values} ON CONFLICT ("_key") DO UPDATE SET '
            f'"_prev" = CASE WHEN "_txid" = excluded."_txid" THEN "_prev" ELSE {value} END, '
            f'{value} = {_MERGES[merge].format(value)}, "_txid" = excluded."_txid"'
        )

    @property
    def undo(self) -> tuple[str, str]:
        """Take back what a txid did: two statements, in which it is bound once each."""
        return (
            f'DELETE FROM "{self.name}" WHERE "_txid" = ?1 AND "_born" = ?1',
            f'UPDATE "{self.name}" SET {self.value.quoted} = "_prev" WHERE "_txid" = ?1',
        )
