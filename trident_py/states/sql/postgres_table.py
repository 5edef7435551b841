"""How values of Spark types stand in a PostgreSQL table, and the statements over it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from attrs import field, frozen
from psycopg import sql
from pyspark.sql import types as t

from trident_py.errors import StateError
from trident_py.states.sql.columns import (
    TypedColumn,
    as_day,
    as_float,
    as_integer,
    check_distinct,
    declared,
    exact_decimal,
    of_type,
)
from trident_py.states.sql.commit_row import StateHeader

_FIELD = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_TABLE = re.compile(r"[a-z][a-z0-9_]{0,39}")  # leaves room for `_<table>_<epoch>_<txid>_<attempt>` in 63 bytes
_SYSTEM = frozenset({"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"})
_ORDERED = frozenset({"min", "max"})
_MERGES = {
    None: "excluded.{0}",
    "sum": "coalesce(_old.{0} + excluded.{0}, _old.{0}, excluded.{0})",
    "min": "least(_old.{0}, excluded.{0})",  # they pass over NULLs, and NaN is the greatest, as in Spark
    "max": "greatest(_old.{0}, excluded.{0})",
}

HAS_TABLE = "SELECT 1 FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace WHERE nspname = %s AND relname = %s"
HAS_COLUMN = "SELECT 1 FROM information_schema.columns WHERE table_schema = %s AND table_name = %s AND column_name = %s"


def check_table(name: str) -> str:
    """``name``, if it can be a table's.

    Raises:
        StateError: it has other characters, is too long, or is reserved.
    """
    if not _TABLE.fullmatch(name):
        raise StateError(
            f"table {name!r} cannot be a state's table in PostgreSQL: use up to 40 lower-case ASCII letters, digits "
            f"and underscores, a letter first; its schema is the first in the search_path of the DSN"
        )
    return name


def column_of(spec: t.StructField) -> TypedColumn:
    """The column for a field.

    Raises:
        StateError: PostgreSQL has no place for its type, or its name cannot be a column's.
    """
    name, kind = spec.name, spec.dataType
    if not _FIELD.fullmatch(name) or name in _SYSTEM:
        raise StateError(
            f"field {name!r} cannot be a column in PostgreSQL: use up to 63 ASCII letters, digits and underscores, a "
            f"letter first, and none of {', '.join(sorted(_SYSTEM))}"
        )
    match kind:
        case t.DecimalType():
            numeric = f"numeric({kind.precision},{kind.scale})"  # which would round what doesn't fit
            return TypedColumn(name, kind, numeric, _ORDERED | {"sum"}, exact_decimal(kind.precision, kind.scale))
        case t.StringType() if kind != t.StringType():
            raise StateError(f"field {name!r}: PostgreSQL cannot compare by the collation of {kind.simpleString()}")
        case _ if type(kind) not in _COLUMNS:
            raise StateError(
                f"field {name!r} is {kind.simpleString()}, which a state's column in PostgreSQL cannot hold; use a "
                f"string, a number, a boolean, a date, a timestamp or binary"
            )
    return TypedColumn(name, kind, *_COLUMNS[type(kind)])


def _instant(value: datetime) -> datetime:
    # A datetime without time zone is UTC, as in what spouts emit.
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def _utc(value: datetime) -> datetime:
    return value.astimezone(UTC)


def _clock(value: datetime) -> datetime:
    return value.replace(tzinfo=None)


_INTEGER = (_ORDERED | {"sum"}, as_integer, None, int)
# Sums in Python: where Spark says infinity, SQL says overflow.
_FLOAT = ("double precision", _ORDERED, as_float, None, float)
_COLUMNS: dict[type[t.DataType], Any] = {
    t.ByteType: ("smallint", *_INTEGER),
    t.ShortType: ("smallint", *_INTEGER),
    t.IntegerType: ("integer", *_INTEGER),
    t.LongType: ("bigint", *_INTEGER),
    t.FloatType: _FLOAT,
    t.DoubleType: _FLOAT,
    t.BooleanType: ("boolean", _ORDERED, of_type(bool), None, bool),
    t.StringType: ('text COLLATE "C"', _ORDERED, of_type(str), None, str),  # compares bytes, as Spark does
    t.BinaryType: ("bytea", _ORDERED, of_type(bytes, bytearray), None, bytes),
    t.DateType: ("date", _ORDERED, as_day),
    t.TimestampType: ("timestamptz", _ORDERED, _instant, _utc),
    t.TimestampNTZType: ("timestamp", _ORDERED, _clock),
}


@frozen
class Staging:
    """Where one attempt's change is stored before it commits: a table that a crash of the server may empty.

    Attributes:
        columns: the key columns, then the value.
    """

    schema: str
    name: str
    columns: tuple[str, ...]

    @property
    def there(self) -> sql.Identifier:
        """The table's name as it stands in a statement."""
        return sql.Identifier(self.schema, self.name)

    @property
    def copy(self) -> sql.Composed:
        """COPY of rows: the columns, the key's text, the task."""
        names = _names(*self.columns, "_key", "_task")
        return sql.SQL("COPY {} ({}) FROM STDIN").format(self.there, names)

    @property
    def sums(self) -> sql.Composed:
        """What is there of the tasks in an array: task, number of rows, checksum."""
        return sql.SQL(
            'SELECT "_task", count(*), sum(hashtextextended("_row"::text, 0))::text FROM {} AS "_row" '
            'WHERE "_task" = ANY (%s) GROUP BY "_task"'
        ).format(self.there)

    @property
    def rows(self) -> sql.Composed:
        """The rows of the tasks in an array: the key's text, the columns."""
        return sql.SQL('SELECT "_key", {} FROM {} WHERE "_task" = ANY (%s)').format(_names(*self.columns), self.there)

    @property
    def drop(self) -> sql.Composed:
        """DROP TABLE, if it is there."""
        return sql.SQL("DROP TABLE IF EXISTS {}").format(self.there)


@frozen
class Table:
    """A state's table: its key columns, its value, and what it takes to undo the last transaction.

    There is no index by ``_txid``: it would make every update of a row touch both indexes, and only a commit that was
    cut off between the state and the record is ever undone.

    Attributes:
        schema: where it is; known once the database was asked.
    """

    name: str
    keys: tuple[TypedColumn, ...]
    value: TypedColumn
    schema: str = ""
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
        check_distinct(columns, "SQL")
        return cls(check_table(name), tuple(columns[:-1]), columns[-1])

    @property
    def there(self) -> sql.Identifier:
        """The table's name as it stands in a statement."""
        return sql.Identifier(self.schema, self.name)

    @property
    def headers(self) -> sql.Identifier:
        """The name of the table with the headers."""
        return sql.Identifier(self.schema, "_trident")

    # --- the table ----------------------------------------------------------------------------------------------------

    @property
    def create(self) -> sql.Composed:
        """CREATE TABLE; ``_born`` is the txid that made the row, ``_prev`` the value before ``_txid`` changed it."""
        return sql.SQL(
            'CREATE TABLE {} ({}, "_key" text COLLATE "C" PRIMARY KEY, "_txid" bigint NOT NULL, "_prev" {}, '
            '"_born" bigint NOT NULL)'
        ).format(self.there, self._declarations, sql.SQL(self.value.storage))

    def set_aside(self, incarnation: int) -> sql.Composed:
        """ALTER TABLE: rename what an older incarnation filled."""
        aside = sql.Identifier(f"_{self.name}_incarnation_{incarnation}")
        return sql.SQL("ALTER TABLE {} RENAME TO {}").format(self.there, aside)

    @property
    def read(self) -> sql.Composed:
        """Key texts and values of the keys in an array."""
        return sql.SQL('SELECT "_key", {} FROM {} WHERE "_key" = ANY (%s)').format(
            sql.Identifier(self.value.name), self.there
        )

    @property
    def read_all(self) -> sql.Composed:
        """Key columns and value of every row that has a value."""
        names = _names(*(column.name for column in (*self.keys, self.value)))
        value = sql.Identifier(self.value.name)
        return sql.SQL("SELECT {} FROM {} WHERE {} IS NOT NULL").format(names, self.there, value)

    def upsert(self, merge: str | None) -> sql.Composed:
        """Set or merge one value; bound are key columns, value, ``_key``, txid, txid."""
        marks = sql.SQL(", ").join([sql.Placeholder()] * (len(self.keys) + 4))
        return self._upsert(sql.SQL("VALUES ({})").format(marks), merge)

    def merge(self, staging: Staging, merge: str | None) -> sql.Composed:
        """Merge what was staged; bound are txid, txid and an array of tasks."""
        names = _names(*staging.columns, "_key")
        rows = sql.SQL('SELECT {}, %s, %s FROM {} WHERE "_task" = ANY (%s)').format(names, staging.there)
        return self._upsert(rows, merge)

    def _upsert(self, rows: sql.Composed, merge: str | None) -> sql.Composed:
        value = sql.Identifier(self.value.name)
        return sql.SQL(
            'INSERT INTO {} AS _old ({}) {} ON CONFLICT ("_key") DO UPDATE SET '
            '"_prev" = CASE WHEN _old."_txid" = excluded."_txid" THEN _old."_prev" ELSE _old.{value} END, '
            '{value} = {merged}, "_txid" = excluded."_txid"'
        ).format(
            self.there,
            _names(*(column.name for column in (*self.keys, self.value)), "_key", "_txid", "_born"),
            rows,
            value=value,
            merged=sql.SQL(_MERGES[merge]).format(value),
        )

    @property
    def undo(self) -> tuple[sql.Composed, sql.Composed]:
        """Take back what a txid did: two statements, in which it is bound twice and once."""
        return (
            sql.SQL('DELETE FROM {} WHERE "_txid" = %s AND "_born" = %s').format(self.there),
            sql.SQL('UPDATE {} SET {} = "_prev" WHERE "_txid" = %s').format(
                self.there, sql.Identifier(self.value.name)
            ),
        )

    @property
    def _declarations(self) -> sql.Composed:
        return sql.SQL(", ").join(
            sql.SQL("{} {}").format(sql.Identifier(column.name), sql.SQL(column.storage))
            for column in (*self.keys, self.value)
        )

    # --- the headers --------------------------------------------------------------------------------------------------

    @property
    def create_books(self) -> sql.Composed:
        """CREATE TABLE, where there is none."""
        return sql.SQL(
            "CREATE TABLE IF NOT EXISTS {} (state text PRIMARY KEY, topology text NOT NULL, uuid text NOT NULL, "
            "incarnation bigint NOT NULL, fence bigint NOT NULL, owner text NOT NULL, columns text NOT NULL, "
            "txid bigint, epoch bigint, attempt_id bigint, run_first bigint)"
        ).format(self.headers)

    @property
    def widen_books(self) -> sql.Composed:
        """Add what a table of the headers that was made before there were runs doesn't have."""
        return sql.SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS run_first bigint").format(self.headers)

    def read_book(self, lock: str) -> sql.Composed:
        """This state's header; bound is its name."""
        return sql.SQL("SELECT {} FROM {} WHERE state = %s {}").format(
            _names(*StateHeader.COLUMNS.split(", ")),
            self.headers,
            sql.SQL(lock),
        )

    @property
    def write_header(self) -> sql.Composed:
        """Replace this state's header; bound are its name and its row."""
        names = StateHeader.COLUMNS.split(", ")
        new = sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in names)
        marks = sql.SQL(", ").join([sql.Placeholder()] * (len(names) + 1))
        return sql.SQL("INSERT INTO {} (state, {}) VALUES ({}) ON CONFLICT (state) DO UPDATE SET {}").format(
            self.headers, _names(*names), marks, new
        )

    @property
    def write_token(self) -> sql.Composed:
        """Set the token of this state; bound are txid, epoch, attempt, the group's first and the state's name."""
        return sql.SQL("UPDATE {} SET txid = %s, epoch = %s, attempt_id = %s, run_first = %s WHERE state = %s").format(
            self.headers
        )

    # --- what is staged -----------------------------------------------------------------------------------------------

    def staging(self, epoch: int, txid: int, attempt: int) -> Staging:
        """Where an attempt stages; the name is the attempt's own for ever, since an epoch is nobody else's."""
        return self.staged(f"_{self.name}_{epoch}_{txid}_{attempt}")

    def staged(self, name: str) -> Staging:
        """The staging table of this name.

        Raises:
            StateError: PostgreSQL would cut the name off, and it would be another attempt's.
        """
        if len(name) > _NAME_MAX:
            raise StateError(f"table {self.name!r}: {name!r} is longer than PostgreSQL's names; take a shorter table")
        return Staging(self.schema, name, tuple(column.name for column in (*self.keys, self.value)))

    def create_staging(self, staging: Staging) -> sql.Composed:
        """CREATE TABLE: unlogged, since it is worth nothing after a crash."""
        return sql.SQL(
            'CREATE UNLOGGED TABLE {} ({}, "_key" text COLLATE "C" NOT NULL, "_task" bigint NOT NULL) '
            "WITH (autovacuum_enabled = off)"
        ).format(staging.there, self._declarations)

    def epoch_of(self, name: str) -> int | None:
        """Whose epoch's staging table ``name`` is; None: not a staging table of this state."""
        found = re.fullmatch(rf"_{self.name}_(\d+)_\d+_\d+", name)
        return int(found[1]) if found else None


_NAME_MAX = 63


def declared_columns(schema: str) -> sql.Composed:
    """What the header of a state says of its fields; bound is the state's name."""
    return sql.SQL("SELECT columns FROM {} WHERE state = %s").format(sql.Identifier(schema, "_trident"))


def _names(*names: str) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))


def rows_of(columns: Sequence[TypedColumn], keys: Sequence[Sequence[Any]]) -> list[Any]:
    """The values of each of the key columns, as they are stored."""
    return [column.stored(part) for column, part in zip(columns, zip(*keys, strict=True), strict=True)]
