"""`SQLSink` and the states in SQL tables as stores of the table of values, read by the database's own client."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, TypeAlias

import psycopg
import pymysql
from attrs import define, field
from pyspark.sql import types as t

from coordinators.values.secret import Secret
from tests.task_links import close_task_links
from tests.transactions import begin
from tests.unit.trident_py.states.sql.postgres_rows import staged_by
from tests.unit.trident_py.states.sql.test_sqlite import TOPOLOGY, transaction
from tests.values.odd import same
from tests.values.store import Store
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.operations import CombinerAggregator
from trident_py.rows.row import column_values
from trident_py.rows.schema import arrow_table, check_comparable, schema_of
from trident_py.sinks.sql.rows_table import RowsTable
from trident_py.sinks.sql.writer import Prepared, RowsWriter
from trident_py.states.sql import staging
from trident_py.states.sql.databases import database_of
from trident_py.states.sql.mysql import MySQLState
from trident_py.states.sql.postgres import PostgresState
from trident_py.states.sql.query import SQLQuery
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.states.sql.urls import DatabaseUrl

Convert: TypeAlias = Callable[[Any], Any]
FACTORIES: Mapping[str, Callable[[str], Any]] = {
    "sqlite": lambda url: lambda table: SQLiteState(url.removeprefix("sqlite:///"), table=table),
    "postgresql": lambda url: lambda table: PostgresState(url, table=table),
    "mysql": lambda url: lambda table: MySQLState(url, table=table),
}


class Newest(CombinerAggregator[Any]):
    """The value that came last."""

    def init(self, row: Any) -> Any:
        return row[0]

    def combine(self, left: Any, right: Any) -> Any:
        return right

    def zero(self) -> Any:
        return None


def selected(url: str, query: str) -> list[Any]:
    """Return what the database's own client reads, in its own types."""
    kind = url.partition(":")[0]
    if kind == "sqlite":
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as client:
            return client.execute(query).fetchall()
    if kind == "postgresql":
        with psycopg.connect(url, options="-c TimeZone=UTC") as connection:
            return connection.execute(query.encode()).fetchall()
    at = DatabaseUrl.of(Secret(url), ("mysql",))
    with closing(
        pymysql.connect(
            host=at.host,
            port=at.port or 3306,
            user=at.user,
            password=at.password.reveal().encode(),
            database=at.database,
            charset="utf8mb4",
        )
    ) as connected:
        cursor = connected.cursor()
        cursor.execute(query)
        return list(cursor.fetchall())


def plain(url: str, kind: t.DataType, value: Any) -> Any:
    """Return what a client has read as Python has it, as docs/how-to/databases.md says how values stand in columns."""
    if value is None:
        return None
    if isinstance(kind, t.ArrayType | t.MapType | t.StructType):
        return nested(kind, json.loads(value) if isinstance(value, str) else value)
    if url.startswith("postgresql"):
        return value
    own: dict[type[t.DataType], Convert] = {t.BooleanType: bool}
    if url.startswith("mysql"):
        own[t.TimestampType] = lambda at: at.replace(tzinfo=UTC)
    else:
        own |= {
            t.DateType: date.fromisoformat,
            t.TimestampType: datetime.fromisoformat,
            t.TimestampNTZType: datetime.fromisoformat,
            t.DecimalType: Decimal,
            t.FloatType: float,
            t.DoubleType: float,
        }
    return own.get(type(kind), lambda same: same)(value)


def nested(kind: t.DataType, value: Any) -> Any:
    """Return a value of JSON as Python has it."""
    if value is None:
        return None
    match kind:
        case t.ArrayType():
            return [nested(kind.elementType, each) for each in value]
        case t.MapType():
            return {key: nested(kind.valueType, each) for key, each in value.items()}
        case t.StructType():
            return tuple(nested(each.dataType, value[each.name]) for each in kind.fields)
        case t.DoubleType():
            return float(value)
    return value


@define
class SQLStore(Store):
    """A table of a database.

    Attributes:
        by_tasks: whether rows are staged as tasks stage them.
    """

    url: str
    by_tasks: bool
    _tables: int = field(default=0, init=False)
    _kind: t.DataType = field(factory=t.NullType, init=False)

    def next_table(self, ddl: str) -> str:
        """The name of a table that isn't there yet."""
        self._kind = schema_of(f"v {ddl}").fields[0].dataType
        self._tables += 1
        return f"t{self._tables}"

    def read(self) -> list[Any]:
        rows = sorted(selected(self.url, f"SELECT n, v FROM t{self._tables}"))  # noqa: S608
        return [plain(self.url, self._kind, value) for _, value in rows]


class SinkStore(SQLStore):
    """`SQLSink`, into a table of its own."""

    def write(self, ddl: str, values: Sequence[Any]) -> None:
        name, fields, rows = self.next_table(ddl), f"n int, v {ddl}", list(enumerate(values))
        database, tx = database_of(Secret(self.url)), transaction(1)
        writer = RowsWriter(database, name, by_key=False)
        try:
            writer.recover(TOPOLOGY, 1)
            table = writer.table(RowsTable.of(database.dialect, name, schema_of(fields), ()))
            prepared = Prepared(arrow_table(rows, schema_of(fields)), staged=False)
            if self.by_tasks:
                report = staged_by(writer.staging_task(tx, table), 7, rows, fields)
                reports = arrow_table([report], schema_of(staging.REPORTS))
                prepared = Prepared(reports, staged=True, storages=table.storages)
            writer.commit(tx, prepared)
        except BaseException:
            assert selected(self.url, f"SELECT n FROM {name}") == []  # noqa: S608
            raise
        finally:
            writer.close()
            close_task_links()


@define
class StateStore(SQLStore):
    """A state: values by number, or the number of each value as a key, to which the number belongs, too.

    It belongs to the key, as odd values are equal there: 0.0 and -0.0.
    """

    of_keys: bool = False

    def write(self, ddl: str, values: Sequence[Any]) -> None:
        name, tx = self.next_table(ddl), transaction(1)
        keys, value = (f"n int, v {ddl}", "x int") if self.of_keys else ("n int", f"v {ddl}")
        check_comparable(schema_of(keys))  # as where it is declared
        factory = FACTORIES[self.url.partition(":")[0]](self.url)(name)
        told = factory.for_fields(schema_of(keys), schema_of(value).fields[0])
        state = told.make_state(TridentConfig(), Metrics(), 0, 1)
        rows = [((n, each), n) if self.of_keys else ((n,), each) for n, each in enumerate(values)]
        try:
            state.recover(TOPOLOGY, 1)
            self._commit(state, tx, rows, f"{keys}, {value}")
            stored = state.multi_get([key for key, _ in rows])
            assert [each is None for each in stored] == [each is None for _, each in rows]
        except BaseException:
            state.rollback()
            assert selected(self.url, f"SELECT n FROM {name}") == []  # noqa: S608
            raise
        finally:
            state.close()
            close_task_links()

    def _commit(self, state: Any, tx: Any, rows: list[tuple[tuple[Any, ...], Any]], fields: str) -> None:
        reports = []
        if self.by_tasks:
            reports = [staged_by(state.staging_task(tx), 7, [(*key, value) for key, value in rows], fields)]
        assert begin(state, tx)
        if self.by_tasks:
            state.merge_staged(reports, Newest())
        else:
            state.multi_put([key for key, _ in rows], [value for _, value in rows])
        state.commit_group()

    def same(self, stored: Any, value: Any, ddl: str) -> bool:
        return same(stored, value) or (self.of_keys and value == 0.0 and stored == value)


class QueryStore(SinkStore):
    """`SQLQuery`, over a table that a sink has filled: the rows that it emits."""

    def write(self, ddl: str, values: Sequence[Any]) -> None:
        super().write(ddl, values)
        query = SQLQuery(self.url, f"SELECT n, v FROM t{self._tables} ORDER BY n")  # noqa: S608
        state = query.make_state(TridentConfig(), Metrics(), 0, 1)
        try:
            rows = arrow_table(state.rows_for([]), schema_of(f"n int, v {ddl}"))
        finally:
            state.close()
        self._read = column_values(rows.column("v").combine_chunks())

    def read(self) -> list[Any]:
        return self._read

    _read: list[Any]


STORES: Mapping[str, Callable[[str, bool], SQLStore]] = {
    "SQLSink {database}": SinkStore,
    "SQLQuery {database}": QueryStore,
    "{state} values": StateStore,
    "{state} keys": lambda url, by_tasks: StateStore(url, by_tasks, of_keys=True),
}
"""By their names in the table of values."""
