"""The history of topologies in a database: three tables for any SQL client, and a few statements on them."""
# ruff: noqa: S608 - the names in a statement are ours or quoted; values are always bound

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from coordinators.record.store import TopologyIdentity
from coordinators.status.listener import SucceededEvent, WishedEvent
from coordinators.status.status import Wait
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import other_version
from coordinators.values.secret import Secret
from trident_py.errors import FailedException, HistoryError, StateError, TopologyError
from trident_py.history.entries import AttemptEntry, Change, LeadershipEntry, Program, WishEntry
from trident_py.states.sql.databases import database_of
from trident_py.states.sql.dialect import Connection, Database, Dialect, Link
from trident_py.states.sql.sqlite_database import SQLiteDatabase
from trident_py.states.sql.table import placed

ATTEMPTS_MAX = 10_000
ATTEMPTS_BYTES_MAX = 64 * 1024 * 1024
"""The limit for the attempts of one topology: above either limit, the oldest attempts are deleted."""

LEADERSHIPS_MAX = 1_000
"""The same limit for the leaderships of one topology."""

WISHES_MAX = 10_000
"""The same limit for the commands of operators to one topology."""

FORMAT_VERSION = 1


@frozen
class _Table:
    """One of the tables.

    Attributes:
        columns: name and type of each column, separated by commas; the columns of the primary key come first.
        keys: the number of columns of the primary key.
        index: name and columns of another index, if there is one.
    """

    name: str
    columns: str
    keys: int
    index: tuple[str, str] | None = None

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.split()[0] for column in self.columns.split(",")]

    def create(self, of: Dialect, schema: str) -> Iterator[str]:
        """Yield the statements that make the table and its index, unless they exist."""
        place, columns = placed(of, schema, self.name), []
        for column in self.columns.split(","):
            name, kind = column.split(maxsplit=1)
            columns.append(f"{of.quoted(name)} {kind.format(name=of.short_text, text=of.long_text)}")
        inside, after = (part.format(*self.index, place) if self.index else "" for part in of.index)
        key = of.quoted(*self.names[: self.keys])
        yield f"CREATE TABLE IF NOT EXISTS {place} ({', '.join(columns)}, PRIMARY KEY ({key}){inside}) {of.engine}"
        if after:
            yield after

    def write(self, of: Dialect, schema: str, rows: int) -> str:
        """Return the statement that writes so many rows, and replaces those with the same key."""
        key, *others = of.quoted(*self.names[: self.keys]), *self.names[self.keys :]
        changes = ", ".join(f"{of.quoted(name)} = {of.new.format(of.quoted(name))}" for name in others)
        values = ", ".join([f"({of.marks(len(self.names))})"] * rows)
        return (
            f"INSERT INTO {placed(of, schema, self.name)} ({of.quoted(*self.names)}) VALUES {values} "
            f"{of.conflict.format(key)} {changes}"
        )


_LEADERSHIPS = _Table(
    "trident_leaderships",
    """
    uuid {name} NOT NULL, incarnation BIGINT NOT NULL, epoch BIGINT NOT NULL, topology {name} NOT NULL,
    host {text} NOT NULL, pid BIGINT NOT NULL, version {text} NOT NULL, code {text} NOT NULL,
    current_txid BIGINT NOT NULL, since DOUBLE PRECISION NOT NULL, ended DOUBLE PRECISION, error {text} NOT NULL,
    waits_for {text} NOT NULL, plan {text} NOT NULL, format BIGINT NOT NULL""",
    keys=3,
)
_ATTEMPTS = _Table(
    "trident_attempts",
    """
    uuid {name} NOT NULL, incarnation BIGINT NOT NULL, txid BIGINT NOT NULL, attempt_id BIGINT NOT NULL,
    epoch BIGINT NOT NULL, topology {name} NOT NULL, number BIGINT, phase {text} NOT NULL,
    emitted DOUBLE PRECISION NOT NULL, ended DOUBLE PRECISION, succeeded DOUBLE PRECISION,
    processing DOUBLE PRECISION NOT NULL, waiting DOUBLE PRECISION NOT NULL, committing DOUBLE PRECISION NOT NULL,
    rows BIGINT NOT NULL, written {text} NOT NULL, counts {text} NOT NULL, definition {text} NOT NULL,
    error {text} NOT NULL, failed {text} NOT NULL, bytes BIGINT NOT NULL""",
    keys=4,
    index=("trident_attempts_by_time", "topology, emitted"),
)

_WISHES = _Table(
    "trident_wishes",
    """
    uuid {name} NOT NULL, incarnation BIGINT NOT NULL, wish {name} NOT NULL, epoch BIGINT NOT NULL,
    topology {name} NOT NULL, at DOUBLE PRECISION NOT NULL, action {text} NOT NULL, txids {text} NOT NULL,
    wished_by {text} NOT NULL, reason {text} NOT NULL, refused {text} NOT NULL, found {text} NOT NULL""",
    keys=3,
)

_SUCCEED = """
    UPDATE {attempts} SET phase = CASE WHEN phase = 'parked' THEN phase ELSE 'committed' END, succeeded = ?
    WHERE uuid = ? AND incarnation = ? AND txid = ? AND attempt_id = ?"""
_PRUNE_ATTEMPTS = """
    DELETE FROM {attempts} WHERE topology = ? AND emitted <= (
        SELECT max(emitted) FROM (
            SELECT emitted, row_number() OVER newest AS place, sum(bytes) OVER newest AS total
            FROM {attempts} WHERE topology = ? WINDOW newest AS (ORDER BY emitted DESC, txid DESC)
        ) AS counted WHERE place > ? OR total > ?)"""
_PRUNE_LEADERSHIPS = """
    DELETE FROM {leaderships} WHERE topology = ? AND since <= (
        SELECT since FROM (
            SELECT since FROM {leaderships} WHERE topology = ? ORDER BY since DESC LIMIT 1 OFFSET ?
        ) AS newest_deleted)"""
_PRUNE_WISHES = """
    DELETE FROM {wishes} WHERE topology = ? AND at <= (
        SELECT at FROM (
            SELECT at FROM {wishes} WHERE topology = ? ORDER BY at DESC LIMIT 1 OFFSET ?
        ) AS newest_deleted)"""
_READ_WISHES = "SELECT {wish_columns} FROM {wishes} WHERE uuid = ? AND incarnation = ? ORDER BY at, wish"
_READ_LEADERSHIPS = "SELECT {leadership_columns} FROM {leaderships} WHERE topology = ? ORDER BY since, epoch"
_READ_ATTEMPTS = """
    SELECT {attempt_columns} FROM {attempts} WHERE uuid = ? AND incarnation = ? AND txid BETWEEN ? AND ?"""
_LAST_TXIDS = """
    SELECT DISTINCT txid FROM {attempts} WHERE uuid = ? AND incarnation = ? AND (? OR phase = 'failed')
    ORDER BY txid DESC LIMIT ?"""
_TOPOLOGIES = "SELECT DISTINCT topology FROM {leaderships} ORDER BY topology"


class NoHistoryError(HistoryError):
    """No history of a topology or transaction was found at its place."""


def existing_history(place: Path | Secret | None) -> HistoryDatabase:
    """Return the history at ``place``, as in ``TridentConfig.history_place``, for reading.

    Raises:
        NoHistoryError: there is no history.
        HistoryError: the URL can't be read.
        ConfigError: the database's library isn't installed.
    """
    if place is None:
        raise NoHistoryError("history=None: nothing is kept")
    if isinstance(place, Path) and not place.is_file():
        raise NoHistoryError(f"there is no history in {place}")
    return history_at(place, reads=True)


def history_at(place: Path | Secret, *, reads: bool = False) -> HistoryDatabase:
    """Return the history at ``place``: a file, or a database by its URL. Nothing is opened yet.

    Raises:
        HistoryError: the URL can't be read.
        ConfigError: the database's library isn't installed.
    """
    if isinstance(place, Path):
        return HistoryDatabase(SQLiteDatabase(place.absolute()), reads=reads)
    try:
        return HistoryDatabase(database_of(place), reads=reads)
    except (StateError, TopologyError) as error:
        raise HistoryError(f"the place of the history: {error}") from None


@define(eq=False)
class HistoryDatabase:
    """The history of topologies over one connection, which is opened at first use. Used by one thread.

    A SQLite file is made with its directory. Only its owner may read it: definitions and errors contain users' rows.
    If the database fails, every method raises a `HistoryError` that names the place and the cause.

    Attributes:
        reads: whether it is only read: then it must exist, and no tables are made.
    """

    database: Database
    reads: bool = field(default=False, kw_only=True)
    _link: Link | None = field(default=None, init=False)
    _schema: str = field(default="", init=False)

    @property
    def shown(self) -> str:
        """The place, for people."""
        return self.database.shown

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        link, self._link = self._link, None
        if link is not None:
            link.close()

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        try:
            with self.database.explained(self.shown), (self._link or self._open()).transaction() as connection:
                yield connection
        except (FailedException, StateError) as error:
            self.close()
            raise HistoryError(f"the history in {error}") from error

    def _open(self) -> Link:
        database = self.database
        if isinstance(database, SQLiteDatabase) and not self.reads:
            _make_private(database.path)
        link = database.beside() if self.reads else database.link()
        try:
            self._schema = database.schema(link, self.shown)
            with link.transaction() as connection:
                self._check_version(connection)
                if not self.reads:
                    database.lock_making(connection)
                    for table in (_LEADERSHIPS, _ATTEMPTS, _WISHES):
                        for statement in table.create(database.dialect, self._schema):
                            connection.execute(statement)
        except BaseException:
            link.close()
            raise
        self._link = link
        return link

    def _check_version(self, connection: Connection) -> None:
        of, table = self.database.dialect, [self._schema, _LEADERSHIPS.name]
        if connection.execute(of.has_table, table).fetchone() is None:
            return
        if connection.execute(of.has_column, [*table, "format"]).fetchone() is None:
            raise StateError(
                f"{self.shown} has no format version: a version of trident_py before the first release made it, and "
                f"nothing in it was changed; to fix this: name another place, or drop the tables trident_leaderships "
                f"and trident_attempts"
            )

    def _sql(self, statement: str) -> str:
        of = self.database.dialect
        return statement.replace("?", of.mark).format(
            leaderships=placed(of, self._schema, _LEADERSHIPS.name),
            attempts=placed(of, self._schema, _ATTEMPTS.name),
            wishes=placed(of, self._schema, _WISHES.name),
            leadership_columns=of.quoted(*_LEADERSHIPS.names),
            attempt_columns=of.quoted(*_ATTEMPTS.names),
            wish_columns=of.quoted(*_WISHES.names),
        )

    # --- writing ------------------------------------------------------------------------------------------------------

    def write(self, change: Change) -> None:
        """Store ``change``, in one transaction."""
        if change.life is None:
            return
        succeeded = [_succeeded(change.life, event) for event in change.succeeded]
        leaderships = [] if change.leadership is None else [_row_of_leadership(change.leadership)]
        with self._transaction() as connection:
            self._write(connection, _LEADERSHIPS, leaderships)
            self._write(connection, _ATTEMPTS, [_row_of_attempt(each) for each in change.attempts])
            self._write(connection, _WISHES, [_row_of_wish(each) for each in change.wishes])
            for values in succeeded:
                connection.execute(self._sql(_SUCCEED), values)

    def prune(self, topology: str) -> None:
        """Delete the oldest entries of ``topology`` above the limits."""
        with self._transaction() as connection:
            limits = (topology, topology, ATTEMPTS_MAX, ATTEMPTS_BYTES_MAX)
            connection.execute(self._sql(_PRUNE_ATTEMPTS), limits)
            connection.execute(self._sql(_PRUNE_LEADERSHIPS), (topology, topology, LEADERSHIPS_MAX))
            connection.execute(self._sql(_PRUNE_WISHES), (topology, topology, WISHES_MAX))

    def _write(self, connection: Connection, table: _Table, rows: Sequence[tuple[object, ...]]) -> None:
        if rows:
            of, schema = self.database.dialect, self._schema
            self.database.write(connection, lambda count: table.write(of, schema, count), rows)

    # --- reading ------------------------------------------------------------------------------------------------------

    def topologies(self) -> list[str]:
        """Return the names of the topologies in it, sorted."""
        return [name for (name,) in self._read(_TOPOLOGIES, ())]

    def leaderships(self, topology: str) -> list[LeadershipEntry]:
        """Return the leaderships of all lives of ``topology``, oldest first."""
        return [_leadership_of(row) for row in self._read(_READ_LEADERSHIPS, (topology,))]

    def last_txids(self, life: TopologyIdentity, txids_max: int, *, failed: bool = False) -> list[int]:
        """Return the last transactions, highest first; with ``failed`` only those with a failed attempt."""
        return [txid for (txid,) in self._read(_LAST_TXIDS, (life.uuid, life.incarnation, not failed, txids_max))]

    def attempts(self, life: TopologyIdentity, first: int, last: int) -> list[AttemptEntry]:
        """Return the attempts of transactions ``first`` to ``last``, in no order."""
        return [_attempt_of(row) for row in self._read(_READ_ATTEMPTS, (life.uuid, life.incarnation, first, last))]

    def wishes(self, life: TopologyIdentity) -> list[WishEntry]:
        """Return the commands to this life of a topology, oldest first."""
        with self._transaction() as connection:
            table = [self._schema, _WISHES.name]
            if connection.execute(self.database.dialect.has_table, table).fetchone() is None:
                return []  # an older release has made the history
        return [_wish_of(row) for row in self._read(_READ_WISHES, (life.uuid, life.incarnation))]

    def _read(self, statement: str, parameters: Sequence[object]) -> list[Any]:
        with self._transaction() as connection:
            return list(connection.execute(self._sql(statement), parameters).fetchall())


def _make_private(path: Path) -> None:
    """Make the file and its directory, if they are missing; SQLite's other files get the same mode."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise StateError(f"{path}: {error}") from error


def _succeeded(life: TopologyIdentity, event: SucceededEvent) -> tuple[object, ...]:
    return event.at, life.uuid, life.incarnation, event.attempt.txid, event.attempt.attempt_id


def _row_of_leadership(entry: LeadershipEntry) -> tuple[object, ...]:
    life, program = entry.life, entry.program
    who = (life.uuid, life.incarnation, entry.epoch, life.name)
    what = (program.host, program.pid, program.version, program.code)
    waits_for = json.dumps([[each.what, each.since] for each in entry.waits_for])
    plan = json.dumps(program.plan)
    rest = (entry.current_txid, entry.since, entry.ended, entry.error, waits_for, plan, FORMAT_VERSION)
    return (*who, *what, *rest)


def _leadership_of(row: Sequence[Any]) -> LeadershipEntry:
    uuid, incarnation, epoch, topology, host, pid, version, code, *rest = row
    current_txid, since, ended, error, waits_for, plan, stored_format = rest
    if stored_format != FORMAT_VERSION:
        raise HistoryError(f"the history of topology {topology!r}: {other_version(stored_format, FORMAT_VERSION)}")
    return LeadershipEntry(
        life=TopologyIdentity(name=topology, uuid=uuid, incarnation=incarnation),
        epoch=epoch,
        program=Program(host=host, pid=pid, version=version, code=code, plan=tuple(json.loads(plan))),
        current_txid=current_txid,
        since=since,
        ended=ended,
        error=error,
        waits_for=tuple(Wait(what, begun) for what, begun in json.loads(waits_for)),
    )


def _row_of_wish(entry: WishEntry) -> tuple[object, ...]:
    life, event = entry.life, entry.event
    found = json.dumps({spout: list(rows) for spout, rows in event.found.items()})
    who = (life.uuid, life.incarnation, entry.id, entry.epoch, life.name)
    what = (event.at, event.action, json.dumps(list(event.txids)), event.by, event.reason)
    return (*who, *what, event.refused, found)


def _wish_of(row: Sequence[Any]) -> WishEntry:
    uuid, incarnation, wish, epoch, topology, at, action, txids, by, reason, refused, found = row
    event = WishedEvent(
        topology=topology,
        at=at,
        wish=wish,
        action=action,
        txids=tuple(json.loads(txids)),
        by=by,
        reason=reason,
        refused=refused,
        found={spout: tuple(rows) for spout, rows in json.loads(found).items()},
    )
    return WishEntry(life=TopologyIdentity(topology, uuid, incarnation), epoch=epoch, id=wish, event=event)


def _row_of_attempt(entry: AttemptEntry) -> tuple[object, ...]:
    life, attempt = entry.life, entry.attempt
    texts = [json.dumps(each) for each in (dict(entry.written), dict(entry.counts), dict(entry.definition))]
    who = (life.uuid, life.incarnation, attempt.txid, attempt.attempt_id, entry.epoch, life.name)
    when = (entry.number, entry.phase, entry.emitted, entry.ended, entry.succeeded)
    took = (entry.processing, entry.waiting, entry.committing, entry.rows)
    said = (*texts, entry.error, entry.failed)
    return (*who, *when, *took, *said, sum(map(len, said)))


def _attempt_of(row: Sequence[Any]) -> AttemptEntry:
    uuid, incarnation, txid, attempt_id, epoch, topology, number, phase, emitted, ended, succeeded, *rest = row
    processing, waiting, committing, rows, written, counts, definition, error, failed, _ = rest
    return AttemptEntry(
        life=TopologyIdentity(name=topology, uuid=uuid, incarnation=incarnation),
        epoch=epoch,
        attempt=TransactionAttempt(txid, attempt_id),
        number=number,
        phase=phase,
        emitted=emitted,
        ended=ended,
        succeeded=succeeded,
        processing=processing,
        waiting=waiting,
        committing=committing,
        rows=rows,
        written=json.loads(written),
        counts=json.loads(counts),
        definition=json.loads(definition),
        error=error,
        failed=failed,
    )
