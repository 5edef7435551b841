"""A database with the history of topologies: two tables for any SQL client, and a few statements on them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from attrs import define, field

from coordinators.record.store import TopologyIdentity
from coordinators.status.listener import SucceededEvent
from coordinators.status.status import Wait
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import other_version
from trident_py.errors import HistoryError
from trident_py.history.entries import AttemptEntry, Change, LeadershipEntry, Program

ATTEMPTS_MAX = 10_000
ATTEMPTS_BYTES_MAX = 64 * 1024 * 1024
"""The limit for the attempts of one topology: above either limit, the oldest attempts are deleted."""

LEADERSHIPS_MAX = 1_000
"""The same limit for the leaderships of one topology."""

_LEADERSHIPS = """
    uuid TEXT NOT NULL, incarnation BIGINT NOT NULL, epoch BIGINT NOT NULL, topology TEXT NOT NULL, host TEXT NOT NULL,
    pid BIGINT NOT NULL, version TEXT NOT NULL, code TEXT NOT NULL, current_txid BIGINT NOT NULL,
    since DOUBLE PRECISION NOT NULL, ended DOUBLE PRECISION, error TEXT NOT NULL, waits_for TEXT NOT NULL,
    plan TEXT NOT NULL, format BIGINT NOT NULL"""
_ATTEMPTS = """
    uuid TEXT NOT NULL, incarnation BIGINT NOT NULL, txid BIGINT NOT NULL, attempt_id BIGINT NOT NULL,
    epoch BIGINT NOT NULL, topology TEXT NOT NULL, number BIGINT, phase TEXT NOT NULL,
    emitted DOUBLE PRECISION NOT NULL, ended DOUBLE PRECISION, succeeded DOUBLE PRECISION,
    processing DOUBLE PRECISION NOT NULL, waiting DOUBLE PRECISION NOT NULL, committing DOUBLE PRECISION NOT NULL,
    rows BIGINT NOT NULL, written TEXT NOT NULL, counts TEXT NOT NULL, definition TEXT NOT NULL, error TEXT NOT NULL,
    failed TEXT NOT NULL, bytes BIGINT NOT NULL"""
FORMAT_VERSION = 1

TABLES = (
    f"CREATE TABLE IF NOT EXISTS trident_leaderships ({_LEADERSHIPS}, PRIMARY KEY (uuid, incarnation, epoch))",
    f"CREATE TABLE IF NOT EXISTS trident_attempts ({_ATTEMPTS}, PRIMARY KEY (uuid, incarnation, txid, attempt_id))",
    "CREATE INDEX IF NOT EXISTS trident_attempts_by_time ON trident_attempts (topology, emitted)",
)


def _names(columns: str) -> list[str]:
    return [column.split()[0] for column in columns.split(",")]


def _upsert(table: str, columns: str, keys: int) -> str:
    names = _names(columns)
    changes = ", ".join(f"{name} = excluded.{name}" for name in names[keys:])
    return (
        f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))}) "  # noqa: S608 - our names
        f"ON CONFLICT ({', '.join(names[:keys])}) DO UPDATE SET {changes}"
    )


_WRITE_LEADERSHIP = _upsert("trident_leaderships", _LEADERSHIPS, 3)
_WRITE_ATTEMPT = _upsert("trident_attempts", _ATTEMPTS, 4)
_SUCCEED = """
    UPDATE trident_attempts SET phase = 'committed', succeeded = ?
    WHERE uuid = ? AND incarnation = ? AND txid = ? AND attempt_id = ?"""
_PRUNE_ATTEMPTS = """
    DELETE FROM trident_attempts WHERE topology = ? AND emitted <= (
        SELECT max(emitted) FROM (
            SELECT emitted, row_number() OVER newest AS place, sum(bytes) OVER newest AS total
            FROM trident_attempts WHERE topology = ? WINDOW newest AS (ORDER BY emitted DESC, txid DESC)
        ) AS counted WHERE place > ? OR total > ?)"""
_PRUNE_LEADERSHIPS = """
    DELETE FROM trident_leaderships WHERE topology = ? AND since <= (
        SELECT since FROM trident_leaderships WHERE topology = ? ORDER BY since DESC LIMIT 1 OFFSET ?)"""
_READ_LEADERSHIPS = f"""
    SELECT {", ".join(_names(_LEADERSHIPS))} FROM trident_leaderships WHERE topology = ?
    ORDER BY since, epoch"""  # noqa: S608 - our names
_READ_ATTEMPTS = f"""
    SELECT {", ".join(_names(_ATTEMPTS))} FROM trident_attempts
    WHERE uuid = ? AND incarnation = ? AND txid BETWEEN ? AND ?"""  # noqa: S608 - our names
_LAST_TXIDS = """
    SELECT DISTINCT txid FROM trident_attempts WHERE uuid = ? AND incarnation = ? AND (? OR phase = 'failed')
    ORDER BY txid DESC LIMIT ?"""
_TOPOLOGIES = "SELECT DISTINCT topology FROM trident_leaderships ORDER BY topology"


class Cursor(Protocol):
    """The common interface of both databases' cursors."""

    def execute(self, sql: Any, parameters: Any = ..., /) -> Any:
        """Execute a statement."""

    def executemany(self, sql: Any, rows: Any, /) -> Any:
        """Execute a statement for each row of parameters."""

    def fetchall(self) -> list[Any]:
        """Return the rows of the last statement."""


@define(eq=False)
class HistoryDatabase(ABC):
    """The history of topologies over one connection, which is opened at first use. Used by one thread.

    If the database fails, every method raises a `HistoryError` that names the place and the cause.

    Attributes:
        reads: whether it is only read: then it must exist, and no tables are made.
    """

    reads: bool = field(default=False, kw_only=True)
    _open: Any = field(default=None, init=False)

    @property
    @abstractmethod
    def shown(self) -> str:
        """The place, for people."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Cursor]:
        """Return a cursor within a transaction, which the end of the block commits."""

    @abstractmethod
    def connect(self) -> Any:
        """Open a connection, and make missing tables."""

    @property
    def connection(self) -> Any:
        """The connection, opened if it was not."""
        if self._open is None:
            self._open = self.connect()
        return self._open

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        connection, self._open = self._open, None
        if connection is not None:
            connection.close()

    def check_version(self, columns: Collection[str]) -> None:
        """Check the column names of ``trident_leaderships``; no names mean that there is no such table.

        Raises:
            HistoryError: a version before the first release made the tables.
        """
        if columns and "format" not in columns:
            raise HistoryError(
                f"the history in {self.shown} has no format version: a version of trident_py before the first release "
                f"made it, and nothing in it was changed; to fix this: name another place, or drop the tables "
                f"trident_leaderships and trident_attempts"
            )

    @abstractmethod
    def sql(self, statement: str) -> str:
        """Return a statement with the parameter marks of the database."""

    # --- writing ------------------------------------------------------------------------------------------------------

    def write(self, change: Change) -> None:
        """Store ``change``, in one transaction."""
        if change.life is None:
            return
        succeeded = [_succeeded(change.life, event) for event in change.succeeded]
        with self.transaction() as cursor:
            if change.leadership is not None:
                cursor.execute(self.sql(_WRITE_LEADERSHIP), _row_of_leadership(change.leadership))
            cursor.executemany(self.sql(_WRITE_ATTEMPT), [_row_of_attempt(each) for each in change.attempts])
            cursor.executemany(self.sql(_SUCCEED), succeeded)

    def prune(self, topology: str) -> None:
        """Delete the oldest entries of ``topology`` above the limits."""
        with self.transaction() as cursor:
            limits = (topology, topology, ATTEMPTS_MAX, ATTEMPTS_BYTES_MAX)
            cursor.execute(self.sql(_PRUNE_ATTEMPTS), limits)
            cursor.execute(self.sql(_PRUNE_LEADERSHIPS), (topology, topology, LEADERSHIPS_MAX))

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

    def _read(self, statement: str, parameters: Sequence[object]) -> list[Any]:
        with self.transaction() as cursor:
            cursor.execute(self.sql(statement), parameters)
            return cursor.fetchall()


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
