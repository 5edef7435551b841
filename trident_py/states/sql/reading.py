"""A table that one topology fills and another one reads: ``new_static_state`` over one of our states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen
from pyspark.sql.types import StructField, StructType

from trident_py.errors import StateError
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.states import (
    ITupleCollection,
    Key,
    ReadOnlyMapState,
    ReadOnlyState,
    State,
    StateFactory,
    TaskReadableState,
    TaskReader,
)
from trident_py.states.keys import encode_keys
from trident_py.states.sql.columns import declared_fields, loaded_rows

if TYPE_CHECKING:
    from trident_py.states.sql.dialect import Connection, Database
from trident_py.states.sql.table import HEADERS, Headers, Table


class CommittedValues(ReadOnlyState, ReadOnlyMapState[Any], ITupleCollection):
    """The committed values of a table, as a query in a task reads them."""

    def __init__(self, connection: Connection, table: Table) -> None:
        self._connection = connection
        self._table = table

    def multi_get(self, keys: Sequence[Key]) -> list[Any]:
        texts = encode_keys(keys)
        stored = self._table.values(self._connection, texts)
        return [stored.get(text) for text in texts]

    def get_tuples(self) -> list[tuple[Any, ...]]:
        rows = self._connection.execute(self._table.read_all, self._table.alive).fetchall()
        return loaded_rows((*self._table.keys, self._table.value), rows)


@frozen
class TableTaskReader(TaskReader):
    """Reads a table in tasks, by the connection of the worker's process."""

    kind = CommittedValues

    database: Database
    table: Table
    where: str

    @contextmanager
    def opened(self) -> Iterator[State]:
        """Yield the values, in one transaction that only reads."""
        from trident_py.states.sql.staging import link_of

        with self.database.explained(self.where), link_of(self.database).transaction() as connection:
            yield CommittedValues(connection, self.table)


class TableReader(ReadOnlyState, ReadOnlyMapState[Any], ITupleCollection, TaskReadableState):
    """Values by key, as committed at the time of each query; it makes and writes nothing.

    It connects again after the connection broke.
    """

    def __init__(self, database: Database, table: str, *, by_tasks: bool = False) -> None:
        self._database = database
        self._by_tasks = by_tasks
        self._name = f"table {table!r} of {database.shown}"
        self._link = database.beside()

    @classmethod
    def opened(cls, database: Database, name: str, *, by_tasks: bool = False) -> TableReader:
        """Return the reader of this table; queries of large batches may read it by tasks, if ``by_tasks`` says so.

        Raises:
            StateError: no topology has made the table, or it can't be read.
        """
        reader = cls(database, name, by_tasks=by_tasks)
        if not database.exists:
            raise reader._missing()
        try:
            with database.starting(reader._name):
                schema = database.schema(reader._link, reader._name)
                with reader._link.transaction() as connection:
                    reader._table = reader._found(connection, schema, name)
        except StateError:
            reader.close()
            raise
        return reader

    def multi_get(self, keys: Sequence[Key]) -> list[Any]:
        with self._reading() as values:
            return values.multi_get(keys)

    def get_tuples(self) -> list[tuple[Any, ...]]:
        with self._reading() as values:
            return values.get_tuples()

    @property
    def task_reader(self) -> TaskReader | None:
        return TableTaskReader(self._database, self._table, self._name) if self._by_tasks else None

    @property
    def keys(self) -> StructType:
        """The fields of its keys; their nullability is unknown."""
        return StructType([StructField(column.name, column.kind) for column in self._table.keys])

    def close(self) -> None:
        """Close the connection; it is not made again."""
        with self._link.lock:
            self._link.close()
        self._closed = True

    _table: Table
    _closed = False

    @contextmanager
    def _reading(self) -> Iterator[CommittedValues]:
        if self._closed:
            raise StateError(f"{self._name} is closed")
        with self._database.explained(self._name), self._link.transaction() as connection:
            yield CommittedValues(connection, self._table)

    def _found(self, connection: Connection, schema: str, name: str) -> Table:
        dialect = self._database.dialect
        has_tables = [connection.execute(dialect.has_table, [schema, each]).fetchone() for each in (HEADERS, name)]
        Headers(dialect, schema).check_version(connection)
        query = Headers(dialect, schema).declared
        row = connection.execute(query, [name]).fetchone() if all(has_tables) else None
        if row is None:
            raise self._missing()
        timed = connection.execute(dialect.has_column, [schema, name, "_time"]).fetchone() is not None
        return evolve(Table.of(dialect, name, *declared_fields(row[0])), schema=schema, timed=timed)

    def _missing(self) -> StateError:
        return StateError(
            f"{self._name}: no topology has made such a table; to fix this: first start the topology that fills it"
        )


@frozen(repr=False)
class ReadTable(StateFactory):
    """Makes the reader of the table that holds the states of ``source``."""

    source: StateFactory
    name: str
    opened: Callable[[], TableReader]

    def __repr__(self) -> str:
        return repr(self.source)

    def make_state(
        self, conf: TridentConfig, metrics: Metrics, partition_index: int, num_partitions: int
    ) -> TableReader:
        """Return the reader.

        Raises:
            StateError: there is no such table, or it can't be read.
        """
        return self.opened()
