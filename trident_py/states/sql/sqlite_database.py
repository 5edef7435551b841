"""SQLite: the form of Spark's values in a table, the SQL of it, its catalog, and its connections to a file.

Each value is stored so that any client can read it, that it sorts as in Spark, and that it is read back unchanged.
Dates and timestamps are ISO text of fixed width (timestamps in UTC). Decimals are text with all their digits. NaN is
'NaN', because SQLite itself would make it NULL.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache, partial
from itertools import chain
from pathlib import Path
from types import NoneType
from typing import Any

from attrs import frozen
from pyspark.sql import types as t

from trident_py.errors import FailedException, StateError, StoreBusyException
from trident_py.interfaces.verdict import Verdict
from trident_py.states.sql.catalog import Family, FoundColumn, FoundTable
from trident_py.states.sql.columns import (
    Convert,
    TypedColumn,
    as_day,
    as_float,
    as_integer,
    as_text,
    exact_decimal,
    of_type,
)
from trident_py.states.sql.dialect import Connection, Database, Dialect, ErrorTable, Leader, Link, Row
from trident_py.states.sql.limits import Limits
from trident_py.states.sql.pairs import refusal
from trident_py.states.sql.table import Headers

WRITE_LOCK = 120
"""The byte of the wal-index that stands for the write lock."""

BY_CLIENT = 0
"""The code of errors that Python's module raises itself."""

_PRIMARY = 0xFF  # the low byte of an extended error code
_WRITABLE = "make the file and its directory writable"
ERRORS = ErrorTable(
    verdicts={
        **dict.fromkeys(
            (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_NOMEM),
            Verdict.COMES_AGAIN,
        ),
        sqlite3.SQLITE_PROTOCOL: Verdict.COMES_AGAIN,
        sqlite3.SQLITE_SCHEMA: Verdict.NEVER,  # a statement that can't be compiled with a new schema
        **dict.fromkeys(
            (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_RANGE),
            Verdict.THIS_BATCH,
        ),
        **dict.fromkeys(
            (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN),
            Verdict.NEVER,
        ),
        **dict.fromkeys(
            (sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR), Verdict.NEVER
        ),
        **dict.fromkeys((sqlite3.SQLITE_ERROR, sqlite3.SQLITE_NOLFS, sqlite3.SQLITE_MISUSE), Verdict.NEVER),
        BY_CLIENT: Verdict.NEVER,
    },
    ways_out={
        sqlite3.SQLITE_NOTADB: "give another path, or move the file away, which is not a SQLite database",
        sqlite3.SQLITE_CORRUPT: "restore the file from a backup, as it is damaged, or `trident reset` the topology",
        sqlite3.SQLITE_READONLY: _WRITABLE,
        sqlite3.SQLITE_CANTOPEN: _WRITABLE,
        sqlite3.SQLITE_PERM: _WRITABLE,
        sqlite3.SQLITE_FULL: "free some space and start again; nothing committed is lost",
        sqlite3.SQLITE_IOERR: "see to the disk and start again",
        sqlite3.SQLITE_CONSTRAINT: "correct the value before it gets here, or change the constraint",
    },
)
"""By primary result code: https://www.sqlite.org/rescode.html."""


def writers_of(path: Path) -> list[tuple[int, str]]:
    """Return the processes, with their programs, that hold the write lock of a database in WAL mode; needs Linux.

    The lock is on a byte of the ``-shm`` file: https://www.sqlite.org/walformat.html#wal_index_locking.
    """
    try:
        shared = os.stat(f"{path}-shm")
        lines = Path("/proc/locks").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    file = f"{os.major(shared.st_dev):02x}:{os.minor(shared.st_dev):02x}:{shared.st_ino}"
    pids = {int(pid) for pid, of, first, last in _written(lines) if of == file and _has(first, last)}
    return [(pid, _program(pid)) for pid in sorted(pids)]


def _written(lines: list[str]) -> Iterator[tuple[str, str, str, str]]:
    """Yield process, file, first and last byte of each write lock that is held, from lines of ``/proc/locks``."""
    for line in lines:
        match line.split():
            case [_, "POSIX" | "OFDLCK", _, "WRITE", pid, file, first, last]:  # one that is waited for has an arrow
                yield pid, file, first, last


def _has(first: str, last: str) -> bool:
    return int(first) <= WRITE_LOCK and (last == "EOF" or int(last) >= WRITE_LOCK)


def _program(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    return ""


def ensure_usable(path: Path, where: str) -> None:
    """Check that there is a writable database at ``path``, or that one can be made; change nothing.

    Raises:
        StateError: neither is the case.
    """
    if not path.parent.is_dir():
        raise StateError(f"{where}: there is no directory {path.parent}; to fix this: make it")
    unwritable = [str(place) for place in (path.parent, path) if place.exists() and not os.access(place, os.W_OK)]
    if unwritable:
        raise StateError(f"{where}: {' and '.join(unwritable)} can't be written; to fix this: {_WRITABLE}")
    if path.exists():
        # A lock of another process is temporary.
        with suppress(StoreBusyException), explained(where), _existing(path) as connection:
            connection.execute("PRAGMA schema_version")


def _existing(path: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True))


@contextmanager
def explained(where: str, way_out: str = "") -> Iterator[None]:
    """Convert exceptions of SQLite into errors that name ``where``, the cause and the fix.

    Args:
        where: names the topology, the attempt and the table.
        way_out: the fix to name, instead of the one known for the code.

    Raises:
        StoreBusyException: another process holds the lock; the attempt may be replayed.
        FailedException: the database refused a value.
        StateError: any other error.
    """
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", BY_CLIENT) & _PRIMARY
        is_locked = code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
        said = f"another process keeps it locked: {error}" if is_locked else str(error)
        raise ERRORS.error(where, said, [code], way_out) from error
    except OverflowError as error:
        said = "a value is beyond 64 bits, where SQLite's integers end"
        raise ERRORS.error(where, said, [sqlite3.SQLITE_CONSTRAINT], way_out) from error
    except UnicodeEncodeError as error:
        raise StateError(f"{where}: {error.object!r} is not Unicode text") from error


_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_ORDERED = frozenset({"min", "max"})
_CHECKS = {
    "INTEGER": "typeof({0}) IN ('integer', 'null')",  # a sum beyond 64 bits would become a REAL
    "": "typeof({0}) IN ('real', 'null') OR {0} = 'NaN'",
    "TEXT": "typeof({0}) IN ('text', 'null')",
    "BLOB": "typeof({0}) IN ('blob', 'null')",
}
BUSY_SECONDS = 10.0
"""How long a commit waits for another process that writes to the same database."""

_CACHE_BYTES = 32 * 1024 * 1024
_STATEMENT_ROWS = (1_024, 128, 16, 1)
"""The numbers of rows of one statement. This is a third faster than one by one. Also, each statement releases Python's
lock once, and waits 5 ms for it if another thread is busy. One by one, 43 000 keys took minutes. A change comes 4 096
rows at a time, in four statements."""

_BOUND_MAX = 32_766
"""SQLite's limit of values in one statement."""


def check_name(name: str, what: str) -> str:
    """Return ``name``, if it is a valid name of a table or column.

    Raises:
        StateError: it has other characters, is too long, or is reserved.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.lower().startswith("sqlite_"):
        raise StateError(
            f"{what} {name!r} cannot be a name in SQLite: use up to 63 ASCII letters, digits and underscores, a letter "
            f"first, and not sqlite_…"
        )
    return name


def _real(value: Any) -> float | str:
    number = as_float(value)
    return "NaN" if number != number else number


def _day_text(value: date) -> str:
    return as_day(value).isoformat()


def _utc_text(value: datetime) -> str:
    # A datetime without time zone is UTC, as in what spouts emit.
    utc = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    return _text(utc) + "Z"


def _text(value: datetime) -> str:
    return value.replace(tzinfo=None).isoformat(timespec="microseconds")


def _decimal_text(precision: int, scale: int) -> Convert:
    exact = exact_decimal(precision, scale)
    return lambda value: format(exact(value), "f")


def _column(storage: str, merges: frozenset[str], *converts: Any, plain: type = NoneType) -> tuple[Any, ...]:
    to_sql, from_sql = converts
    return storage, merges, to_sql, from_sql, plain, f" CHECK ({_CHECKS[storage]})"


_INTEGER = _column("INTEGER", _ORDERED | {"sum"}, as_integer, None, plain=int)
# A column of REAL affinity would make 0.0 of -0.0.
_FLOAT = _column("", frozenset(), _real, float)  # not merged by SQL: infinity - infinity would be NULL
_COLUMNS: dict[type[t.DataType], Any] = {
    t.ByteType: _INTEGER,
    t.ShortType: _INTEGER,
    t.IntegerType: _INTEGER,
    t.LongType: _INTEGER,
    t.FloatType: _FLOAT,
    t.DoubleType: _FLOAT,
    t.BooleanType: _column("INTEGER", _ORDERED, of_type(bool), bool, plain=bool),
    t.StringType: _column("TEXT", _ORDERED, as_text, None),
    t.BinaryType: _column("BLOB", _ORDERED, of_type(bytes, bytearray), None, plain=bytes),
    t.DateType: _column("TEXT", _ORDERED, _day_text, date.fromisoformat),
    t.TimestampType: _column("TEXT", _ORDERED, _utc_text, datetime.fromisoformat),
    t.TimestampNTZType: _column("TEXT", _ORDERED, _text, datetime.fromisoformat),
}


def _decimal(kind: t.DecimalType) -> tuple[Any, ...]:
    return _column("TEXT", frozenset(), _decimal_text(kind.precision, kind.scale), Decimal)


def _bound(value: Any) -> Any:
    """Return the stored form of a value in one of our tables."""
    match value:
        case datetime():
            return _utc_text(value) if value.tzinfo else _text(value)
        case date():
            return value.isoformat()
        case Decimal():
            return format(value, "f")
    return value


_COLUMNS_SHOWN = 'SELECT name, type, "notnull", pk, hidden FROM pragma_table_xinfo(?)'
_MADE = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE"
_NUMBER = r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*"
_UNTYPED = "of no type"
_TEXTUAL, _NUMERIC, _ANYTHING = "TEXT", "NUMERIC", "BLOB"
_TAKES = {
    "INTEGER": frozenset({"INTEGER", _NUMERIC, _ANYTHING}),
    "": frozenset({"REAL", _ANYTHING}),
    "TEXT": frozenset({_TEXTUAL, _NUMERIC, _ANYTHING}),
    "BLOB": frozenset({"INTEGER", "REAL", _TEXTUAL, _NUMERIC, _ANYTHING}),
}
"""The affinities of columns that keep the values of a field, by the storage of the field."""


def columns_of(connection: Connection, table: str) -> FoundTable:
    """Return the description of ``table``."""
    columns = tuple(_shown_column(*row) for row in connection.execute(_COLUMNS_SHOWN, [table]).fetchall())
    ((made,),) = connection.execute(_MADE, [table]).fetchall() or [("",)]
    found = re.search(r'CONSTRAINT "(\w+)" PRIMARY KEY', made)
    return FoundTable(columns, mark=found[1] if found else "")


def as_found(storage: str) -> tuple[str, ...]:
    """Return the types that the catalog may show for one of our columns; older releases used REAL for floats."""
    return (storage,) if storage else (_UNTYPED, "REAL")


def _shown_column(name: str, written: str, not_null: int, key: int, hidden: int) -> FoundColumn:
    return FoundColumn(
        name=name,
        written=written or _UNTYPED,
        family=Family.OTHER,
        is_required=bool(not_null) or (key > 0 and written.upper() == "INTEGER"),  # which would be numbered
        is_generated=hidden > 1,
    )


def affinity(written: str) -> str:
    """Return the affinity of a column by its type: https://www.sqlite.org/datatype3.html#determination_of_column_affinity."""
    kind = "" if written == _UNTYPED else written.upper()
    if "INT" in kind:
        return "INTEGER"
    if any(each in kind for each in ("CHAR", "CLOB", "TEXT")):
        return _TEXTUAL
    if "BLOB" in kind or not kind:
        return _ANYTHING
    return "REAL" if re.search("REAL|FLOA|DOUB", kind) else _NUMERIC


def limits_of(field: TypedColumn, column: FoundColumn) -> Limits:
    """Return the values of ``field`` that ``column`` keeps; its affinity converts some values to others.

    Raises:
        StateError: the column keeps none of them, or the database makes its values itself.
    """
    its, kind = affinity(column.written), field.kind
    if column.is_generated:
        raise refusal(field, column, "the database makes its values itself", "leave the field out")
    is_exact = its == "REAL" and isinstance(kind, t.ByteType | t.ShortType | t.IntegerType)
    is_written = its == _TEXTUAL and field.storage == "INTEGER" and not isinstance(kind, t.BooleanType)
    is_rounded = its == _NUMERIC and isinstance(kind, t.DecimalType)
    if not (its in _TAKES[field.storage] or is_exact or is_written) or is_rounded:
        raise refusal(
            field,
            column,
            f"SQLite would store its values as others, by the column's affinity {its}",
            f"give the column the affinity {field.storage or 'REAL'}, or map the field to a type that it keeps",
        )
    avoids = (
        (_NUMBER, f"SQLite would store it as a number in {column.written}")
        if (its == _NUMERIC and isinstance(kind, t.StringType))
        else None
    )
    return Limits(column=column.written, avoids=avoids, keeps_minus_zero=its != "REAL", is_required=column.is_required)


SQLITE = Dialect(
    database="SQLite",
    types=_COLUMNS,
    decimal=_decimal,
    json="TEXT",
    checked_name=partial(check_name, what="field"),
    checked_table=partial(check_name, what="table"),
    mark="?",
    key="TEXT",
    as_found=as_found,
    name="TEXT COLLATE NOCASE",
    integer="INTEGER",
    text="TEXT",
    options="WITHOUT ROWID",
    merges={
        None: "{new}",
        "sum": "coalesce({old} + {new}, {old}, {new})",
        "min": "coalesce(min({old}, {new}), {old}, {new})",
        "max": "coalesce(max({old}, {new}), {old}, {new})",
    },
    among="IN (SELECT value FROM json_each(?))",
    listed=partial(json.dumps, ensure_ascii=False),
    limits_of=limits_of,
    bound=_bound,
    has_table="SELECT 1 FROM sqlite_master WHERE ? = '' AND name = ? COLLATE NOCASE",
    has_column="SELECT 1 WHERE ? = '' AND EXISTS (SELECT 1 FROM pragma_table_info(?) WHERE name = ?)",
)


class SQLiteLink(Link):
    """The connection for writing to a file, which is made if it doesn't exist; or a connection for reading only."""

    def __init__(self, path: Path, where: str, *, is_reader: bool) -> None:
        super().__init__()
        self._path, self._where, self._is_reader = path, where, is_reader
        self._file = (0, 0)
        self.session: sqlite3.Connection | None = None

    def begin(self) -> sqlite3.Connection:
        """Begin a transaction, for writing with the write lock."""
        self.rollback()
        if self.session is None:
            self.session, self._file = self._opened(), identity(self._path)
        elif not self._is_reader and identity(self._path) != self._file:
            # SQLite would continue to write to the deleted file, and lose everything when it closes it.
            raise StateError(
                f"{self._where}: the file was removed or replaced while in use; to fix this: restore it and start again"
            )
        self.session.execute("BEGIN" if self._is_reader else "BEGIN IMMEDIATE")
        return self.session

    def commit(self) -> None:
        """Commit the transaction."""
        if self.session is not None:
            self.session.execute("COMMIT")

    def rollback(self) -> None:
        """Roll the transaction back."""
        if self.session is not None and self.session.in_transaction:
            self.session.execute("ROLLBACK")

    def close(self) -> None:
        """Close the file."""
        if self.session is not None:
            self.session.close()
        self.session = None

    def lock_holders(self) -> Sequence[str]:
        """Return the other processes that hold SQLite's write lock, according to Linux."""
        return [
            f"process {pid}{f' ({program})' if program else ''} has the write lock of {self._path}"
            for pid, program in writers_of(self._path)
            if pid != os.getpid()
        ]

    def _opened(self) -> sqlite3.Connection:
        if self._is_reader:
            uri = f"{self._path.as_uri()}?mode=ro"
            return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        ensure_usable(self._path, self._where)
        connection = sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
                raise StateError(
                    f"{self._where}: its file system doesn't allow WAL mode; to fix this: put it on a local disk"
                )
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA cache_size = -{_CACHE_BYTES // 1024}")
            connection.execute("PRAGMA legacy_alter_table = ON")  # so that a user's views stay with the table's name
        except BaseException:
            connection.close()
            raise
        return connection


@frozen
class SQLiteDatabase(Database):
    """A file."""

    dialect = SQLITE

    path: Path

    @property
    def shown(self) -> str:
        """The path."""
        return str(self.path)

    @property
    def server(self) -> object:
        """The path."""
        return self.path

    @property
    def exists(self) -> bool:
        """Whether there is a file."""
        return self.path.is_file()

    def identity(self, link: Link) -> object:
        """Return device and inode number of the file; if it doesn't exist, its path."""
        return identity(self.path) if self.exists else self.path.resolve()

    def explained(self, where: str, *, staged: bool = False, way_out: str = "") -> AbstractContextManager[None]:
        return explained(where, way_out)

    @contextmanager
    def starting(self, where: str) -> Iterator[None]:
        try:
            with explained(where):
                yield
        except FailedException as error:
            raise StateError(f"{error}; end that process, or use another file") from error

    def ensure_usable(self) -> None:
        """Check that the file can be read and written, or made."""
        ensure_usable(self.path, str(self.path))

    def link(self) -> SQLiteLink:
        """Return a connection for writing."""
        return SQLiteLink(self.path, str(self.path), is_reader=False)

    def beside(self) -> SQLiteLink:
        """Return a connection for reading."""
        return SQLiteLink(self.path, str(self.path), is_reader=True)

    def schema(self, link: Link, where: str) -> str:
        """Return an empty name: there are no schemas."""
        return ""

    @contextmanager
    def takeover(self, link: Link, schema: str, table: str, leader: Leader) -> Iterator[Connection]:
        """Run the block in one transaction."""
        headers = Headers(SQLITE, schema)
        try:
            with link.transaction() as connection:
                headers.check_version(connection)
                connection.execute(headers.create)
                yield connection
        except BaseException:
            link.close()
            raise

    def find_table(self, connection: Connection, schema: str, table: str, *, keys: bool = False) -> FoundTable:
        """Return the columns; the transaction holds the lock of the file."""
        return columns_of(connection, table)

    def write(self, connection: Connection, statement: Callable[[int], str], rows: Sequence[Row]) -> None:
        """Insert many rows with each statement."""
        known = cache(statement)
        for some in _statements(rows):
            connection.execute(known(len(some)), list(chain.from_iterable(some)))


def _statements(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Yield the rows of each statement, in few different numbers: a statement is prepared for each number."""
    first = 0
    for size in _STATEMENT_ROWS:
        while len(rows) - first >= size and size * len(rows[0]) <= _BOUND_MAX:
            yield rows[first : first + size]
            first += size


def identity(path: Path) -> tuple[int, int]:
    """Return device and inode number of the file, which another file of the same name would not have."""
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0)
    return (found.st_dev, found.st_ino)
