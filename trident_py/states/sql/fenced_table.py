"""A table under a fence: its writer and its last commit are stored in the same transactions as its rows."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from uuid import uuid4

from attrs import evolve

from coordinators.values.errors import located, our_bug
from trident_py.errors import StateError, StoreBusyException
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey
from trident_py.states.fenced import Fence, StateHeader
from trident_py.states.sql.columns import naming_unfit
from trident_py.states.sql.dialect import AnswerLostError, Connection, Database, Leader, Link
from trident_py.states.sql.table import Headers

log = logging.getLogger(__name__)


class TableSink(ABC):
    """A sink that writes to a table under a fence.

    Attributes:
        database: the table's database.
        table: the table; None: it was not recovered.
    """

    database: Database
    table: FencedTable | None


class FencedTable:
    """A table of a database, with a row of ``_trident`` that holds the fence and the last token.

    Attributes:
        identity: the server's identity of the database; None: it was not queried yet.
        commit_link: the connection for commits.
        known: the fence, as this leader last saw it.
        pending: the fence after the commit of the open transaction; None: it has changed nothing.
    """

    around_refusals: Callable[[], AbstractContextManager[None]] = staticmethod(nullcontext)
    """The context that converts the error of a refused value into another one."""

    def __init__(self, database: Database, table: str) -> None:
        self._database = database
        self._table_name = table
        self._name = f"table {table!r} of {database.shown}"
        self._topology = ""
        self._owner = uuid4().hex
        self.identity: object | None = None
        self.commit_link: Link = database.link()
        self._others: Link = database.beside()
        self._headers = Headers(database.dialect, "")
        self.known: Fence | None = None
        self.pending: Fence | None = None

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        """Take over for a new leader: make missing tables, and refuse older epochs from now on."""
        self.close()
        leader = Leader(topology, epoch, self._owner)
        self._connect(leader, self._table_name)
        where = f"topology {topology.name!r}: {self._name}"
        with located(topology=topology.name), self._database.starting(where):
            schema = self._database.schema(self.commit_link, where)
            self._headers = evolve(self._headers, schema=schema)
            claimed = self._claimed_name(leader)
            with self._database.takeover(self.commit_link, schema, claimed, leader) as connection:
                fence = self._take_over(connection, topology, epoch)
            self.identity = self._database.dialect.database, self._database.identity(self.commit_link)
        self._topology, self.known = topology.name, fence
        return fence.token

    def _connect(self, leader: Leader, table: str) -> None:
        """Close the connections, and take others that later leaders of ``table`` can recognise."""
        for link in (self.commit_link, self._others):
            with link.lock:
                link.close()
        self._database = self._database.led_by(leader, table)
        self.commit_link, self._others = self._database.link(), self._database.beside()

    def _claimed_name(self, leader: Leader) -> str:
        """Return the name of the table with the header that ``leader`` takes over."""
        return self._table_name

    @property
    def shown(self) -> str:
        """The table's name in errors."""
        return self._name

    @property
    def token(self) -> CommitToken | None:
        """The last commit, as this leader last saw it."""
        return self.known.token if self.known else None

    def lock_holders(self) -> Sequence[str]:
        """Return the holders of the locks that its commit waits for; see `Link.lock_holders`."""
        return self.commit_link.lock_holders()

    @property
    def place(self) -> tuple[str, str]:
        """Its schema and name."""
        return self._headers.schema, self._table_name

    def landed(self) -> None:
        """Record the pending fence as committed, because the transaction is durable now."""
        if self.pending is not None:
            self.known, self.pending = self.pending, None

    def clean(self) -> None:
        """Drop data that commits have left over, outside of commits; a plain table has none."""

    def _take_over(self, connection: Connection, topology: TopologyKey, epoch: int) -> Fence:
        name = self._table_name
        found = self._found_header(connection, name)
        return self._claim(connection, Fence(topology, epoch), found, exists=self._exists(connection, name)).fence

    def _found_header(self, connection: Connection, name: str) -> StateHeader | None:
        """Return the header of the table ``name``, under the lock of a takeover; None: it has none."""
        lock, _, _ = self._headers.dialect.locks
        row = connection.execute(self._headers.read(lock), [name]).fetchone()
        return StateHeader.of(row) if row else None

    def _exists(self, connection: Connection, name: str) -> bool:
        """Return whether the schema has a table of this name."""
        headers = self._headers
        return connection.execute(headers.dialect.has_table, [headers.schema, name]).fetchone() is not None

    @abstractmethod
    def _claim(self, connection: Connection, fence: Fence, found: StateHeader | None, *, exists: bool) -> StateHeader:
        """Write the header that is valid from now on, and make the missing tables.

        Args:
            connection: in the takeover's transaction.
            fence: the fence that a first leader would write.
            found: the stored header; None: no state has written one.
            exists: whether the table exists.
        """

    def close(self) -> None:
        """Close the connections."""
        self._topology = ""
        for link in (self.commit_link, self._others):
            with link.lock:
                link.close()

    def _commit(self, tx: SinkTransaction) -> None:
        """Commit the open transaction, or leave that to the enclosing transaction."""
        if tx.attempt.is_trial and self.commit_link.around is None:
            raise AssertionError(our_bug(f"{tx.attempt} would be committed"))
        try:
            self.commit_link.commit()
        except AnswerLostError as error:
            log.warning("%s: the answer to COMMIT was lost (%s); reading back", self._where(tx), error)
            if not self._is_committed(tx):
                raise StoreBusyException(f"{self._where(tx)}: the connection was lost, nothing was committed") from None
        if self.commit_link.around is None:
            self.landed()

    def _is_committed(self, tx: SinkTransaction) -> bool:
        """Return whether the token is stored; waits for the lock, so the lost connection has ended its transaction."""
        self.commit_link.close()
        with self.commit_link.transaction() as connection:
            return self.locked_header(connection, tx).fence.token == tx.token

    def locked_header(self, connection: Connection, tx: SinkTransaction) -> StateHeader:
        """Read the header under the lock of a commit."""
        _, lock, _ = self._headers.dialect.locks
        return self._header(connection, lock, self._where(tx))

    def _header(self, connection: Connection, lock: str, where: str) -> StateHeader:
        """Return the header, and check that it contains everything that this leader has committed."""
        known = self.known  # before it is read: a commit may end meanwhile
        row = connection.execute(self._headers.read(lock), [self._table_name]).fetchone()
        if row is None:
            raise StateError(f"{where} has lost its row in _trident; to fix this: restore the database")
        header = StateHeader.of(row)
        if known is not None:
            header.fence.check_kept(known, where)
        return header

    def _check_recovered(self) -> None:
        if not self._topology:
            raise StateError(f"{self._name} is not open: it was not recovered, or is closed")

    def _where(self, tx: SinkTransaction) -> str:
        return f"topology {self._topology!r}, attempt {tx.attempt}: {self._name}"

    @contextmanager
    def explained(self, tx: SinkTransaction) -> Iterator[None]:
        """Convert exceptions of the database's library into our errors, which name topology and attempt."""
        where = self._where(tx)
        with (
            located(topology=self._topology, attempt=tx.attempt),
            self.around_refusals(),
            self._database.explained(where),
            naming_unfit(where),
        ):
            yield
