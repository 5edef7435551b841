"""The log of a database as a `PostgresChangesSpout` uses it: a replication slot, read by SQL.

`pg_logical_slot_peek_binary_changes` reads the log and consumes nothing, so the same changes can be read again until
the slot is advanced. It needs no streaming connection. Only the creation of the slot needs the replication protocol: it
exports the snapshot at which the slot begins.
"""
# ruff: noqa: S608 - every name in a statement is quoted; values are always bound

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from typing import Any, TypeVar

from attrs import define, evolve, field, frozen

from coordinators.values.canonical import Json
from trident_py.errors import SpoutError
from trident_py.spouts.postgres.changes import Position
from trident_py.spouts.postgres.rows import Layout
from trident_py.spouts.postgres.tables import (
    PublishedTable,
    check_server,
    declared_layout,
    publication_named,
    publication_of,
)
from trident_py.states.sql.dialect import Link
from trident_py.states.sql.postgres_client import Target, explained
from trident_py.states.sql.postgres_database import PostgresDatabase
from trident_py.states.sql.table import placed

PORTION, SNAPSHOT_PORTION = 1_000, 10_000
"""The number of messages, and of rows of a snapshot, that are read at once."""

HELD_SECONDS, LOOK_SECONDS = 10.0, 0.02
"""How long to wait for a slot that another process uses, and how often to look."""

IN_USE = "55006"
NO_CURSOR = "34000"
"""The error of a cursor whose connection has broken."""

_PROGRAM = "trident changes "

_LOOK = """
SELECT (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint,
    (SELECT (confirmed_flush_lsn - '0/0'::pg_lsn)::bigint FROM pg_replication_slots WHERE slot_name = %(slot)s),
    (SELECT wal_status = 'lost' FROM pg_replication_slots WHERE slot_name = %(slot)s)"""
_SLOTS = """
SELECT slot_name::text FROM pg_replication_slots
WHERE starts_with(slot_name::text, %s) AND database = current_database() ORDER BY slot_name"""
_PEEK = """
DECLARE _changes NO SCROLL CURSOR WITH HOLD FOR
SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, 'proto_version', '1', 'publication_names', %s)"""
_FETCH = f"FETCH {PORTION} FROM _changes"
_ADVANCE = """
SELECT pg_replication_slot_advance(slot_name, %(lsn)s::pg_lsn) FROM pg_replication_slots
WHERE slot_name = %(slot)s AND confirmed_flush_lsn < %(lsn)s::pg_lsn"""
_DROP = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"
_END_ZOMBIE = """
SELECT pg_terminate_backend(pid) FROM pg_replication_slots JOIN pg_stat_activity ON pid = active_pid
WHERE slot_name = %s AND starts_with(application_name, %s) AND application_name <> %s
AND clock_timestamp() - query_start > interval '1 second'"""
"""A program that only looks, as `trident try` does, has the slot for less time."""

_ALTERED = (
    "the tables of the publication were altered after the spout was declared; to fix this: start the topology again"
)

T = TypeVar("T")


@frozen
class Look:
    """The log and a slot at one moment.

    Attributes:
        flushed: the position up to which the log is durable.
        confirmed: the position up to which the slot was advanced; None: there is no such slot.
        is_lost: whether the server has removed the log that the slot needs.
        identity: of the publication; None: it does not exist.
    """

    flushed: int
    confirmed: int | None
    is_lost: bool
    identity: dict[str, Json] | None


@frozen
class Snapshot:
    """The rows at the moment at which a slot begins.

    Attributes:
        lsn: the position.
        identity: of the publication then.
        rows: yields portions: a table, as schema and name, and some of its rows.
    """

    lsn: int
    identity: dict[str, Json]
    rows: Iterator[tuple[str, Sequence[Sequence[str | None]]]]


class ChangeLog(ABC):
    """The log and the slots of one spout. Used by one thread.

    Every method may raise `StoreBusyException` if the database can't be reached, and `StateError` if it refuses.
    """

    @abstractmethod
    def slots(self) -> Sequence[str]:
        """Return the names of the spout's slots."""

    @abstractmethod
    def create(self, slot: str, layout: Layout) -> Snapshot:
        """Create a slot, and return the rows at its beginning. It waits for the transactions that run.

        Raises:
            SpoutError: the tables are not those of ``layout``.
        """

    @abstractmethod
    def drop(self, slot: str) -> None:
        """Drop a slot, if it is there."""

    @abstractmethod
    def look(self, slot: str) -> Look:
        """Return how things are."""

    @abstractmethod
    def read(self, slot: str) -> Iterator[bytes]:
        """Yield the messages after the slot's position, up to the end of the log; consumes nothing."""

    @abstractmethod
    def advance(self, slot: str, lsn: int) -> None:
        """Release the log before ``lsn``."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections."""


@define(kw_only=True)
class PostgresLog(ChangeLog):
    """A log of a PostgreSQL server.

    Attributes:
        where: names the topology and the spout, in errors.
        prefix: of the names of the spout's slots.
        run: a text that another process doesn't have, to recognise a zombie.
    """

    where: str
    target: Target
    publication: str
    as_text: Sequence[str]
    prefix: str
    run: str
    _database: PostgresDatabase = field(init=False)
    _link: Link = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._database = PostgresDatabase(evolve(self.target, application=f"{_PROGRAM}{self.run}"))
        self._link = self._database.beside()

    def slots(self) -> Sequence[str]:
        with self._explained(), self._link.transaction() as connection:
            return [name for (name,) in connection.execute(_SLOTS, [self.prefix]).fetchall()]

    def create(self, slot: str, layout: Layout) -> Snapshot:
        with self._explained(), closing(self._database.target.replication()) as replication:
            created = f"CREATE_REPLICATION_SLOT {self._quoted(slot)} LOGICAL pgoutput"
            ((_, lsn, exported, _),) = replication.execute(created).fetchall()
            connection: Any = self._database.target.connect().connection
            try:
                for statement in (
                    "SET idle_in_transaction_session_timeout = 0",
                    "SET row_security = off",
                    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
                    f"SET TRANSACTION SNAPSHOT '{exported}'",
                ):
                    connection.execute(statement)
                found = publication_of(connection, self.publication)
                if found is None or declared_layout(self._database, connection, found, self.as_text) != layout:
                    raise SpoutError(_ALTERED)
                return Snapshot(Position.of(lsn).lsn, found.identity, self._rows(connection, found.tables, layout))
            except BaseException:
                connection.close()
                raise

    def _rows(
        self, connection: Any, tables: Sequence[PublishedTable], layout: Layout
    ) -> Iterator[tuple[str, Sequence[Sequence[str | None]]]]:
        with closing(connection):
            for table in tables:
                columns = layout.tables[table.shown].names
                with self._explained(), connection.cursor() as cursor, cursor.copy(self._copy(table, columns)) as copy:
                    portion: list[Sequence[str | None]] = []
                    for row in copy.rows():
                        portion.append(row)
                        if len(portion) == SNAPSHOT_PORTION:
                            yield table.shown, portion
                            portion = []
                    yield table.shown, portion

    def _copy(self, table: PublishedTable, columns: Sequence[str]) -> str:
        there = placed(self._database.dialect, table.schema, table.name)
        only, condition = "ONLY " if table.is_plain else "", f" WHERE {table.filter}" if table.filter else ""
        return f"COPY (SELECT {self._quoted(*columns)} FROM {only}{there}{condition}) TO STDOUT"

    def drop(self, slot: str) -> None:
        self._with_slot(slot, lambda connection: connection.execute(_DROP, [slot]))

    def look(self, slot: str) -> Look:
        with self._explained(), self._link.transaction() as connection:
            client: Any = connection
            flushed, confirmed, is_lost = client.execute(_LOOK, {"slot": slot}).fetchone()
            found = publication_of(connection, self.publication)
        return Look(flushed, confirmed, bool(is_lost), found.identity if found else None)

    def read(self, slot: str) -> Iterator[bytes]:
        """Yield the messages. The server keeps them for this connection, so each is decoded once."""
        self._with_slot(slot, lambda connection: self._peek(connection, slot))
        while messages := self._fetched():
            yield from messages

    def _peek(self, connection: Any, slot: str) -> None:
        connection.execute("CLOSE ALL")
        connection.execute(_PEEK, [slot, self._quoted(self.publication)])

    def _fetched(self) -> list[bytes]:
        with explained(self.where, self._database.target, NO_CURSOR), self._link.transaction() as connection:
            client: Any = connection
            return [data for (data,) in client.execute(_FETCH, binary=True).fetchall()]

    def advance(self, slot: str, lsn: int) -> None:
        bound = {"slot": slot, "lsn": str(Position(lsn))}
        self._with_slot(slot, lambda connection: connection.execute(_ADVANCE, bound))

    def close(self) -> None:
        with self._link.lock:
            self._link.close()

    def _with_slot(self, slot: str, work: Callable[[Any], T]) -> T:
        """Run ``work`` in a transaction, if no other session uses the slot; end a session of an older leader."""
        until = time.monotonic() + HELD_SECONDS
        with self._explained():
            while True:
                try:
                    with self._link.transaction() as connection:
                        return work(connection)
                except Exception as error:
                    if getattr(error, "sqlstate", None) != IN_USE or time.monotonic() > until:
                        raise
                with self._link.transaction() as connection:
                    connection.execute(_END_ZOMBIE, [slot, _PROGRAM, f"{_PROGRAM}{self.run}"])
                time.sleep(LOOK_SECONDS)

    def _explained(self) -> AbstractContextManager[None]:
        return self._database.explained(self.where)

    def _quoted(self, *names: str) -> str:
        return self._database.dialect.quoted(*names)


def layout_of(target: Target, publication: str, as_text: Sequence[str]) -> Layout:
    """Return the fields of a publication's tables, as they are now.

    Raises:
        TopologyError: they can't be read.
        StateError: the database can't be reached.
    """
    database = PostgresDatabase(target)
    where = f"publication {publication!r} of {database.shown}"
    with database.starting(where), closing(database.beside()) as link, link.transaction() as connection:
        check_server(connection)
        return declared_layout(database, connection, publication_named(connection, publication), as_text)
