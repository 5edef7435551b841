"""A state in a table of a MySQL or MariaDB database, by PyMySQL, which is imported when it is first needed."""
# ruff: noqa: S608 - names are quoted, values bound

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from math import copysign, isfinite
from typing import Any

from attrs import Factory, field, frozen
from pyspark.sql import types as t

from coordinators.values.secret import Secret, as_secret
from trident_py.errors import ConfigError, StoreBusyException
from trident_py.interfaces.states import DRIVER
from trident_py.interfaces.verdict import Verdict
from trident_py.states.fenced import checked_ttl
from trident_py.states.sql.catalog import FoundTable
from trident_py.states.sql.columns import (
    RefusedValueError,
    as_day,
    as_float,
    as_integer,
    as_text,
    checked,
    exact_decimal,
    of_type,
)
from trident_py.states.sql.dialect import Connection, Dialect, ErrorTable, Leader, Link, Row
from trident_py.states.sql.factory import SQLState, checked_placement
from trident_py.states.sql.mysql_catalog import as_found, columns_of
from trident_py.states.sql.sessions import TAKEOVER_SECONDS, Session, SessionDatabase, code_of
from trident_py.states.sql.stored import StoredRows
from trident_py.states.sql.table import HEADERS, Headers, Table, placed

log = logging.getLogger(__name__)

_FIELD, _TABLE = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}"), re.compile(r"[a-z][a-z0-9_]{0,39}")
_TOO_LARGE = 1153
_BROKEN = frozenset({0, 1053, 1152, 1927, 2003, 2006, 2013, 2014, 2055, 4031})
_AGAIN = (
    *(1021, 1030, 1037, 1038, 1040, 1041, 1047, 1114, 1129, 1135, 1158, 1159, 1160, 1161, 1180, 1203, 1205, 1206),
    *(1094, 1213, 1226, 1317, 1613, 1614, 1792, 1836, 1969, 3024, 3169, 3572),
)
_BATCH = (
    *(1048, 1062, 1169, 1216, 1217, 1264, 1265, 1292, 1300, 1366, 1367, 1406, 1411, 1416, 1451, 1452, 1526, 1586, 1644),
    *(1690, 1748, 1761, 1762, 3140, 3141, 3819, 4025, 4078, _TOO_LARGE),
)
_NEVER = (
    *(-1, 1044, 1045, 1046, 1049, 1051, 1054, 1064, 1091, 1142, 1143, 1146, 1227, 1288, 1290, 1305, 1356, 1364, 1370),
    *(1419, 1471, 1665, 1698, 1820, 1862, 3118, 4151),
)
ERRORS = ErrorTable(
    verdicts={
        **dict.fromkeys((*_AGAIN, *_BROKEN), Verdict.COMES_AGAIN),
        **dict.fromkeys(_BATCH, Verdict.THIS_BATCH),
        **dict.fromkeys(_NEVER, Verdict.NEVER),
    },
    ways_out={
        **dict.fromkeys((1044, 1045, 1142, 1143, 1227), "grant the user all privileges on the database"),
        1049: "make the database first",
        1054: "restore the column, which the topology uses",
        1146: "restore the table, which the topology uses",
        1364: "give the column a default, or add a field for it",
        _TOO_LARGE: "raise max_allowed_packet of the server, or keep smaller values",
        **dict.fromkeys((1264, 1690), "give the field a wider type, as a value is beyond its field's type"),
        1290: "name the primary, as this server is read-only",
        1406: (
            "shorten the value, or widen the column; if the column is _key, group by something shorter, as a hash, "
            "since MySQL's index takes 768 characters"
        ),
        1665: "have the server log by row: binlog_format=ROW or MIXED",
        **dict.fromkeys(
            (1048, 1062, 1451, 1452, 3819, 4025), "correct the value before it gets here, or change the constraint"
        ),
    },
)
"""By number: https://mariadb.com/kb/en/mariadb-error-code-reference/; -1 is an error of the library itself."""

_SESSION = "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00'"
_LOCK = "trident {}".format
_ENGINE = "ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"


def _finite(value: Any) -> float:
    if not isfinite(number := as_float(value)):
        raise RefusedValueError("MySQL has neither NaN nor infinity")
    if number == 0 and copysign(1, number) < 0:
        raise RefusedValueError("MariaDB would store it as 0.0")
    return number


def _clock(value: datetime) -> datetime:  # without time zone it is UTC, as in what spouts emit
    return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value.replace(tzinfo=None)


_ORDERED = frozenset({"min", "max"})
_INTEGER = (_ORDERED | {"sum"}, as_integer, None, int)
_FLOAT = ("double", _ORDERED, _finite)  # sums in Python: where Spark says infinity, SQL says overflow
_TYPES: dict[type[t.DataType], Any] = {
    t.ByteType: ("tinyint", *_INTEGER),
    t.ShortType: ("smallint", *_INTEGER),
    t.IntegerType: ("int", *_INTEGER),
    t.LongType: ("bigint", *_INTEGER),
    **dict.fromkeys((t.FloatType, t.DoubleType), _FLOAT),
    t.BooleanType: ("boolean", _ORDERED, of_type(bool), bool),
    # Its collations that compare by code point take 'a' and 'a ' for equal: least and greatest in Python.
    t.StringType: ("longtext", frozenset(), as_text),
    t.BinaryType: ("longblob", frozenset(), of_type(bytes, bytearray), None, bytes),
    t.DateType: ("date", frozenset(), as_day),
    t.TimestampType: ("datetime(6)", frozenset(), _clock, lambda value: value.replace(tzinfo=UTC)),
    t.TimestampNTZType: ("datetime(6)", frozenset(), lambda value: value.replace(tzinfo=None)),
}


MYSQL = Dialect(
    database="MySQL",
    types=_TYPES,
    decimal=lambda kind: (
        f"decimal({kind.precision},{kind.scale})",
        _ORDERED | {"sum"},
        exact_decimal(kind.precision, kind.scale),
    ),
    json="longtext",
    checked_name=partial(checked, database="MySQL", what="field", pattern=_FIELD),
    checked_table=partial(checked, database="MySQL", what="table", pattern=_TABLE),
    quote="`",
    marked_key="PRIMARY KEY COMMENT '{0}'",
    as_found=as_found,
    key="varchar(768)",  # each ends with ], so no spaces at the end are lost
    name="varchar(64)",
    short_text="varchar(255)",
    long_text="longtext",
    engine=_ENGINE,
    index=(", INDEX {0} ({1})", ""),
    conflict="ON DUPLICATE KEY UPDATE",
    new="VALUES({0})",
    merges={
        None: "{new}",
        "sum": "coalesce({old} + {new}, {old}, {new})",
        "min": "coalesce(least({old}, {new}), {old}, {new})",
        "max": "coalesce(greatest({old}, {new}), {old}, {new})",
    },
    among="IN %s",
    listed=tuple,
    locks=("FOR UPDATE", "FOR UPDATE", ""),
    has_table="SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = %s",
    times=("ALTER TABLE {0} ADD COLUMN `_prev_time` bigint, ADD COLUMN `_time` bigint, ADD INDEX {1} (`_time`)",),
    swap=("RENAME TABLE {old} TO {aside}, {filled} TO {new}",),
    begins_again="START TRANSACTION",
    stages=True,
    longest_name=64,
)


@frozen
class MySQLDatabase(SessionDatabase):
    """The database that a URL names."""

    dialect = MYSQL
    errors = ERRORS
    broken = _BROKEN
    no_table = 1146
    schemes = ("mysql", "mariadb")
    waiting = "SET SESSION innodb_lock_wait_timeout = {0}, lock_wait_timeout = {0}"
    holders = (
        "SELECT DISTINCT p.id, p.user, p.host FROM sys.innodb_lock_waits w "
        "JOIN information_schema.processlist p ON p.id = w.blocking_pid WHERE w.waiting_pid = %s"
    )
    identified = "SHOW VARIABLES WHERE variable_name IN ('server_uuid', 'server_uid', 'hostname', 'port', 'datadir')"

    def library(self) -> Any:
        """Import PyMySQL; raises `ConfigError` if it is not installed."""
        try:
            import pymysql
        except ImportError as error:
            raise ConfigError(f"MySQL needs PyMySQL ({error}): pip install 'trident-py[mysql]'") from error
        return pymysql

    def connect(self) -> Session:
        """Make a connection and set it up; its facts include the greatest size of a statement."""
        at = self.address
        client = self.library().connect(
            host=at.host or "localhost",
            port=at.port or 3306,
            user=at.user or "root",
            password=at.password.reveal().encode(),  # a text would be sent in Latin-1
            database=at.database,
            **{"charset": "utf8mb4", "connect_timeout": 10, "autocommit": True, **at.options},
        )
        session = Session(client)
        session.execute(_SESSION)
        session.execute(
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
        )  # after a wait, the new data are visible
        return Session(client, session.execute("SELECT @@max_allowed_packet").fetchone())

    def mark(self, session: Session, owner: str) -> None:
        """Hold a lock of this name, by which the server knows its holder; end an older session of the same leader.

        Raises:
            StoreBusyException: another session still holds it.
        """
        for patience in (1, 10):
            if session.execute("SELECT GET_LOCK(%s, %s)", [_LOCK(owner), patience]).fetchone() == (1,):
                return
            _end_holder(session, owner)
        raise StoreBusyException(
            f"{self.shown}: an older connection of this leader has the lock {_LOCK(owner)!r} and can't be ended"
        )

    def schema(self, link: Link, where: str) -> str:
        """Return the name of the database."""
        with link.transaction() as connection:
            ((flush,),) = connection.execute("SELECT @@innodb_flush_log_at_trx_commit").fetchall()
        if flush != 1:
            log.warning(
                "%s: innodb_flush_log_at_trx_commit is %s: a crash may lose committed transactions", where, flush
            )
        return self.address.database

    @contextmanager
    def takeover(self, link: Link, schema: str, table: str, leader: Leader) -> Iterator[Connection]:
        """Exclude other takeovers by a lock of the session, because each change of a table commits by itself."""
        with link.transaction(TAKEOVER_SECONDS) as connection:
            with self._locked(connection, schema, HEADERS):
                Headers(MYSQL, schema).check_version(connection)
                connection.execute(Headers(MYSQL, schema).create)
            with self._locked(connection, schema, table):
                _end_older(connection, schema, table, leader)
                connection.execute("START TRANSACTION")
                yield connection
                connection.execute("COMMIT")

    @contextmanager
    def _locked(self, connection: Connection, schema: str, table: str) -> Iterator[None]:
        lock = _LOCK(sha256(f"{schema}.{table}".encode()).hexdigest()[:32])
        if connection.execute("SELECT GET_LOCK(%s, %s)", [lock, TAKEOVER_SECONDS]).fetchone() != (1,):
            raise StoreBusyException(f"table {table!r} of {self.shown}: another takeover is running")
        yield
        connection.execute("SELECT RELEASE_LOCK(%s)", [lock])

    def find_table(self, connection: Connection, schema: str, table: str, *, keys: bool = False) -> FoundTable:
        """Return the columns and unique keys."""
        try:
            return columns_of(connection, schema, table, placed(MYSQL, schema, table), keys=keys)
        except self.library().Error as error:
            if code_of(error) == self.no_table:
                return FoundTable(())
            raise

    def write(self, connection: Connection, statement: Callable[[int], str], rows: Sequence[Row]) -> None:
        """Send about a megabyte of rows with each statement."""
        session: Any = connection
        (packet,), cursor = session.facts, session.client.cursor()
        cursor.max_stmt_length = min(cursor.max_stmt_length, packet // 2)
        try:
            cursor.executemany(statement(1), rows)
        except self.library().Error as error:
            largest = max(sum(len(part) for part in row if isinstance(part, str | bytes)) for row in rows)
            if code_of(error) in _BROKEN and 4 * largest > packet:  # it hangs up before it says so
                raise self.library().OperationalError(_TOO_LARGE, f"a row has {largest} characters") from None
            raise

    def load(self, connection: Connection, table: str, columns: str, parts: Iterable[StoredRows], task: int) -> int:
        """Insert many rows with each statement."""
        query, loaded = f"INSERT INTO {table} ({columns}) VALUES ({MYSQL.marks(columns.count(',') + 1)})", 0
        for part in parts:
            rows = [(*row, text, task) for row, text in zip(part.rows(), part.texts(), strict=True)]
            self.write(connection, lambda _: query, rows)
            loaded += len(rows)
        return loaded


def _end_older(connection: Connection, schema: str, table: str, leader: Leader) -> None:
    query = f"SELECT owner FROM {placed(MYSQL, schema, HEADERS)} WHERE state = %s AND fence < %s AND owner <> %s"
    for (owner,) in connection.execute(query, [table, leader.epoch, leader.owner]).fetchall():
        _end_holder(connection, owner)


def _end_holder(connection: Connection, owner: str) -> None:
    """End the session marked with ``owner``, if there is one."""
    ((held_by,),) = connection.execute("SELECT IS_USED_LOCK(%s)", [_LOCK(owner)]).fetchall()
    if held_by is not None:
        connection.execute(f"KILL {held_by}")


@frozen
class MySQLState(SQLState):
    """Keeps values in ``table`` of the MySQL or MariaDB database that ``url`` names.

    The table is an ordinary one: ``SELECT word, count FROM counts`` returns the committed values at any time, from any
    client. Keys are compared byte by byte, with every collation of the server; timestamps are in UTC. Spark's tasks
    store the change of a batch in a table of the attempt; the driver merges it in one transaction with the commit
    token. Tables are made and dropped outside of it. `docs/how-to/databases.md` says more.

    Args:
        url: ``"mysql://user:password@host:3306/database"``; never printed. PyMySQL gets the parameters after ``?``.
        table: up to 40 lower-case letters, digits and underscores.
        ttl: how long a key stays without a write; see `docs/how-to/removing-keys.md`. None: forever.
        placement: where reducers and updaters change values of large batches: in the ``"driver"``, or in Spark's
            ``"tasks"``; see `docs/how-to/state-in-tasks.md`.

    Raises:
        ConfigError: PyMySQL is not installed.
        StateError: ``table`` cannot be a table's name, or ``url`` is not such a URL.
    """

    url: Secret = field(converter=as_secret)
    table: str = field(kw_only=True)
    ttl: timedelta | None = field(default=None, converter=checked_ttl, kw_only=True, repr=False, eq=False)
    placement: str = field(default=DRIVER, converter=checked_placement, kw_only=True, repr=False, eq=False)
    _schema: Table | None = field(default=None, kw_only=True, repr=False)
    name: str = field(init=False, repr=False, default=Factory(lambda self: self.table, takes_self=True))

    def __attrs_post_init__(self) -> None:
        self.database.check()
        MYSQL.checked_table(self.table)

    @property
    def database(self) -> MySQLDatabase:
        """The database of the URL."""
        return MySQLDatabase(self.url)
