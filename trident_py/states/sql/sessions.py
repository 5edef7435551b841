"""Databases with a Python library that follows PEP 249: sessions, connections, and the meaning of errors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, ClassVar

from attrs import evolve, frozen

from coordinators.values.secret import Secret
from trident_py.errors import FailedException, StateError, StoreBusyException
from trident_py.states.sql.dialect import AnswerLostError, Database, ErrorTable, Leader, Link
from trident_py.states.sql.urls import DatabaseUrl

LOCK_SECONDS = 10
"""How long a commit waits for a lock that another session holds."""

TAKEOVER_SECONDS = 60
"""How long a takeover waits for a transaction that it could not end."""


@frozen
class Session:
    """A connection with its settings."""

    client: Any
    facts: tuple[Any, ...] = ()

    def execute(self, query: str, values: Any = ()) -> Any:
        """Run one statement and return its cursor, which has the rows."""
        cursor = self.client.cursor()
        cursor.execute(query, values or None)
        return cursor


class SessionLink(Link):
    """A connection that is made again after it broke; ``owners`` are the names by which a later leader finds it."""

    def __init__(self, database: SessionDatabase, *owners: str) -> None:
        super().__init__()
        self._database, self.owners = database, owners
        self.session: Session | None = None

    def standing_for(self, others: Sequence[Link]) -> SessionLink:
        """Return a new connection that later leaders find by the owner of this one or of any of ``others``."""
        super().standing_for([self, *others])
        links = [self, *(other for other in others if isinstance(other, SessionLink))]
        return SessionLink(self._database, *(owner for link in links for owner in link.owners))

    def begin_ours(self, lock_secs: float | None, *, durable: bool) -> Session:
        """Begin a transaction of our own, which waits ``lock_secs`` whole seconds for locks, at least one.

        Args:
            lock_secs: None: as long as a transaction of the user waits, `LOCK_SECONDS`.
            durable: has no effect here: these databases make every commit durable.
        """
        return self._begun(LOCK_SECONDS if lock_secs is None else max(1, int(lock_secs)))

    def begin(self) -> Session:
        return self._begun(LOCK_SECONDS)

    def _begun(self, lock_secs: int) -> Session:
        self.rollback()
        settings = self._database.waiting.format(lock_secs)
        try:
            session = self.session or self._connected()
            session.execute(settings)
        except self._database.library().Error:  # it broke while idle; if not, the new one fails, too
            self.close()
            session = self._connected()
            session.execute(settings)
        session.execute("START TRANSACTION")
        return session

    def _connected(self) -> Session:
        session = self._database.connect()
        try:
            for owner in self.owners:
                self._database.mark(session, owner)
        except BaseException:
            session.client.close()
            raise
        self.session = session
        return session

    def commit(self) -> None:
        if self.session is None:
            raise AnswerLostError("the connection is closed")
        try:
            self.session.client.commit()
        except self._database.library().Error as error:
            if code_of(error) not in self._database.broken:
                raise
            self.close()
            raise AnswerLostError(str(error)) from None

    def rollback(self) -> None:
        """Roll the transaction back; close the connection if it doesn't answer."""
        try:
            if self.session is not None:
                self.session.client.rollback()
        except self._database.library().Error:
            self.close()

    def close(self) -> None:
        session, self.session = self.session, None
        if session is not None:
            with suppress(self._database.library().Error):
                session.client.close()

    def lock_holders(self) -> Sequence[str]:
        """Return the holders, queried on another connection; the user may lack the right to query them."""
        session, database = self.session, self._database
        if session is None or not database.holders:
            return ()
        try:
            asking = database.connect()
            with closing(asking.client):
                found = asking.execute(database.holders, (session.client.thread_id(),)).fetchall()
        except database.library().Error as error:
            return [f"who holds its lock, {database.shown} doesn't say: {error}"]
        return [f"connection {number} of {database.shown} has it, {user} from {host}" for number, user, host in found]


@frozen
class SessionDatabase(Database):
    """A database on a server, with a library that follows PEP 249.

    Attributes:
        url: the address of the database.
        owner: the name of connections for commits; empty until a leader has taken over.
    """

    errors: ClassVar[ErrorTable]
    broken: ClassVar[frozenset[int]]
    """The numbers of errors after which the connection is closed."""

    no_table: ClassVar[int]
    """The number of the error for a missing table."""

    schemes: ClassVar[tuple[str, ...]]
    """The schemes of its URLs."""

    waiting: ClassVar[str]
    """The statement that sets how long to wait for locks, in seconds."""

    holders: ClassVar[str] = ""
    """The query for number, user and host of the connections that block a connection, which is given by its number.
    Empty: there is no such query."""

    identified: ClassVar[str]
    """The statement whose result differs for each server."""

    url: Secret
    owner: str = ""

    @abstractmethod
    def library(self) -> Any:
        """Return the library's module."""

    @abstractmethod
    def connect(self) -> Session:
        """Make a connection and set it up."""

    @abstractmethod
    def mark(self, session: Session, owner: str) -> None:
        """Mark this session with ``owner``, by which others can find and end it; an earlier one was just closed."""

    def check(self) -> None:
        """Check that the library is installed, and that the URL can be read."""
        self.library()
        _ = self.address

    @property
    def address(self) -> DatabaseUrl:
        """The parts of the URL."""
        return DatabaseUrl.of(self.url, self.schemes)

    @property
    def shown(self) -> str:
        """Host and database."""
        return self.address.shown

    @property
    def server(self) -> object:
        """The URL."""
        return self.url

    def identity(self, link: Link) -> object:
        """Return the identity of the server, the database and the user."""
        with link.transaction() as connection:
            server = connection.execute(self.identified).fetchall()
            return *server, connection.execute("SELECT database(), current_user()").fetchone()

    @contextmanager
    def explained(self, where: str, *, staged: bool = False, way_out: str = "") -> Iterator[None]:
        try:
            yield
        except self.library().Error as error:
            code, said = code_of(error), " ".join(map(str, error.args[1:])) or str(error)
            if staged and code == self.no_table:
                raise StoreBusyException(f"{where}: {said}") from None
            raise self.errors.error(where, said, [code], way_out) from None
        except AnswerLostError as error:
            raise StoreBusyException(f"{where}: the answer to COMMIT was lost: {error}") from None
        except UnicodeEncodeError as error:
            raise StateError(f"{where}: {error.object!r} is not Unicode text") from None

    @contextmanager
    def starting(self, where: str) -> Iterator[None]:
        try:
            with self.explained(where):
                yield
        except FailedException as error:
            raise StateError(f"{error}; check the server, the URL and the user, and start again") from error

    def ensure_usable(self) -> None:
        """Check that the server accepts the user."""
        self.connect().client.close()

    def link(self) -> SessionLink:
        """Return a connection that a later leader can end."""
        return SessionLink(self, *filter(None, [self.owner]))

    def second_link(self) -> SessionLink:
        """Return a connection without a mark: the server would wait ten seconds for the first one's mark."""
        return self.beside()

    def beside(self) -> SessionLink:
        """Return a connection without a mark, because no leader needs to end it."""
        return SessionLink(self)

    def led_by(self, leader: Leader, table: str) -> SessionDatabase:
        """Return the same database, with ``owner`` on its connections."""
        return evolve(self, owner=leader.owner)


def code_of(error: Any) -> int:
    """Return the number that a server gave its error; -1 if it gave none."""
    return error.args[0] if error.args and isinstance(error.args[0], int) else -1
