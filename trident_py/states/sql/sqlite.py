"""A state in a table of a SQLite database: committed values for any client, exactly once, through any crash."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import localcontext
from functools import partial
from itertools import chain, repeat
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

from attrs import Factory, evolve, field, frozen
from pyspark.sql.types import StructField, StructType

from trident_py.errors import FailedException, StateError
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.operations import CombinerAggregator
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey
from trident_py.interfaces.states import GroupState, ITupleCollection, Key, StateFactory, StateKind, ValueUpdater
from trident_py.states.fenced import EXACT_DECIMALS, Fence
from trident_py.states.keys import encode_keys
from trident_py.states.sql.columns import loaded_rows
from trident_py.states.sql.commit_row import StateHeader, TableStep
from trident_py.states.sql.reading import ReadTable
from trident_py.states.sql.sqlite_errors import ensure_usable, explained
from trident_py.states.sql.sqlite_reading import SQLiteTableReader
from trident_py.states.sql.sqlite_table import Table, check_name

BUSY_SECS = 10.0
"""How long a commit waits for another process that writes to the same database."""

_CACHE_KIB = 32 * 1024
_STATEMENT_ROWS = (1_000, 100, 10, 1)
"""A third faster than one by one; and each statement lets go of Python's lock once, and waits 5 ms for it where another
thread is busy: 43 000 keys then took 0.5 s, and minutes one by one."""

_BOUND_MAX = 32_766
"""Of values in one statement, says SQLite."""

Row: TypeAlias = tuple[Any, ...]
_HEADERS = """
    CREATE TABLE IF NOT EXISTS "_trident" (
        state TEXT NOT NULL PRIMARY KEY COLLATE NOCASE,
        topology TEXT NOT NULL, uuid TEXT NOT NULL, incarnation INTEGER NOT NULL,
        fence INTEGER NOT NULL, owner TEXT NOT NULL, columns TEXT NOT NULL,
        txid INTEGER, epoch INTEGER, attempt_id INTEGER, run_first INTEGER
    )"""
_READ_HEADER = f'SELECT {StateHeader.COLUMNS} FROM "_trident" WHERE state = ?'  # noqa: S608 - nothing of it is data


@frozen
class SQLiteState(StateFactory):
    """Keeps values in ``table`` of the database at ``path``, which is made where there is none.

    The table is an ordinary one: ``SELECT word, count FROM counts`` gives the committed values at any time, from any
    client; reading blocks no commit. Columns and tables that begin with an underscore are bookkeeping. Each state needs
    a table of its own; several may share a database. Values are durable when committed (WAL, synchronous=FULL).

    Raises:
        StateError: ``table`` cannot be a table's name, or ``path`` is no path.
    """

    guarantee = "exactly-once"
    kind = StateKind.FENCED

    path: Path = field(converter=Path)
    table: str = field(kw_only=True)
    _schema: Table | None = field(default=None, kw_only=True, repr=False)
    name: str = field(init=False, repr=False, default=Factory(lambda self: self.table, takes_self=True))

    @path.validator
    def _check_path(self, _: object, path: Path) -> None:
        if str(path) in (".", ":memory:"):
            raise StateError(f"SQLiteState keeps its values in a file, and {str(path)!r} is none; see MemoryMapState")

    @table.validator
    def _check_table(self, _: object, table: str) -> None:
        check_name(table, "table")

    @property
    def lacks_fields(self) -> bool:
        """Whether nothing has told it the types of its columns yet."""
        return self._schema is None

    def for_fields(self, keys: StructType, value: StructField) -> SQLiteState:
        """This factory for values of these types.

        Raises:
            StateError: a column can't hold such a type, or can't have such a name.
        """
        return evolve(self, schema=Table.of(self.table, keys, value))

    def for_reading(self) -> ReadTable:
        """The table as it is, whichever topology fills it."""
        return ReadTable(self, self.table, partial(SQLiteTableReader, self.path, self.table))

    def ensure_usable(self) -> None:
        """Look whether the file can be read and written, or made."""
        ensure_usable(self.path.absolute(), f"table {self.table!r} of {self.path.absolute()}")

    def make_state(
        self, conf: TridentConfig, metrics: Metrics, partition_index: int, num_partitions: int
    ) -> SQLiteMapState:
        """The state; the database is opened when it recovers."""
        if self._schema is None:
            raise StateError(
                f"table {self.table!r} of {self.path}: SQLiteState keeps typed columns, and only "
                f"persistent_aggregate tells it their types; use it there, or call for_fields"
            )
        return SQLiteMapState(self.path.absolute(), self._schema)


class SQLiteMapState(GroupState[Any], ITupleCollection):
    """Values by key in one table, each with its previous value, beside a row that has the fence and the last token."""

    def __init__(self, path: Path, table: Table) -> None:
        self._path = path
        self._table = table
        self._name = f"table {table.name!r} of {path}"
        self._owner = uuid4().hex
        self._connection: sqlite3.Connection | None = None
        self._file = (0, 0)
        self._commit_row: tuple[int | None, ...] = ()  # what the open transaction stores of itself
        self._open: SinkTransaction | None = None
        self._writer = 0  # the thread of the open transaction
        self._reader: sqlite3.Connection | None = None
        self._reading = threading.Lock()

    # --- takeover -----------------------------------------------------------------------------------------------------

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        """A new leader takes over: make what is missing, refuse older epochs from now on, in one transaction."""
        try:
            with self._explained(), self._connect() as connection:
                connection.execute("BEGIN IMMEDIATE")
                return self._take_over(connection, topology, epoch).token
        except FailedException as error:
            told = f"topology {topology.name!r}: {error}; end it, or take another file"
            raise StateError(told, topology=topology.name) from error

    def _take_over(self, connection: sqlite3.Connection, topology: TopologyKey, epoch: int) -> Fence:
        connection.execute(_HEADERS)
        if "run_first" not in [column for _, column, *_ in connection.execute('PRAGMA table_info("_trident")')]:
            connection.execute('ALTER TABLE "_trident" ADD COLUMN run_first INTEGER')  # of before there were runs
        row = connection.execute(_READ_HEADER, (self._table.name,)).fetchone()
        found = StateHeader.of(row) if row else None
        claim = StateHeader(Fence(topology, epoch), self._owner, self._table.columns)
        header, step = claim.claimed(found, exists=self._exists(connection), state=self._name)
        if step is TableStep.REPLACE and found:
            aside = f"_{self._table.name}_incarnation_{found.fence.topology.incarnation}"
            connection.execute(f'ALTER TABLE "{self._table.name}" RENAME TO "{aside}"')
        if step is not TableStep.KEEP:
            connection.execute(self._table.create)
        marks = ", ".join("?" * (1 + len(header.row)))
        connection.execute(f'INSERT OR REPLACE INTO "_trident" VALUES ({marks})', (self._table.name, *header.row))  # noqa: S608
        return header.fence

    def _exists(self, connection: sqlite3.Connection) -> bool:
        query = "SELECT 1 FROM sqlite_master WHERE name = ? COLLATE NOCASE"
        return connection.execute(query, (self._table.name,)).fetchone() is not None

    # --- transactions -------------------------------------------------------------------------------------------------

    def begin_group(self, run: Sequence[SinkTransaction]) -> Sequence[SinkTransaction]:
        """Open ``run`` under the database's write lock; gives up a transaction that was left open."""
        self.rollback()
        self._check_file()
        connection = self._recovered()
        with self._explained():
            connection.execute("BEGIN IMMEDIATE")
            fence, due, redo = self._decide(connection, run)
            if redo:
                for statement in self._table.undo:
                    connection.execute(statement, (due[0].txid,))
            if not due:
                connection.execute("ROLLBACK")
                return due
        self._commit_row, self._open, self._writer = fence.after(run).commit, due[0], threading.get_ident()
        return due

    def _decide(
        self, connection: sqlite3.Connection, run: Sequence[SinkTransaction]
    ) -> tuple[Fence, Sequence[SinkTransaction], bool]:
        header = connection.execute(_READ_HEADER, (self._table.name,)).fetchone()
        try:
            if header is None:
                raise StateError(
                    f"attempt {run[0].attempt}: {self._name} has lost its row in _trident; restore the file",
                    attempt=run[0].attempt,
                )
            fence = StateHeader.of(header).fence
            return (fence, *fence.due(run, self._name))
        except Exception:
            connection.execute("ROLLBACK")
            raise

    def begin_member(self, tx: SinkTransaction) -> None:
        """What is written from now on has this txid."""
        self._open = tx

    def commit_group(self) -> None:
        """Commit changes and token together; durable when this returns."""
        connection, _ = self._in_transaction()
        with self._explained():
            connection.execute(
                'UPDATE "_trident" SET txid = ?, epoch = ?, attempt_id = ?, run_first = ? WHERE state = ?',
                (*self._commit_row, self._table.name),
            )
            connection.execute("COMMIT")
        self._open = None

    def rollback(self) -> None:
        """Give up the open transaction."""
        self._open = None
        if self._connection is not None and self._connection.in_transaction:
            with self._explained():
                self._connection.execute("ROLLBACK")

    # --- values -------------------------------------------------------------------------------------------------------

    def multi_get(self, keys: Sequence[Key]) -> list[Any]:
        """The value of each key; None where there is none."""
        texts = encode_keys(keys)
        if self._open is not None and self._writer == threading.get_ident():
            stored = self._read(self._recovered(), texts)
        else:
            with self._reading:
                stored = self._read(self._committed(), texts)
        return [stored.get(text) for text in texts]

    def get_tuples(self) -> list[tuple[Any, ...]]:
        """The committed values: for each key its values, then the value."""
        columns = (*self._table.keys, self._table.value)
        with self._reading, self._explained():
            rows = self._committed().execute(self._table.read_all).fetchall()
        return loaded_rows(columns, rows)

    def multi_update(self, keys: Sequence[Key], updaters: Sequence[ValueUpdater[Any]]) -> list[Any]:
        """Replace the value of each key by what its updater makes of it."""
        connection, _ = self._in_transaction()
        texts = encode_keys(keys)
        current = self._read(connection, texts)
        values: list[Any] = []
        with localcontext(EXACT_DECIMALS):
            for text, updater in zip(texts, updaters, strict=True):
                current[text] = updater(current.get(text))
                values.append(current[text])
        self._write(keys, values, None)
        return values

    def multi_put(self, keys: Sequence[Key], values: Sequence[Any]) -> None:
        """Set the value of each key."""
        self._write(keys, values, None)

    def multi_merge(self, keys: Sequence[Key], partials: Sequence[Any], aggregator: CombinerAggregator[Any]) -> None:
        """Combine ``partials[i]`` into the value of ``keys[i]``; in SQL where that is the same."""
        if aggregator.merge in self._table.value.merges:
            self._write(keys, partials, aggregator.merge)
        else:
            super().multi_merge(keys, partials, aggregator)

    def _read(self, connection: sqlite3.Connection, texts: Sequence[str]) -> dict[str, Any]:
        loaded = self._table.value.loaded
        with self._explained():
            rows = connection.execute(self._table.read, (json.dumps(texts, ensure_ascii=False),))
            return {text: loaded(value) for text, value in rows}

    def _write(self, keys: Sequence[Key], values: Sequence[Any], merge: str | None) -> None:
        connection, tx = self._in_transaction()
        if not keys:
            return
        table, texts = self._table, encode_keys(keys)
        columns = [column.stored(part) for column, part in zip(table.keys, zip(*keys, strict=True), strict=True)]
        rows = zip(*columns, table.value.stored(values), texts, repeat(tx.txid), repeat(tx.txid), strict=False)
        # In the order of the table, neighbouring rows share pages: twice as fast for large tables.
        ordered = sorted(rows, key=itemgetter(len(table.keys) + 1))
        with self._explained():
            for some in _statements(ordered):
                connection.execute(table.upsert(merge, len(some)), list(chain.from_iterable(some)))

    def close(self) -> None:
        """Close the database."""
        self._open = None
        with self._reading:
            for connection in filter(None, (self._reader, self._connection)):
                connection.close()
            self._reader = self._connection = None

    # --- connections --------------------------------------------------------------------------------------------------

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        """The writing connection, opened if it isn't; what is begun in the block is committed at its end."""
        connection = self._connection or self._opened()
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            connection.close()
            self._connection = None
            raise
        self._connection, self._file = connection, _identity(self._path)

    def _opened(self) -> sqlite3.Connection:
        ensure_usable(self._path, self._name)
        connection = sqlite3.connect(self._path, timeout=BUSY_SECS, isolation_level=None, check_same_thread=False)
        try:
            self._configure(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _configure(self, connection: sqlite3.Connection) -> None:
        if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
            raise StateError(f"{self._name}: its file system doesn't allow WAL mode; put it on a local disk")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.execute("PRAGMA legacy_alter_table = ON")  # so that a user's views stay with the table's name

    def _committed(self) -> sqlite3.Connection:
        self._recovered()
        if self._reader is None:
            with self._explained():
                self._reader = sqlite3.connect(
                    f"{self._path.as_uri()}?mode=ro", uri=True, timeout=BUSY_SECS, check_same_thread=False
                )
        return self._reader

    def _recovered(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StateError(f"{self._name} is not open: it was not recovered, or is closed")
        return self._connection

    def _in_transaction(self) -> tuple[sqlite3.Connection, SinkTransaction]:
        if self._open is None:
            raise StateError(f"{self._name} changes only between begin_transaction and end_transaction")
        return self._recovered(), self._open

    def _check_file(self) -> None:
        # SQLite would go on writing into a file that was deleted, and everything would be lost at the end.
        if _identity(self._path) != self._file:
            raise StateError(f"{self._name}: the file was removed or replaced while in use; restore it and start again")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        with explained(self._name):
            yield


def _statements(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """The rows of each statement; of few different lengths, since statements are prepared once for each."""
    first = 0
    for size in _STATEMENT_ROWS:
        while len(rows) - first >= size and size * len(rows[0]) <= _BOUND_MAX:
            yield rows[first : first + size]
            first += size


def _identity(path: Path) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0)
    return (found.st_dev, found.st_ino)
