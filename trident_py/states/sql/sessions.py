"""Databases whose Python library follows PEP 249: sessions, connections that come back, and what errors mean."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, ClassVar

from attrs import evolve, frozen

from coordinators.values.secret import Secret
from trident_py.errors import FailedException, StateError, StoreBusyException
from trident_py.states.sql.dialect import AnswerLostError, Database, Leader, Link
from trident_py.states.sql.urls import DatabaseUrl
from trident_py.states.sql.verdicts import ErrorTable

LOCK_SECONDS = 10
"""How long a commit waits for a lock that somebody else holds."""

TAKEOVER_SECONDS = 60
"""How long a takeover waits for a transaction that it could not end."""


@frozen
class Session:
    """A connection that is set up."""

    client: Any
    facts: tuple[Any, ...] = ()

    def execute(self, query: str, values: Any = ()) -> Any:
        """Run one statement; its cursor has the rows."""
        cursor = self.client.cursor()
        cursor.execute(query, values or None)
        return cursor


class SessionLink(Link):
    """A connection that is made again after it broke; ``owners`` are what a later leader finds it by."""

    def __init__(self, database: SessionDatabase, *owners: str) -> None:
        super().__init__()
        self._database, self.owners = database, owners
        self.session: Session | None = None

    def standing_for(self, others: Sequence[Link]) -> SessionLink:
        """Return a new one that any of their owners is the name of."""
        super().standing_for([self, *others])
        links = [self, *(other for other in others if isinstance(other, SessionLink))]
        return SessionLink(self._database, *(owner for link in links for owner in link.owners))

    def begin_ours(self, lock_secs: float | None, *, durable: bool) -> Session:
        """Begin a transaction that waits for locks so many seconds, one at least."""
        return self._begun(LOCK_SECONDS if lock_secs is None else max(1, int(lock_secs)))

    def begin(self) -> Session:
        """Begin a transaction."""
        return self._begun(LOCK_SECONDS)

    def _begun(self, lock_secs: int) -> Session:
        self.rollback()
        settings = self._database.waiting.format(lock_secs)
        try:
            session = self.session or self._connected()
            session.execute(settings)
        except self._database.library().Error:  # it broke while nobody used it, or else so will the new one
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
        """Commit the transaction."""
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
        """Roll the transaction back; a connection that doesn't answer is closed."""
        try:
            if self.session is not None:
                self.session.client.rollback()
        except self._database.library().Error:
            self.close()

    def close(self) -> None:
        """Close it; the server gives up what it had begun."""
        session, self.session = self.session, None
        if session is not None:
            with suppress(self._database.library().Error):
                session.client.close()

    def lock_holders(self) -> Sequence[str]:
        """Ask by a connection of its own; the server may not let its user ask."""
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
    """A database on a server that is reached by such a library.

    Attributes:
        url: where it is.
        owner: what connections for commits are marked with; empty until a leader has it.
    """

    errors: ClassVar[ErrorTable]
    broken: ClassVar[frozenset[int]]
    """The numbers of errors after which there is no connection any more."""

    no_table: ClassVar[int]
    """That of a table that is gone."""

    schemes: ClassVar[tuple[str, ...]]
    """What its URLs begin with."""

    waiting: ClassVar[str]
    """The statement that says how long to wait for locks, in seconds."""

    holders: ClassVar[str] = ""
    """The query for number, user and host of those that a connection waits for, which is given by its number; empty:
    there is none."""

    identified: ClassVar[str]
    """The statement that tells a server from all others."""

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
        """Have others find this session by ``owner``, to end it; one that had the name before has just been closed."""

    def check(self) -> None:
        """See that the library is installed, and that the URL can be read."""
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
        """Ask for the server, the database and the user."""
        with link.transaction() as connection:
            server = connection.execute(self.identified).fetchall()
            return *server, connection.execute("SELECT database(), current_user()").fetchone()

    @contextmanager
    def explained(self, where: str, *, staged: bool = False, way_out: str = "") -> Iterator[None]:
        """Turn what the library raises into our errors."""
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
        """Turn what the library raises at a start into our errors."""
        try:
            with self.explained(where):
                yield
        except FailedException as error:
            raise StateError(f"{error}; see to the server, the URL and the user, and start again") from error

    def ensure_usable(self) -> None:
        """Return if the server lets us in."""
        self.connect().client.close()

    def link(self) -> SessionLink:
        """Return a connection that a later leader can end."""
        return SessionLink(self, *filter(None, [self.owner]))

    def second_link(self) -> SessionLink:
        """Return one without a mark: the server would wait ten seconds for that of the first."""
        return self.beside()

    def beside(self) -> SessionLink:
        """Return a connection that nobody needs to end."""
        return SessionLink(self)

    def led_by(self, leader: Leader, table: str) -> SessionDatabase:
        """Return the same database, with ``owner`` on its connections."""
        return evolve(self, owner=leader.owner)


def code_of(error: Any) -> int:
    """Return the number that a server gave its error; -1: none."""
    return error.args[0] if error.args and isinstance(error.args[0], int) else -1
