"""Connections to PostgreSQL, all with the same settings, and the meaning of its errors for a topology.

A DSN is never shown: errors name host and database, and the password is removed from the messages of libpq.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, TypeAlias
from urllib.parse import quote

import psycopg
from attrs import evolve, field, frozen
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from coordinators.values.secret import HIDDEN, Secret
from trident_py.errors import FailedException, StateError, StoreBusyException
from trident_py.interfaces.verdict import Verdict
from trident_py.states.sql.dialect import AnswerLostError, Database, ErrorTable
from trident_py.states.sql.dialect import Link as AnyLink

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

LOCK_SECONDS = 10
"""How long a commit waits for a lock that another session holds."""

TAKEOVER_SECONDS = 60
"""How long a takeover waits for a transaction that it could not end."""

IDLE_SECONDS = 30
"""The limit for a pause within a transaction without user code: after it, the server ends the session as paused.

There is no limit if user code runs between two statements, because it may take any time: see `Link.begin`."""

_CONNECTING = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""Settings that detect a cut network; the parameters of the DSN take precedence."""

_SESSION = {
    "default_transaction_isolation": "read committed",  # after a wait for a lock, the new data are visible
    "lock_timeout": f"{LOCK_SECONDS}s",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s",
    # Checksums are made of rows as text, in the worker's session and in the driver's:
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "extra_float_digits": "1",
    "bytea_output": "hex",
}
_DURABLE = """
    SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')"""

_HOLDERS = """
    SELECT pid, usename, application_name, host(client_addr), state, state_change
    FROM pg_stat_activity WHERE pid = ANY(pg_blocking_pids(%s)) ORDER BY pid"""
_BACKEND = "SELECT pg_backend_pid()"
_UNPOOLED = (
    "name the server itself in the DSN, or let the pooler keep each client on its own connection "
    "(PgBouncer: pool_mode=session)"
)
_POOLED = "a pooler in between doesn't keep a session on one connection to the server, as its locks and settings need"

SHARED = "shared"
"""Used instead of the table in the name of a connection if several tables share the connection."""

NO_ANSWER, BY_CLIENT = "no answer", "by the client"
"""Used instead of an SQLSTATE: the first without a connection, the second if psycopg itself refuses a value."""

GONE = psycopg.errors.UndefinedTable.sqlstate or ""
"""The error of a missing staging table: a newer leader dropped it, or a crash of the server lost it."""

_AGAIN, _BATCH, _NEVER = Verdict.COMES_AGAIN, Verdict.THIS_BATCH, Verdict.NEVER
ERRORS = ErrorTable(
    verdicts={
        # By class, https://www.postgresql.org/docs/current/errcodes-appendix.html:
        **dict.fromkeys(("08", "40", "53", "57", "58"), _AGAIN),
        **dict.fromkeys(("21", "22", "23", "2F", "38", "39", "44", "54", "P0"), _BATCH),
        **dict.fromkeys(("0A", "0L", "0P", "25", "28", "2B", "3D", "3F", "42"), _NEVER),
        # By code: a lock that wasn't given, an object in use, a transaction that failed before, or was left idle.
        **dict.fromkeys(("55P03", "55006", "25P02", "25P03", "25P04"), _AGAIN),
        **dict.fromkeys(("57P04", "XX001", "XX002"), _NEVER),  # the database was dropped, or is damaged
        NO_ANSWER: _AGAIN,
        BY_CLIENT: _NEVER,
    },
    ways_out={
        "42501": "grant the role what it needs: CREATE and USAGE on the schema, and its own tables",
        "42P01": "restore the table, which the topology uses",
        "42703": "restore the column, which the topology uses",
        "42P10": "restore the primary key of the table, on its column _key",
        "22003": "give the field a wider type, as a value is beyond its field's type",
        "22021": "replace the character before it gets here: PostgreSQL can't hold it in a text, as NUL",
        "23": "correct the value before it gets here, or change the constraint",
        "54000": "group by something shorter, as a hash: a key is too long for PostgreSQL's index, of 2700 bytes",
        "57P04": "restore the database",
        "XX001": "restore the database from a backup",
        "25006": "name the primary, as this server is read-only, or add target_session_attrs=read-write to the DSN",
    },
)
"""By SQLSTATE."""


class PooledError(psycopg.NotSupportedError):
    """A pooler between the driver and the server sends the transactions of one session to several connections."""


@frozen
class Session:
    """A connection with its settings.

    Attributes:
        backend: the server's process of the connection.
        schema: the schema in which tables are found first; None: no schema of the search path exists.
    """

    connection: Connection
    backend: int
    schema: str | None


@frozen
class Target:
    """A database, with a name for errors that contains no secret.

    Attributes:
        application: the name by which the server knows the connections.
    """

    dsn: Secret
    application: str = "trident_py"
    shown: str = field(init=False)

    @shown.default
    def _shown(self) -> str:
        parts = self._parts()
        host = parts.get("host") or parts.get("hostaddr") or parts.get("service") or "localhost"
        return f"{host}/{parts.get('dbname') or parts.get('user') or ''}"

    def _parts(self) -> dict[str, Any]:
        try:
            return dict(conninfo_to_dict(self.dsn.reveal()))
        except psycopg.Error:  # its message may contain the password
            raise StateError(
                "the DSN is not one that libpq reads; give 'host=… dbname=… user=…' or 'postgresql://user@host/dbname'"
            ) from None

    def connect(self) -> Session:
        """Make a connection and set it up."""
        connection = self._connection()
        try:
            with connection.transaction():  # so that all of it happens to one of the server's processes
                connection.execute("RESET search_path")  # a pooler may leave us ours of an earlier session
                ((backend, schema),) = connection.execute(f"{_BACKEND}, current_schema()").fetchall()
                names = ", ".join(["set_config(%s, %s, false)"] * len(_SESSION))
                settings = [part for setting in _SESSION.items() for part in setting]
                connection.execute(f"SELECT {names}", settings)
                connection.execute(_DURABLE)
        except BaseException:
            connection.close()
            raise
        return Session(connection, backend, schema)

    def replication(self) -> Connection:
        """Return a connection by the replication protocol. It runs statements without bound values only."""
        return self._connection(replication="database")

    def check(self) -> None:
        """Check that the server accepts the user and gives each connection its own process.

        It changes no setting, because sessions that share a pooled connection would get it too.

        Raises:
            PooledError: connections share a process.
            psycopg.Error: there is no connection.
        """
        with self._connection() as one, self._connection() as other:
            # In this order also where a pooler goes round its connections, however many they are.
            first, second, again, last = (each.execute(_BACKEND).fetchone() for each in (one, other, other, one))
        if first == second or second != again or first != last:
            raise PooledError(_POOLED)

    def _connection(self, **more: str) -> Connection:
        ours = {"client_encoding": "utf8", "application_name": self.application, **more}
        return psycopg.connect(**{**_CONNECTING, **self._parts(), **ours}, autocommit=True)

    def redacted(self, text: object) -> str:
        """Return ``text`` in one line, without the password."""
        said = " ".join(str(text).split())
        parts = self._parts()
        for secret in filter(None, (parts.get("password"), parts.get("sslpassword"))):
            said = said.replace(secret, HIDDEN).replace(quote(secret, safe=""), HIDDEN)
        return said


@contextmanager
def explained(where: str, target: Target, passing: str = "", way_out: str = "") -> Iterator[None]:
    """Convert exceptions of psycopg into errors that name ``where``, the cause and the fix.

    Args:
        where: names the topology, the attempt and the table.
        target: the database, whose password is removed from the errors.
        passing: the SQLSTATE of an error that is temporary here, but not elsewhere.
        way_out: the fix to name, instead of the one known for the code.

    Raises:
        StoreBusyException: a replay may succeed: no connection, a lock, a crash, a full disk.
        FailedException: the database refused a value.
        StateError: any other error.
    """
    try:
        yield
    except PooledError as error:
        raise StateError(f"{where}: {target.redacted(error)}; {_UNPOOLED}") from None
    except psycopg.Error as error:
        said = target.redacted(error)
        if passing and error.sqlstate == passing:
            raise StoreBusyException(f"{where}: {said}") from None
        raise ERRORS.error(where, said, codes_of(error), way_out) from None
    except AnswerLostError as error:
        raise StoreBusyException(f"{where}: the answer to COMMIT was lost: {error}") from None
    except UnicodeEncodeError as error:
        raise StateError(f"{where}: {error.object!r} is not Unicode text") from error


@contextmanager
def starting(where: str, target: Target) -> Iterator[None]:
    """Convert exceptions as `explained` does, at a start: nothing is retried, so temporary errors name what to check.

    Raises:
        StateError: for every exception of psycopg.
    """
    try:
        with explained(where, target):
            yield
    except FailedException as error:
        raise StateError(f"{error}; check the server, the DSN and the role, and start again") from error


def codes_of(error: psycopg.Error) -> tuple[str, ...]:
    """Return the SQLSTATE of an error, and its class; without one, a code of this module."""
    state = error.sqlstate
    if state is not None:
        return state, state[:2]
    if isinstance(error, psycopg.DataError):
        return ("22021", "22")  # a NUL, which psycopg refuses itself
    is_away = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return (NO_ANSWER if is_away else BY_CLIENT,)


class Link(AnyLink):
    """A connection that checks, at each transaction, that it still reaches the process with the session's settings.

    Without the settings, a commit might not be durable and a wait might not end.

    Attributes:
        target: the database; it may be replaced by one with the same DSN, which uses the same connection.
        session: the open session; None: not connected.
    """

    session: Session | None

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.target = target
        self.session = None

    def begin_ours(self, lock_secs: float | None, *, durable: bool) -> Any:
        """Begin a transaction that waits ``lock_secs`` seconds for locks."""
        settings = [f"SET LOCAL lock_timeout = {int((LOCK_SECONDS if lock_secs is None else lock_secs) * 1000)}"]
        return self._begun(*settings, *([] if durable else ["SET LOCAL synchronous_commit = off"]))

    def begin(self) -> Any:
        """Return the connection, in a new transaction; abort a transaction that was left open.

        User code may work in it without a time limit. If its process is paused, it holds its locks until it continues,
        or until a newer leader ends its connection.
        """
        return self._begun("SET LOCAL idle_in_transaction_session_timeout = 0")

    def _begun(self, *settings: str) -> Connection:
        self.rollback()
        for last in (False, True):
            try:
                session = self._connected()
                cursor = session.connection.execute("; ".join(["BEGIN", *settings, _BACKEND]).encode(), prepare=False)
            except psycopg.Error:
                # It broke while it was idle; if not, the new one fails, too.
                self.close()
                if last:
                    raise
                continue
            while cursor.nextset():
                pass  # the last one answers
            if cursor.fetchone() != (session.backend,):
                self.close()
                raise PooledError(_POOLED)
            return session.connection
        raise AssertionError("unreachable")

    def commit(self) -> None:
        """Commit, and check that the server's answer is COMMIT."""
        connection = self.session.connection if self.session else None
        if connection is None:
            raise psycopg.OperationalError("the connection is closed")
        try:
            answer = connection.execute("COMMIT", prepare=False).statusmessage  # as text, for proxies and logs
        except psycopg.Error as error:
            if not connection.closed:
                raise  # that was the server's answer: nothing is committed
            raise AnswerLostError(self.target.redacted(error)) from None
        if answer != "COMMIT":  # the server's answer if a statement had failed before
            raise psycopg.errors.InFailedSqlTransaction(f"nothing was committed, the server said {answer}")

    def rollback(self) -> None:
        """Roll back the open transaction, if there is one; close the connection if it doesn't answer."""
        connection = self.session.connection if self.session else None
        if connection is None or connection.info.transaction_status is TransactionStatus.IDLE:
            return
        try:
            connection.execute("ROLLBACK")
        except psycopg.Error:
            self.close()

    def close(self) -> None:
        """Close the connection; the server aborts its open transaction."""
        session, self.session = self.session, None
        if session is not None:
            with suppress(psycopg.Error):
                session.connection.close()

    def standing_for(self, others: Sequence[AnyLink]) -> Link:
        """Return a new connection that the next leader of each of the topology's tables finds."""
        super().standing_for([self, *others])
        program, topology, _, epoch = self.target.application.split()
        return Link(evolve(self.target, application=f"{program} {topology} {SHARED} {epoch}"))

    def lock_holders(self) -> Sequence[str]:
        """Return the lock holders, queried on another connection."""
        session = self.session
        if session is None:
            return ()
        try:
            asking = self.target.connect()
            with closing(asking.connection):
                found = asking.connection.execute(_HOLDERS, [session.backend]).fetchall()
        except psycopg.Error as error:
            return [f"who holds its lock, {self.target.shown} doesn't say: {self.target.redacted(error)}"]
        return [
            f"process {pid} of {self.target.shown} has it, {user} from {host or 'the same machine'}"
            f"{f' by {program}' if program else ''}, {state} since {since:%Y-%m-%d %H:%M:%S} UTC"
            for pid, user, program, host, state, since in found
        ]

    def serve(self, database: Database) -> None:
        """Use this connection for ``database`` from now on; its next use sets the application name of ``database``."""
        self.target = getattr(database, "target", self.target)

    def _connected(self) -> Session:
        if self.session is not None and self.session.connection.closed:
            self.close()
        if self.session is None:
            self.session = self.target.connect()
            return self.session
        connection = self.session.connection
        if connection.info.parameter_status("application_name") != self.target.application:
            connection.execute("SELECT set_config('application_name', %s, false)", [self.target.application])
        return self.session
