"""What a database tells of itself, so that `SQLMapState` can keep values in it: its SQL, and how it is reached."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, Protocol, TypeAlias

from attrs import frozen
from pyspark.sql import types as t

from trident_py.errors import StateError
from trident_py.interfaces.sinks import TopologyKey
from trident_py.states.sql.catalog import FoundColumn, FoundTable
from trident_py.states.sql.columns import TypedColumn, is_nested, json_text
from trident_py.states.sql.limits import Limits
from trident_py.states.sql.pairs import limits_of
from trident_py.states.sql.stored import StoredRows

Row: TypeAlias = tuple[Any, ...]


class Cursor(Protocol):
    """What a statement has found."""

    def fetchone(self) -> Any:
        """Return the next row; None: there is none."""

    def fetchall(self) -> Any:
        """Return all rows."""


class Connection(Protocol):
    """An open transaction's connection."""

    def execute(self, query: str, values: Any = ...) -> Cursor:
        """Run one statement."""


class AnswerLostError(Exception):
    """The connection broke while it waited for the answer to COMMIT: it may be there, or not."""


class Link(ABC):
    """One connection that is made when it is first needed, and again after it broke. One transaction at a time.

    Attributes:
        session: what is another object after each connecting; None: not connected.
        around: the connection of the transaction that all which this thread does here is a part of; None: none is.
    """

    session: object | None = None
    around: Connection | None = None

    def __init__(self) -> None:
        self.lock = threading.RLock()

    @contextmanager
    def transaction(self, lock_secs: float | None = None, *, durable: bool = True) -> Iterator[Connection]:
        """Run the block in a transaction, which is committed at its end and rolled back if the block raises.

        Args:
            lock_secs: how long it waits for a lock; None: as long as all do.
            durable: whether a crash of the server must not lose it.
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
        """Return one in the place of this and ``others``: who looks for any of them finds it. They are closed."""
        for other in others:
            other.close()
        return self

    def serve(self, database: Database) -> None:
        """Go on under the name by which later leaders find what ``database`` has connected; it is the same server."""

    @abstractmethod
    def begin(self) -> Connection:
        """Return the connection, in a new transaction; one that was left open is given up."""

    @abstractmethod
    def commit(self) -> None:
        """Make the transaction durable.

        Raises:
            AnswerLostError: nobody knows whether it is.
        """

    @abstractmethod
    def rollback(self) -> None:
        """Give up the open transaction, if there is one; the connection too, if it doesn't answer."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection; what it had begun is given up."""

    def lock_holders(self) -> Sequence[str]:
        """Return who holds the locks that this connection waits for, as its server says. Any thread may ask.

        It asks by another connection, and takes as long as the server does.
        """
        return ()


# large: one field for each thing that a database says in its own way
@frozen(kw_only=True)
class Dialect:
    """The SQL of a database.

    Attributes:
        database: its name.
        types: by Spark's type, what follows name and type in a `TypedColumn`.
        decimal: the same for decimals, of so many digits.
        json: the type of a column that holds arrays, structs or maps, as JSON.
        checked_json: a text of JSON as it is, if such a column holds it; raises `RefusedValueError`.
        checked_name: the name of a field as it is, if it can be a column's; raises `StateError`.
        checked_table: the same for that of a table.
        mark: what stands for a bound value.
        quote: what names stand between.
        key: the type of ``_key``, compared byte by byte.
        marked_key: what makes it the primary key; ``{0}`` is the mark of the table's maker.
        as_found: the types that the catalog may have for that of a column.
        name: the type of a table's name in a table.
        integer: the type of 64-bit integers.
        text: the type of any text.
        options: what follows the columns of a state's table in CREATE TABLE.
        engine: what follows those of any table.
        staging: CREATE TABLE, for what is worth nothing after a crash, and what follows its columns.
        conflict: what follows the rows to be inserted: how to change those that are there, by which column.
        new: the value that was to be inserted in a column.
        merges: how a stored and a new value of a column become one: by `CombinerAggregator.merge`; None: replace.
        among: the comparison with one of several texts, which are bound as one value.
        listed: that value.
        locks: what follows SELECT to lock a header: in a takeover; in a commit; where an attempt makes room to stage.
        has_table: finds a table; bound are schema and name.
        has_column: finds a column; bound are the schema, the table and its name.
        times: statements that have the rows of a table know when they were written; ``{0}`` is the table, ``{1}`` the
            name of an index by time and key.
        limits_of: what a column holds of the values of a field; raises `StateError` if it would change them.
        bound: what is bound for a value of a row that a query is asked with.
        stages: whether tasks may hand it their part of a change.
        longest_name: how long the name of a table may be.
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
    options: str = ""
    engine: str = ""
    staging: tuple[str, str] = ("CREATE TABLE", "")
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
    limits_of: Callable[[TypedColumn, FoundColumn], Limits] = limits_of
    bound: Callable[[Any], Any] = lambda value: value
    stages: bool = False
    longest_name: int = 63

    def quoted(self, *names: str) -> str:
        """Return the names quoted, separated by commas."""
        return ", ".join(f"{self.quote}{name.replace(self.quote, self.quote * 2)}{self.quote}" for name in names)

    def marks(self, count: int) -> str:
        """Return so many placeholders for bound values, separated by commas."""
        return ", ".join([self.mark] * count)

    def column_of(self, spec: t.StructField) -> TypedColumn:
        """Return the column for a field.

        Raises:
            StateError: there is no place for its type, or its name cannot be a column's.
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
    """Who takes a table over.

    Attributes:
        owner: a text that no other takeover has.
    """

    topology: TopologyKey
    epoch: int
    owner: str


class Database(ABC):
    """Which database, and how it is reached."""

    dialect: ClassVar[Dialect]

    @property
    @abstractmethod
    def shown(self) -> str:
        """How errors name it, without secrets."""

    @property
    def exists(self) -> bool:
        """Whether there is one; a server's is found missing by whoever connects."""
        return True

    @property
    @abstractmethod
    def server(self) -> object:
        """What is equal where one connection serves both."""

    @abstractmethod
    def identity(self, link: Link) -> object:
        """Ask its server what it is: equal for all tables that one transaction can change.

        Whoever comes as another user is told another one, since one transaction has one user.
        """

    @abstractmethod
    def explained(self, where: str, *, staged: bool = False, way_out: str = "") -> AbstractContextManager[None]:
        """Turn what the client library raises into an error that names ``where``, the cause and the way out.

        Args:
            where: names the topology, the attempt and the table.
            staged: whether a table that is gone passes, as what is staged does with a replay.
            way_out: what to do, in place of what is known of the error.

        Raises:
            StoreBusyException: a replay may get through.
            FailedException: a value of the batch is refused.
            StateError: anything else.
        """

    @abstractmethod
    def starting(self, where: str) -> AbstractContextManager[None]:
        """Do what `explained` does, for a start: what may pass by itself is told with what to look at.

        Raises:
            StateError: whatever the library raised.
        """

    @abstractmethod
    def ensure_usable(self) -> None:
        """Look whether it is there and lets us in; changes nothing. What the library raises is raised."""

    @abstractmethod
    def link(self) -> Link:
        """Return a connection for commits."""

    def second_link(self) -> Link:
        """Return another connection for writing, while that for commits is open."""
        return self.link()

    def beside(self) -> Link:
        """Return a connection for what goes on beside a commit."""
        return self.link()

    def led_by(self, leader: Leader, table: str) -> Database:
        """Return the same database, reached by connections that a later leader of this table can tell from others."""
        return self

    @abstractmethod
    def schema(self, link: Link, where: str) -> str:
        """Return the schema in which tables are made; empty where there are none. ``where`` is named in errors.

        Raises:
            StateError: tables can't be made there.
        """

    @abstractmethod
    def takeover(self, link: Link, schema: str, table: str, leader: Leader) -> AbstractContextManager[Connection]:
        """Run the block in a transaction, beside no other takeover of ``table``; the table of headers exists then.

        Connections of older leaders are ended before, where the database can: one that was paused in mid-transaction
        would hold its locks till then. They have lost the epoch already.
        """

    @abstractmethod
    def find_table(self, connection: Connection, schema: str, table: str, *, keys: bool = False) -> FoundTable:
        """Return what the catalog says of a table, which can't be altered any more until the transaction ends.

        If the table is gone, it has no columns, and the transaction may be of no use any more.

        Args:
            connection: in its transaction.
            schema: where the table is.
            table: its name.
            keys: whether a key of its rows matters.
        """

    @abstractmethod
    def write(self, connection: Connection, statement: Callable[[int], str], rows: Sequence[Row]) -> None:
        """Run what ``statement`` gives for a number of rows, until all were bound to it."""

    def load(self, connection: Connection, table: str, columns: str, parts: Iterable[StoredRows], task: int) -> int:
        """Insert the rows of a task, the fastest way that there is; returns how many they are.

        Args:
            connection: in its transaction.
            table: a staging table, as it stands in a statement.
            columns: its columns, likewise: those of the rows, the text of the key, the task.
            parts: the rows.
            task: its number.
        """
        raise NotImplementedError(f"{self.dialect.database} takes nothing from tasks")

    def portions(self, connection: Connection, query: str, values: Sequence[Any], size: int) -> Iterator[list[Row]]:
        """Give what ``query`` finds, ``size`` rows at a time; other statements may run between."""
        found = connection.execute(query, values).fetchall()
        for first in range(0, len(found), size):
            yield found[first : first + size]
