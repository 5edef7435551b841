"""One transaction of a database in which several tables commit, each by its own token."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trident_py.errors import StoreBusyException
from trident_py.interfaces.sinks import SinkTransaction
from trident_py.states.sql.dialect import AnswerLostError, Connection, Link

if TYPE_CHECKING:
    from trident_py.states.sql.fenced_table import FencedTable

log = logging.getLogger(__name__)


class SharedLink(Link):
    """The connection of several tables: what each begins and commits is a part of the transaction around all of it."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self._link, self.lock = link, link.lock
        self._open: tuple[Connection, int] | None = None

    def open(self) -> Connection:
        """Begin a transaction, which whatever this thread does from now on is a part of."""
        connection = self._link.begin()
        self._open = connection, threading.get_ident()
        return connection

    def land(self) -> None:
        """Commit it.

        Raises:
            AnswerLostError: nobody knows whether it is committed.
        """
        self._link.commit()

    def end(self) -> None:
        """End it, if it is still there: nothing of it stays."""
        self._open = None
        self._link.rollback()

    @property
    def around(self) -> Connection | None:  # type: ignore[override]
        """The connection of the transaction that this thread is in; None: it is in none."""
        return self._open[0] if self._open and self._open[1] == threading.get_ident() else None

    def begin(self) -> Connection:
        """Return the transaction around, or a new one."""
        return self.around or self._link.begin()

    def commit(self) -> None:
        """Leave it to the transaction around, where there is one."""
        if self.around is None:
            self._link.commit()

    def rollback(self) -> None:
        """Leave it to the transaction around, where there is one: what raises ends it."""
        if self.around is None:
            self._link.rollback()

    def close(self) -> None:
        """Close the connection."""
        self._link.close()

    def lock_holders(self) -> Sequence[str]:
        """Ask for the connection of all."""
        return self._link.lock_holders()


class SharedTransaction:
    """Has the tables of several states and sinks change together: a reader sees all of a transaction, or none of it.

    Their locks are taken in the order of their names, so two leaders never wait for each other. Then each decides by
    its own token, as it would alone.
    """

    def __init__(self, tables: Sequence[FencedTable]) -> None:
        """Have ``tables``, all of one database and recovered, commit in one transaction from now on."""
        self.tables = tuple(sorted(tables, key=lambda table: table.place))
        self._first = self.tables[0]
        self._link = SharedLink(self._first.commit_link.standing_for([table.commit_link for table in self.tables[1:]]))
        for table in self.tables:
            table.commit_link = self._link

    @contextmanager
    def committing(self, tx: SinkTransaction) -> Iterator[None]:
        """Commit what the block changes in the tables, or nothing of it if it raises; durable after it.

        Args:
            tx: the last transaction of those that commit, for messages; of the leader.

        Raises:
            FencedError: a newer leader has been here.
            StoreBusyException: nothing is committed, and a replay may get through.
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

    def _lock(self, tx: SinkTransaction) -> None:
        connection = self._link.open()
        for table in self.tables:
            table.pending = None
            table.locked_header(connection, tx).fence.check_leader(tx, table.shown)

    def _land(self, tx: SinkTransaction) -> None:
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
        """Tell whether all is there; waits for the locks, so the connection that was lost has ended its transaction."""
        self._link.end()
        self._link.close()
        with self._link.transaction() as connection:
            found = [(table.pending, table.locked_header(connection, tx).fence) for table in self.tables]
        return all(pending is None or pending.token == fence.token for pending, fence in found)
