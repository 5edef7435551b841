"""The description of a database for `SQLMapState`: its SQL, and its connections."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, Protocol, TypeAlias

from attrs import field, frozen
from pyspark.sql import types as t

from trident_py.errors import FailedException, StateError, StoreBusyException
from trident_py.interfaces.sinks import TopologyKey
from trident_py.interfaces.verdict import UnknownErrors, Verdict
from trident_py.states.sql.catalog import FoundColumn, FoundTable
from trident_py.states.sql.columns import TypedColumn, is_nested, json_text
from trident_py.states.sql.limits import Limits
from trident_py.states.sql.pairs import limits_of
from trident_py.states.sql.stored import StoredRows

Code: TypeAlias = int | str | None


@contextmanager
def ending_at_refusals() -> Iterator[None]:
    """Convert the error of a refused value into one that ends the topology: a state would compute the same value again.

    Raises:
        StateError: a value was refused.
    """
    try:
        yield
    except StoreBusyException:
        raise
    except FailedException as error:
        raise StateError(str(error)) from error


@frozen(kw_only=True)
class ErrorTable:
    """The error codes of one database.

    Attributes:
        verdicts: the verdict by code. An error of another code is retried.
        ways_out: the fix by code.
        unknown: the errors that occurred and have no verdict.
    """

    verdicts: Mapping[Code, Verdict]
    ways_out: Mapping[Code, str]
    unknown: UnknownErrors = field(factory=UnknownErrors, eq=False, repr=False)

    def verdict(self, codes: Sequence[Code]) -> Verdict | None:
        """Return the verdict of the first known code of ``codes``; None: no code is known."""
        return next((self.verdicts[code] for code in codes if code in self.verdicts), None)

    def error(self, where: str, said: str, codes: Sequence[Code], way_out: str = "") -> FailedException | StateError:
        """Return the error to raise.

        Args:
            where: names the topology, the attempt and the table.
            said: the message of the database.
            codes: the codes of the error, the most specific one first.
            way_out: the fix to name, instead of the one known for the code.
        """
        verdict = self.verdict(codes)
        if verdict is None:
            self.unknown.came(codes[0], f"{where}: {said} (error {codes[0]})")
        if verdict in (None, Verdict.COMES_AGAIN):
            return StoreBusyException(f"{where}: {said}")
        way = way_out or next((self.ways_out[code] for code in codes if code in self.ways_out), "")
        kind = FailedException if verdict is Verdict.THIS_BATCH else StateError
        return kind(f"{where}: {said}; {f'to fix this: {way}' if way else 'nothing was committed'}")


Row: TypeAlias = tuple[Any, ...]


class Cursor(Protocol):
    """The result of a statement."""

    def fetchone(self) -> Any:
        """Return the next row; None at the end."""

    def fetchall(self) -> Any:
        """Return all rows."""


class Connection(Protocol):
    """An open transaction's connection."""

    def execute(self, query: str, values: Any = ...) -> Cursor:
        """Run one statement."""


class AnswerLostError(Exception):
    """The connection broke during COMMIT: whether the transaction is committed is unknown."""


class Link(ABC):
    """A connection that is made at its first use, and again after it broke. It has one transaction at a time.

    Attributes:
        session: an object that is another one after each connect; None: not connected.
        around: the connection of an enclosing transaction, which includes everything that this thread does here. None:
            there is no enclosing transaction.
    """

    session: object | None = None
    around: Connection | None = None

    def __init__(self) -> None:
        self.lock = threading.RLock()

    @contextmanager
    def transaction(self, lock_secs: float | None = None, *, durable: bool = True) -> Iterator[Connection]:
        """Run the block in a transaction, which is committed at its end and rolled back if the block raises.

        Args:
            lock_secs: how long to wait for a lock, in seconds; None: the default of the database.
            durable: whether the transaction must survive a crash of the server.
        """
        with self.lock:
            connection = self.begin_ours(lock_secs, durable=durable)
            try:
                yield connection
                self.commit()
            except BaseException:
                self.rollback()
                raise

    def begin_ours(self, lock_secs: float | None, *, durable: bool) -> Connection:
        """Begin a transaction in which no user code runs; see `transaction`."""
        return self.begin()

    def standing_for(self, others: Sequence[Link]) -> Link:
        """Return a connection that replaces this one and ``others``, which are closed.

        Later leaders find it by the name of any of them.
        """
        for other in others:
            other.close()
        return self

    def serve(self, database: Database) -> None:
        """Use the connection for ``database``, on the same server, under the name by which later leaders find it."""

    @abstractmethod
    def begin(self) -> Connection:
        """Return the connection, in a new transaction; abort a transaction that was left open."""

    @abstractmethod
    def commit(self) -> None:
        """Make the transaction durable.

        Raises:
            AnswerLostError: whether it is committed is unknown.
        """

    @abstractmethod
    def rollback(self) -> None:
        """Roll back the open transaction, if there is one; close the connection if it doesn't answer."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection; its open transaction is aborted."""

    def lock_holders(self) -> Sequence[str]:
        """Return the holders of the locks that this connection waits for, according to its server.

        Any thread may call it. It uses another connection, and takes as long as the server does.
        """
        return ()


# large: one field for each thing that a database says in its own way
@frozen(kw_only=True)
class Dialect:
    """The SQL of a database.

    Attributes:
        database: its name.
        types: for each of Spark's types, the arguments of `TypedColumn` after name and type.
        decimal: the same arguments for a decimal type.
        json: the type of a column that holds arrays, structs or maps, as JSON.
        checked_json: returns a JSON text if such a column can hold it; raises `RefusedValueError`.
        checked_name: returns the name of a field if it can be a column's; raises `StateError`.
        checked_table: returns the name of a table if it is valid; raises `StateError`.
        mark: the placeholder of a bound value.
        quote: the quotation mark of names.
        key: the type of ``_key``, compared byte by byte.
        marked_key: the clause that makes it the primary key; ``{0}`` is the mark of the table's maker.
        as_found: returns the types that the catalog may show for a column's type.
        name: the type of a column that holds a table's name.
        integer: the type of 64-bit integers.
        text: the type of any text.
        short_text: the type of a text that is a part of a key of our own tables.
        long_text: the type of a text without a limit.
        options: the text after the columns in CREATE TABLE of a state's table.
        engine: the text after the columns and options in CREATE TABLE of any table.
        staging: CREATE TABLE for data that need not survive a crash, and the text after its columns.
        index: the text after the columns of a new table that adds an index, or else the statement that does;
            ``{0}`` is the index, ``{1}`` its columns, ``{2}`` the table.
        conflict: the text after the rows to be inserted: how to change existing rows, by which column.
        new: the value that was to be inserted in a column.
        merges: how to combine a stored and a new value of a column, by `CombinerAggregator.merge`; None: replace.
        among: the comparison with one of several texts, which are bound as one value.
        listed: returns that value for a list of texts.
        locks: the text after SELECT to lock a header: in a takeover; in a commit; when an attempt makes its staging
            table.
        has_table: finds a table; schema and name are bound.
        has_column: finds a column; the schema, the table and its name are bound.
        times: statements that add write times to a table's rows; ``{0}`` is the table, ``{1}`` the name of an index by
            time and key.
        swap: statements that put the table ``{filled}`` in the place of ``{old}``, under the name ``{new}``; the
            old one is ``{aside}`` then. ``{bare_new}`` and ``{bare_aside}`` are these names without a schema.
        begins_again: the statement that commits and begins a transaction, if a change of a table commits before and
            after itself; empty: changes of tables are part of a transaction.
        limits_of: returns the values of a field that a column holds; raises `StateError` if it would change them.
        bound: converts a value of a row to a parameter of a query.
        stages: whether tasks may store their part of a change in staging tables.
        longest_name: the greatest length of a table's name.
    """

    database: str
    types: Mapping[type[t.DataType], Any]
    decimal: Callable[[t.DecimalType], Any]
    json: str
    checked_json: Callable[[str], str] = str
    checked_name: Callable[[str], str]
    checked_table: Callable[[str], str]
    mark: str = "%s"
    quote: str = '"'
    key: str
    marked_key: str = 'CONSTRAINT "{0}" PRIMARY KEY'
    as_found: Callable[[str], tuple[str, ...]]
    name: str = "text"
    integer: str = "bigint"
    text: str = "text"
    short_text: str = "text"
    long_text: str = "text"
    options: str = ""
    engine: str = ""
    staging: tuple[str, str] = ("CREATE TABLE", "")
    index: tuple[str, str] = ("", "CREATE INDEX IF NOT EXISTS {0} ON {2} ({1})")
    conflict: str = "ON CONFLICT ({0}) DO UPDATE SET"
    new: str = "excluded.{0}"
    merges: Mapping[str | None, str]
    among: str
    listed: Callable[[list[Any]], Any] = list
    locks: tuple[str, str, str] = ("", "", "")
    has_table: str
    has_column: str = (
        "SELECT 1 FROM information_schema.columns WHERE table_schema = %s AND table_name = %s AND column_name = %s"
    )
    times: tuple[str, ...] = (
        'ALTER TABLE {0} ADD COLUMN "_prev_time" bigint',
        'ALTER TABLE {0} ADD COLUMN "_time" bigint',
        'CREATE INDEX {1} ON {0} ("_time", "_key")',
    )
    swap: tuple[str, ...] = ("ALTER TABLE {old} RENAME TO {bare_aside}", "ALTER TABLE {filled} RENAME TO {bare_new}")
    begins_again: str = ""
    limits_of: Callable[[TypedColumn, FoundColumn], Limits] = limits_of
    bound: Callable[[Any], Any] = lambda value: value
    stages: bool = False
    longest_name: int = 63

    def quoted(self, *names: str) -> str:
        """Return the names quoted, separated by commas."""
        return ", ".join(f"{self.quote}{name.replace(self.quote, self.quote * 2)}{self.quote}" for name in names)

    def marks(self, count: int) -> str:
        """Return ``count`` placeholders for bound values, separated by commas."""
        return ", ".join([self.mark] * count)

    def column_of(self, spec: t.StructField) -> TypedColumn:
        """Return the column for a field.

        Raises:
            StateError: no column holds values of its type, or its name cannot be a column's.
        """
        name, kind = self.checked_name(spec.name), spec.dataType
        if isinstance(kind, t.DecimalType):
            return TypedColumn(name, kind, *self.decimal(kind))
        if isinstance(kind, t.StringType) and kind != t.StringType():
            raise StateError(
                f"field {name!r}: {self.database} cannot compare by the collation of {kind.simpleString()}"
            )
        if is_nested(kind):
            return TypedColumn(name, kind, self.json, frozenset(), *json_text(kind, self.checked_json))
        if type(kind) not in self.types:
            raise StateError(
                f"field {name!r} is {kind.simpleString()}, which a column in {self.database} cannot hold; use a "
                f"string, a number, a boolean, a date, a timestamp, binary, or arrays, structs and maps of them"
            )
        return TypedColumn(name, kind, *self.types[type(kind)])


@frozen
class Leader:
    """The leader that takes a table over.

    Attributes:
        owner: a text that no other takeover has.
    """

    topology: TopologyKey
    epoch: int
    owner: str


class Database(ABC):
    """A database and its connections."""

    dialect: ClassVar[Dialect]

    @property
    @abstractmethod
    def shown(self) -> str:
        """The database's name in errors, without secrets."""

    @property
    def exists(self) -> bool:
        """Whether the database exists; for one on a server always true, since only a connection can tell."""
        return True

    @property
    @abstractmethod
    def server(self) -> object:
        """An object that is equal for two databases which can share one connection."""

    @abstractmethod
    def identity(self, link: Link) -> object:
        """Return the identity of the database, from its server: equal for all tables that one transaction can change.

        It is another one for another user, because a transaction belongs to one user.
        """

    @abstractmethod
    def explained(self, where: str, *, staged: bool = False, way_out: str = "") -> AbstractContextManager[None]:
        """Convert exceptions of the client library into errors that name ``where``, the cause and the fix.

        Args:
            where: names the topology, the attempt and the table.
            staged: whether a missing table is temporary, because a replay makes its staging table again.
            way_out: the fix to name, instead of the one known for the error.

        Raises:
            StoreBusyException: a replay may succeed.
            FailedException: the database refused a value of the batch.
            StateError: any other error.
        """

    @abstractmethod
    def starting(self, where: str) -> AbstractContextManager[None]:
        """Convert exceptions as `explained` does, at a start: a temporary error names the thing to check, too.

        Raises:
            StateError: for every exception of the library.
        """

    @abstractmethod
    def ensure_usable(self) -> None:
        """Check that the database exists and accepts the user; change nothing. The library's exceptions are raised."""

    @abstractmethod
    def link(self) -> Link:
        """Return a connection for commits."""

    def second_link(self) -> Link:
        """Return another connection for writing, while that for commits is open."""
        return self.link()

    def beside(self) -> Link:
        """Return a connection for statements that run at the same time as a commit."""
        return self.link()

    def led_by(self, leader: Leader, table: str) -> Database:
        """Return the same database with connections that a later leader of this table can recognise."""
        return self

    @abstractmethod
    def schema(self, link: Link, where: str) -> str:
        """Return the schema in which tables are made; empty without schemas. ``where`` is named in errors.

        Raises:
            StateError: tables can't be made there.
        """

    def lock_making(self, connection: Connection) -> None:
        """Wait until no other transaction makes tables, if the database needs that for ``IF NOT EXISTS``."""

    @abstractmethod
    def takeover(self, link: Link, schema: str, table: str, leader: Leader) -> AbstractContextManager[Connection]:
        """Run the block in a transaction that excludes other takeovers of ``table``.

        The table of headers exists by then. First, the connections of older leaders are ended, if the database can do
        that. A leader that was paused in the middle of a transaction would otherwise keep its locks. Older leaders have
        lost the epoch already.
        """

    @abstractmethod
    def find_table(self, connection: Connection, schema: str, table: str, *, keys: bool = False) -> FoundTable:
        """Return the catalog's description of a table, which can't be altered until the transaction ends.

        If the table is gone, the result has no columns. Then the transaction may be unusable.

        Args:
            connection: in its transaction.
            schema: the table's schema.
            table: its name.
            keys: whether the key of its rows matters.
        """

    @abstractmethod
    def write(self, connection: Connection, statement: Callable[[int], str], rows: Sequence[Row]) -> None:
        """Run the statement that ``statement`` returns for a number of rows, until all rows are written."""

    def load(self, connection: Connection, table: str, columns: str, parts: Iterable[StoredRows], task: int) -> int:
        """Insert the rows of a task, in the fastest way; return their number.

        Args:
            connection: in its transaction.
            table: a staging table, as written in a statement.
            columns: its columns as written in a statement: those of the rows, the text of the key, the task.
            parts: the rows.
            task: its number.
        """
        raise NotImplementedError(f"{self.dialect.database} has no staging by tasks")

    def portions(self, connection: Connection, query: str, values: Sequence[Any], size: int) -> Iterator[list[Row]]:
        """Yield the rows that ``query`` finds, ``size`` at a time; other statements may run in between."""
        found = connection.execute(query, values).fetchall()
        for first in range(0, len(found), size):
            yield found[first : first + size]
