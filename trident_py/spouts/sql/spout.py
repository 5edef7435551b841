"""`SQLSpout`: the new rows of a table, by a column whose values rise."""
# ruff: noqa: S608 - every name in a statement is quoted; values are always bound

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from datetime import date, datetime, timedelta
from typing import Any

from attrs import define, field, frozen
from pyspark.sql import types as t

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Json
from coordinators.values.secret import Secret, as_secret
from trident_py.errors import TopologyError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import TopologyContext
from trident_py.interfaces.partitioned import (
    IOpaquePartitionedTridentSpout,
    OpaquePartitionedEmitter,
    PartitionedCoordinator,
)
from trident_py.rows.schema import schema_of
from trident_py.spouts.pace import Pace
from trident_py.spouts.sql.columns import converted, field_of, selected
from trident_py.spouts.sql.scan import Cursor, IdCursor, Position, Row, Scan, TimeCursor
from trident_py.states.sql.databases import database_of
from trident_py.states.sql.dialect import Connection, Database, Link
from trident_py.states.sql.staging import link_of
from trident_py.states.sql.table import placed

IDS = 1_000
"""The default lookback of a column of numbers."""

TIMES = timedelta(minutes=1)
"""The default lookback of a column of times."""

ROWS = "rows"
"""The only partition: the whole table."""

PORTION_ROWS = 2_048

_NUMBERS = (t.ByteType, t.ShortType, t.IntegerType, t.LongType, t.DecimalType)
_TYPES: dict[type[t.DataType], type[date | str]] = {t.DateType: date, t.StringType: str}
_TIMES = (t.TimestampType, t.TimestampNTZType, t.DateType, t.StringType)


class SQLSpout(IOpaquePartitionedTridentSpout[list[str], str, Json]):
    """Emits the rows of a table that are new since the last batch, by a column whose values rise.

    ``cursor`` is a column of ids that are never changed, or of the time at which each row was changed last. Its values
    are drawn before a transaction of the database commits: id 7 may be visible after id 8 was read. So each batch reads
    again from ``lookback`` before its position, and emits only the rows that it hasn't seen there. Positions are
    committed with the transaction, so each row, or each version of a row, counts once.

    It doesn't see deleted rows, rows whose cursor is NULL, or rows that become visible later than ``lookback``. Nor
    does it see versions that were overwritten before they were read. `docs/how-to/tables-as-source.md` has a check.

    Args:
        url: ``"sqlite:///file.db"``, ``"postgresql://…"`` or ``"mysql://…"``; never printed.
        table: its name, or ``"schema.name"``.
        cursor: the column; it should have an index.
        lookback: a number of ids, by default 1000; or a ``timedelta``, by default one minute.
        max_records_per_batch: the greatest number of rows of a batch, except that rows of the same time stay together.
        schema: the columns to read and their types. None: all columns; the database is then asked for them.

    Raises:
        TopologyError: the URL, the table or a column can't be read so.
        ConfigError: the database's library is not installed.
        StateError: the database can't be reached.
    """

    def __init__(
        self,
        url: str,
        table: str,
        cursor: str,
        lookback: int | timedelta | None = None,
        *,
        max_records_per_batch: int = 10_000,
        schema: str | t.StructType | None = None,
    ) -> None:
        self._url, self._table = as_secret(url), table
        if max_records_per_batch < 1:
            raise TopologyError(f"max_records_per_batch is at least 1, not {max_records_per_batch}")
        self._most = max_records_per_batch
        database = database_of(self._url)
        self.output_schema = schema_of(schema) if schema is not None else _fields_of(database, table)
        self._cursor_name = cursor
        self._cursor = cursor_of(self.output_schema, cursor, lookback)

    def __repr__(self) -> str:
        return f"SQLSpout(url=***, table={self._table!r}, cursor={self._cursor_name!r})"

    def details(self) -> Mapping[str, Json]:
        """Return table, cursor and lookback."""
        return {"table": self._table, "cursor": self._cursor_name, "lookback": str(self._cursor.lookback)}

    def get_coordinator(self, conf: TridentConfig, context: TopologyContext) -> TableCoordinator:
        return TableCoordinator(self._reading(), where=f"topology {context.topology!r}, {self!r}")

    def get_emitter(self, conf: TridentConfig, context: TopologyContext) -> TableEmitter:
        return TableEmitter(self._reading(), where=f"topology {context.topology!r}, {self!r}")

    def _reading(self) -> TableReading:
        return TableReading(
            url=self._url,
            table=self._table,
            fields=schema_of(self.output_schema),
            cursor_name=self._cursor_name,
            cursor=self._cursor,
            most=self._most,
        )


def cursor_of(schema: t.StructType, name: str, lookback: int | timedelta | None) -> IdCursor | TimeCursor:
    """Return the cursor for the column ``name``.

    Raises:
        TopologyError: there is no such column, or it is neither of numbers nor of times, or ``lookback`` doesn't fit.
    """
    if name not in schema.names:
        raise TopologyError(f"there is no column {name!r}; there are {', '.join(schema.names)}")
    kind, place = schema[name].dataType, schema.names.index(name)
    is_time, is_number = isinstance(kind, _TIMES), isinstance(kind, _NUMBERS) and getattr(kind, "scale", 0) == 0
    least = timedelta(days=1) if isinstance(kind, t.DateType) else timedelta(0)
    match lookback:
        case None if is_time:
            return TimeCursor(place, max(TIMES, least), _TYPES.get(type(kind), datetime))
        case timedelta() if is_time and lookback >= least:
            return TimeCursor(place, lookback, _TYPES.get(type(kind), datetime))
        case None if is_number:
            return IdCursor(place, IDS)
        case int() if is_number and lookback >= 0:
            return IdCursor(place, lookback)
    if not (is_time or is_number):
        raise TopologyError(
            f"cursor {name!r} is {kind.simpleString()}; it must be a column of whole numbers or of times that rise"
        )
    needed = f"a timedelta of at least {least}" if is_time else "a number of at least 0"
    raise TopologyError(f"cursor {name!r} is {kind.simpleString()}, so lookback is {needed}, not {lookback!r}")


def _fields_of(database: Database, table: str) -> t.StructType:
    where = f"table {table!r} of {database.shown}"
    link = database.beside()
    try:
        with database.starting(where):
            schema, name = _named(database, link, table, where)
            with link.transaction() as connection:
                if connection.execute(database.dialect.has_table, [schema, name]).fetchone() is None:
                    raise TopologyError(f"{where}: there is no such table")
                found = database.find_table(connection, schema, name)
    finally:
        link.close()
    return t.StructType([field_of(column, database, table) for column in found.columns])


def _named(database: Database, link: Link, table: str, where: str) -> tuple[str, str]:
    """Return schema and name of a table."""
    schema, _, name = table.rpartition(".")
    return schema or database.schema(link, where), name


@frozen(kw_only=True)
class TableReading:
    """How to read the new rows of a table; sent to the tasks.

    Attributes:
        fields: the columns to read.
        most: the rows of a batch.
    """

    url: Secret
    table: str
    fields: t.StructType
    cursor_name: str
    cursor: Cursor
    most: int

    def scan(self, stored: Json) -> Scan:
        """Begin after the position that is stored as ``stored``."""
        return Scan(self.cursor, Position.of(stored, self.cursor), self.most)

    def rows(self, database: Database, connection: Connection, scan: Scan) -> Iterator[Row]:
        """Yield the new rows of a scan, in the order of the cursor."""
        kinds = [each.dataType for each in self.fields]
        query, bound = self.query(database, scan.begin)
        portions = database.portions(connection, query, bound, PORTION_ROWS)
        rows = ([*map(converted, row, kinds)] for portion in portions for row in portion)
        return scan.new_rows(rows)

    def query(self, database: Database, begin: Any) -> tuple[str, list[Any]]:
        """Return the SELECT for the rows after the value ``begin`` of the cursor, and its bound values."""
        of = database.dialect
        schema, _, name = self.table.rpartition(".")
        cursor = of.quoted(self.cursor_name)
        condition = f"{cursor} IS NOT NULL" if begin is None else f"{cursor} > {of.mark}"
        columns = ", ".join(selected(each, database) for each in self.fields)
        query = f"SELECT {columns} FROM {placed(of, schema, name)} WHERE {condition} ORDER BY {cursor}"
        return query, [] if begin is None else [of.bound(begin)]


@define
class TableCoordinator(PartitionedCoordinator[list[str]]):
    """Looks whether the table has new rows."""

    reading: TableReading
    where: str = field(kw_only=True)
    _pace: Pace = field(factory=Pace, init=False)
    _position: Json = field(default=None, init=False)
    _link: Link = field(init=False)
    _database: Database = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._database = database_of(self.reading.url)
        self._link = self._database.beside()

    def get_partitions_for_batch(self) -> list[str]:
        return [ROWS]

    def emitted(self, positions: Mapping[str, Any]) -> None:
        self._position = positions.get(ROWS)
        self._pace.ask_at_once()

    def is_ready(self, txid: int) -> bool:
        if not self._pace.is_due():
            return False
        with self._pace.asking(), self._database.explained(self.where), self._link.transaction() as connection:
            rows = self.reading.rows(self._database, connection, self.reading.scan(self._position))
            return next(rows, None) is not None

    def has_pending_input(self) -> bool:
        """Return whether the table was not read in the last `is_ready`, so that there may be rows."""
        return not self._pace.is_asking

    def close(self) -> None:
        with self._link.lock:
            self._link.close()


@define
class TableEmitter(OpaquePartitionedEmitter[list[str], str, Json]):
    """Reads new rows, in one task."""

    reading: TableReading
    where: str = field(kw_only=True)

    def emit_batch_new(
        self,
        tx: TransactionAttempt,
        collector: TridentCollector,
        partitions: AbstractSet[str],
        last_partition_meta_map: Mapping[str, Json],
    ) -> Mapping[str, Json]:
        if not partitions:
            return {}
        scan, database = self.reading.scan(last_partition_meta_map.get(ROWS)), database_of(self.reading.url)
        with database.explained(f"{self.where}, attempt {tx}"), link_of(database).transaction() as connection:
            for row in self.reading.rows(database, connection, scan):
                collector.emit(row)
        end = scan.end
        return {} if end.upto is None else {ROWS: end.stored(self.reading.cursor)}
