"""PostgreSQL: the form of Spark's values in a table, the SQL of it, and its takeover."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import evolve, frozen
from pyspark.sql import types as t

from trident_py.errors import StateError
from trident_py.rows.row import column_values
from trident_py.states.sql.catalog import FoundTable
from trident_py.states.sql.columns import (
    RefusedValueError,
    TypedColumn,
    as_day,
    as_float,
    as_integer,
    as_text,
    exact_decimal,
    of_type,
)
from trident_py.states.sql.dialect import Connection, Database, Dialect, Leader, Row
from trident_py.states.sql.dialect import Link as AnyLink
from trident_py.states.sql.limits import plain_array
from trident_py.states.sql.postgres_catalog import columns_of
from trident_py.states.sql.postgres_client import (
    GONE,
    SHARED,
    TAKEOVER_SECONDS,
    Link,
    Session,
    Target,
    explained,
    starting,
)
from trident_py.states.sql.stored import StoredRows
from trident_py.states.sql.table import Headers, placed

NULL = r"\N"
NO_NUL = "PostgreSQL's texts don't hold NUL"
_ESCAPED = (("\\", r"\\"), ("\n", r"\n"), ("\r", r"\r"), ("\t", r"\t"))
"""The escapes in the order in which they are applied: the backslash first."""

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
    """Return the lines of a task's rows for COPY into a staging table: the columns, the text of the key, the task.

    Raises:
        StateError: a value doesn't fit its column, or its Arrow type isn't supported.
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
    """Return each value in the text form of COPY."""
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
            f"can't be copied into PostgreSQL; to fix this: cast the field to a type that "
            f"docs/how-to/databases.md lists"
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


_FIELD = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_TABLE = re.compile(r"[a-z][a-z0-9_]{0,39}")  # leaves room for `_<table>_<epoch>_<txid>_<attempt>` in 63 bytes
_NUL_IN_JSON = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_SYSTEM = frozenset({"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"})
_ORDERED = frozenset({"min", "max"})


def check_table(name: str) -> str:
    """Return ``name``, if it is a valid name of a table.

    Raises:
        StateError: it has other characters, is too long, or is reserved.
    """
    if not isinstance(name, str) or not _TABLE.fullmatch(name):
        raise StateError(
            f"table {name!r} cannot be a state's table in PostgreSQL: use up to 40 lower-case ASCII letters, digits "
            f"and underscores, a letter first; its schema is the first in the search_path of the DSN"
        )
    return name


def check_field(name: str) -> str:
    """Return ``name``, if it is a valid name of a column.

    Raises:
        StateError: it isn't.
    """
    if not _FIELD.fullmatch(name) or name in _SYSTEM:
        raise StateError(
            f"field {name!r} cannot be a column in PostgreSQL: use up to 63 ASCII letters, digits and underscores, a "
            f"letter first, and none of {', '.join(sorted(_SYSTEM))}"
        )
    return name


def _text(value: Any) -> str:
    if "\0" in as_text(value):
        raise RefusedValueError(NO_NUL)
    return str(value)


def _json(text: str) -> str:
    if _NUL_IN_JSON.search(text):
        raise RefusedValueError(NO_NUL)
    return text


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
    t.StringType: ('text COLLATE "C"', _ORDERED, _text),  # compares bytes, as Spark does
    t.BinaryType: ("bytea", _ORDERED, of_type(bytes, bytearray), None, bytes),
    t.DateType: ("date", _ORDERED, as_day),
    t.TimestampType: ("timestamptz", _ORDERED, _instant, _utc),
    t.TimestampNTZType: ("timestamp", _ORDERED, _clock),
}


def _decimal(kind: t.DecimalType) -> tuple[Any, ...]:
    numeric = f"numeric({kind.precision},{kind.scale})"  # which would round a value that doesn't fit
    return numeric, _ORDERED | {"sum"}, exact_decimal(kind.precision, kind.scale)


_FOUND = {
    'text COLLATE "C"': "text",
    "timestamptz": "timestamp with time zone",
    "timestamp": "timestamp without time zone",
}

POSTGRESQL = Dialect(
    database="PostgreSQL",
    types=_COLUMNS,
    decimal=_decimal,
    json="jsonb",
    checked_json=_json,
    checked_name=check_field,
    checked_table=check_table,
    key='text COLLATE "C"',
    as_found=lambda storage: (_FOUND.get(storage, storage),),
    staging=("CREATE UNLOGGED TABLE", "WITH (autovacuum_enabled = off)"),
    merges={
        None: "{new}",
        "sum": "coalesce({old} + {new}, {old}, {new})",
        "min": "least({old}, {new})",  # they pass over NULLs, and NaN is the greatest, as in Spark
        "max": "greatest({old}, {new})",
    },
    among="= ANY (%s)",
    # A takeover keeps everybody out. A commit keeps out takeovers and other commits; what is staged meanwhile waits
    # for a takeover only.
    locks=("FOR UPDATE", "FOR NO KEY UPDATE", "FOR KEY SHARE"),
    has_table=(
        "SELECT 1 FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace WHERE nspname = %s AND relname = %s"
    ),
    stages=True,
)


_IDENTITY = (
    "SELECT system_identifier, oid, current_user::text FROM pg_control_system(), pg_database "
    "WHERE datname = current_database()"
)


@frozen
class PostgresDatabase(Database):
    """The database that a DSN names, in the first schema of its ``search_path``."""

    dialect = POSTGRESQL

    target: Target

    @property
    def shown(self) -> str:
        """Host and database."""
        return self.target.shown

    @property
    def server(self) -> object:
        """The DSN."""
        return self.target.dsn

    def identity(self, link: AnyLink) -> object:
        """Return the cluster's number, the database's, and the user."""
        with link.transaction() as connection:
            return connection.execute(_IDENTITY).fetchone()

    def explained(self, where: str, *, staged: bool = False, way_out: str = "") -> AbstractContextManager[None]:
        return explained(where, self.target, GONE if staged else "", way_out)

    def starting(self, where: str) -> AbstractContextManager[None]:
        return starting(where, self.target)

    def ensure_usable(self) -> None:
        """Check that the server accepts the user, and that each connection has its own session."""
        self.target.check()

    def link(self) -> Link:
        """Return a connection, not opened yet."""
        return Link(self.target)

    def led_by(self, leader: Leader, table: str) -> PostgresDatabase:
        """Return the database with connections, of driver and tasks, that are named by topology, table and epoch."""
        known = sha256(table.encode()).hexdigest()[:8]
        name = f"trident {leader.topology.uuid[:8]} {known} {leader.epoch}"
        return PostgresDatabase(evolve(self.target, application=name))

    def schema(self, link: AnyLink, where: str) -> str:
        """Return the first schema of the search path that exists."""
        self.target.check()
        with link.transaction(TAKEOVER_SECONDS) as connection:
            ((encoding,),) = connection.execute("SELECT current_setting('server_encoding')").fetchall()
        schema = link.session.schema if isinstance(link.session, Session) else None
        if schema is None:
            raise StateError(
                f"{where}: no schema of its search_path exists; to fix this: create one, or name one in the DSN"
            )
        if encoding != "UTF8":
            raise StateError(f"{where}: the database is not in UTF8; to fix this: create one with ENCODING 'UTF8'")
        return schema

    def lock_making(self, connection: Connection) -> None:
        """Take a lock: if two make a table at once, IF NOT EXISTS alone ends in an error."""
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('_trident', 0))")

    @contextmanager
    def takeover(self, link: AnyLink, schema: str, table: str, leader: Leader) -> Iterator[Connection]:
        """Run the block in one transaction."""
        self._end_older(link, leader.epoch)
        headers = Headers(POSTGRESQL, schema)
        with link.transaction(TAKEOVER_SECONDS) as connection:
            self.lock_making(connection)
            headers.check_version(connection)
            connection.execute(headers.create)
        with link.transaction(TAKEOVER_SECONDS) as connection:
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 1))", [f"{schema}.{table}"])
            yield connection

    def find_table(self, connection: Connection, schema: str, table: str, *, keys: bool = False) -> FoundTable:
        """Return the columns, under a lock of the table that prevents only changes of its columns."""
        try:
            return columns_of(connection, schema, table, placed(POSTGRESQL, schema, table))
        except Exception as error:
            if getattr(error, "sqlstate", None) == GONE:
                return FoundTable(())
            raise

    def write(self, connection: Connection, statement: Callable[[int], str], rows: Sequence[Row]) -> None:
        """Send one statement per row, without waiting for each answer."""
        client: Any = connection
        client.cursor().executemany(statement(1), rows)

    def load(self, connection: Connection, table: str, columns: str, parts: Iterable[StoredRows], task: int) -> int:
        """Copy the rows into the table."""
        client: Any = connection
        with client.cursor() as cursor:
            with cursor.copy(f"COPY {table} ({columns}) FROM STDIN") as copy:
                for part in parts:
                    copy.write(copied(part, task))
            return int(cursor.rowcount)

    def portions(self, connection: Connection, query: str, values: Sequence[Any], size: int) -> Iterator[list[Row]]:
        """Yield the rows of a server-side cursor."""
        client: Any = connection
        with client.cursor(name="_portions") as cursor:
            cursor.execute(query, values)
            while rows := cursor.fetchmany(size):
                yield rows

    def _end_older(self, link: AnyLink, epoch: int) -> None:
        program, topology, table, _ = self.target.application.split()
        with link.transaction() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
                "AND usename = current_user AND application_name ~ %s "
                "AND (regexp_match(application_name, '[0-9]+$'))[1]::bigint < %s",
                [f"^{program} {topology} ({table}|{SHARED}) [0-9]+$", epoch],
            )
