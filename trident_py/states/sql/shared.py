"""One database transaction in which several tables commit, each with its own token."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from coordinators.values.errors import our_bug
from trident_py.errors import StoreBusyException
from trident_py.interfaces.sinks import SinkTransaction
from trident_py.states.sql.dialect import AnswerLostError, Connection, Link

if TYPE_CHECKING:
    from trident_py.states.sql.fenced_table import FencedTable

log = logging.getLogger(__name__)


class SharedLink(Link):
    """The connection of several tables; in a shared transaction, the transactions of the tables are parts of it."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self._link, self.lock = link, link.lock
        self._open: tuple[Connection, int] | None = None

    def open(self) -> Connection:
        """Begin a shared transaction, which includes everything that this thread does until `end`."""
        connection = self._link.begin()
        self._open = connection, threading.get_ident()
        return connection

    def land(self) -> None:
        """Commit the shared transaction.

        Raises:
            AnswerLostError: whether it is committed is unknown.
        """
        self._link.commit()

    def end(self) -> None:
        """End the shared transaction; if it is still open, roll it back."""
        self._open = None
        self._link.rollback()

    @property
    def around(self) -> Connection | None:  # type: ignore[override]
        """The connection of this thread's shared transaction; None: this thread has none."""
        return self._open[0] if self._open and self._open[1] == threading.get_ident() else None

    def begin(self) -> Connection:
        """Return the connection of the shared transaction, else of a new one."""
        return self.around or self._link.begin()

    def commit(self) -> None:
        """Commit, except within a shared transaction."""
        if self.around is None:
            self._link.commit()

    def rollback(self) -> None:
        """Roll back, except within a shared transaction, which ends when an error is raised."""
        if self.around is None:
            self._link.rollback()

    def close(self) -> None:
        """Close the connection."""
        self._link.close()

    def lock_holders(self) -> Sequence[str]:
        """Return the holders of the locks that the shared connection waits for."""
        return self._link.lock_holders()


class SharedTransaction:
    """Commits the tables of several states and sinks together: a reader sees all of a transaction, or nothing.

    Their locks are taken in the order of their names, so two leaders never wait for each other. Then each table decides
    by its own token, as if it were alone.
    """

    def __init__(self, tables: Sequence[FencedTable]) -> None:
        """Take ``tables``, which are of one database and recovered; `join` lets several commit together from now on."""
        self.tables = tuple(sorted(tables, key=lambda table: table.place))
        self._first = self.tables[0]
        own, *others = (table.commit_link for table in self.tables)
        self._link = SharedLink(own.standing_for(others) if others else own)

    def join(self) -> None:
        """Let the tables commit in this transaction only."""
        for table in self.tables:
            table.commit_link = self._link

    @contextmanager
    def committing(self, tx: SinkTransaction) -> Iterator[None]:
        """Commit the block's changes in the tables, durable at its end; if it raises, roll all of them back.

        Args:
            tx: the last transaction of those that commit, for messages and for the leader's epoch.

        Raises:
            FencedError: a newer leader has taken over.
            StoreBusyException: nothing is committed, and a replay may succeed.
        """
        try:
            with self._first.explained(tx):
                self._lock(tx)
            yield
            with self._first.explained(tx):
                self._land(tx)
        finally:
            with self._first.explained(tx):
                self._link.end()
            for table in self.tables:
                table.clean()

    @contextmanager
    def undoing(self, tx: SinkTransaction) -> Iterator[None]:
        """Let the block commit a trial, and roll it back; the tables commit as before afterwards.

        Raises:
            FencedError, StoreBusyException: as for `committing`.
        """
        links = [table.commit_link for table in self.tables]
        for table in self.tables:
            table.commit_link = self._link
        try:
            with self._first.explained(tx):
                self._lock(tx)
            yield
        finally:
            with self._first.explained(tx):
                self._link.end()
            for table, link in zip(self.tables, links, strict=True):
                table.pending, table.commit_link = None, link
                table.clean()

    def _lock(self, tx: SinkTransaction) -> None:
        connection = self._link.open()
        for table in self.tables:
            table.pending = None
            table.locked_header(connection, tx).fence.check_leader(tx, table.shown)

    def _land(self, tx: SinkTransaction) -> None:
        if tx.attempt.is_trial:
            raise AssertionError(our_bug(f"{tx.attempt} would be committed"))
        try:
            self._link.land()
        except AnswerLostError as error:
            where = f"attempt {tx.attempt}: {self._first.shown}"
            log.warning("%s: the answer to COMMIT was lost (%s); reading back", where, error)
            if not self._has_landed(tx):
                raise StoreBusyException(f"{where}: the connection was lost, nothing was committed") from None
        for table in self.tables:
            table.landed()

    def _has_landed(self, tx: SinkTransaction) -> bool:
        """Return whether all tokens are stored; wait for the locks until the lost transaction has ended."""
        self._link.end()
        self._link.close()
        with self._link.transaction() as connection:
            found = [(table.pending, table.locked_header(connection, tx).fence) for table in self.tables]
        return all(pending is None or pending.token == fence.token for pending, fence in found)
