"""Migration of a SQL state's table to other fields, values or another name.

A new table is filled, and takes the place of the old one. All of it is one transaction, where the database allows that.
MySQL commits before and after each change of a table, so there it is several. A crash between two of them is harmless:

1. The new table is filled under a temporary name. A takeover that finds it starts again.
2. Its mark is written to ``_trident_migrations``, in the transaction that fills it.
3. One statement swaps both tables. From here on, readers see the new one.
4. The header is written under the new name and fields. If it is missing, but the table has the mark of step 2, then a
   takeover writes it.
5. The old table is dropped.

The mark stays. It tells for which write of the topology's record the values were migrated, and to which declaration. So
a takeover that finds the record of before doesn't migrate twice, and refuses the program of before.
"""
# ruff: noqa: S608 - every name in a statement was checked, or is quoted; values are always bound

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import localcontext
from typing import Any

from attrs import evolve, field, frozen
from pyspark.sql import types as t

from coordinators.values.error_text import error_text
from trident_py.errors import FencedError, StateError
from trident_py.interfaces.operations import EXACT_DECIMALS
from trident_py.rows.schema import clipped
from trident_py.states.fenced import StateHeader
from trident_py.states.sql.columns import declared_fields, loaded_rows
from trident_py.states.sql.dialect import Connection, Database, Dialect
from trident_py.states.sql.table import HEADERS, Headers, Table, placed

MADE_MAX = 10**10
CHUNK_ROWS = 4_096
"""The rows that are Python objects at one time."""

_INTEGERS = (t.ByteType, t.ShortType, t.IntegerType, t.LongType)


def is_wider(before: t.DataType, now: t.DataType) -> bool:
    """Return whether ``now`` holds all values of ``before`` as they are."""
    if isinstance(before, t.DecimalType) and isinstance(now, t.DecimalType):
        digits = (now.precision - now.scale) - (before.precision - before.scale)
        return before != now and digits >= 0 and now.scale >= before.scale
    if isinstance(before, _INTEGERS) and isinstance(now, _INTEGERS):
        return _INTEGERS.index(type(before)) < _INTEGERS.index(type(now))
    return isinstance(before, t.FloatType) and isinstance(now, t.DoubleType)


@frozen(kw_only=True)
class ValueMigration:
    """The difference between a stored table and the declared one.

    Attributes:
        names: earlier names of the state, the latest first; each may be the name of the stored table.
        fields: by old name, the new name of each field that is renamed.
        widened: by new name, the new type of each field that is widened.
        added: by name, the values of the fields that a struct gets at its end.
        function: returns the new value for an old one; None: the values stay.
        called: the name of ``function``.
    """

    names: Sequence[str] = ()
    fields: Mapping[str, str] = field(factory=dict)
    widened: Mapping[str, t.DataType] = field(factory=dict)
    added: Mapping[str, Any] = field(factory=dict)
    function: Callable[[Any], Any] | None = None
    called: str = ""

    def check(self, before: Table, now: Table) -> None:
        """Check that it leads from the fields of one table to the fields of the other.

        Raises:
            StateError: it doesn't.
        """
        fits = len(before.keys) == len(now.keys) and all(
            self._leads(old, new, is_value=new is now.value) for old, new in zip(before.fields, now.fields, strict=True)
        )
        if not fits:
            raise StateError(
                f"its stored fields are {before.columns}, declared are {now.columns}, and migrate() doesn't lead from "
                f"one to the other. To fix this: name each field that is renamed, rename={{'old': 'new'}}; each that "
                f"is widened, widen={{'new': 'bigint'}}; and give a function for a value of another type, "
                f"with_=function. Keys can't change otherwise: fill a new table by a second topology"
            )

    def _leads(self, old: Any, new: Any, *, is_value: bool) -> bool:
        if self.fields.get(old.name, old.name) != new.name:
            return False
        is_widened = self.widened.get(new.name) == new.kind and is_wider(old.kind, new.kind)
        changes = is_value and (self.function is not None or self._adds(old.kind, new.kind))
        return old.kind == new.kind or is_widened or changes

    def _adds(self, old: t.DataType, new: t.DataType) -> bool:
        if not isinstance(old, t.StructType) or not isinstance(new, t.StructType):
            return False
        count = len(old.fields)
        kept = [(each.name, each.dataType) for each in new.fields[:count]]
        return kept == [(each.name, each.dataType) for each in old.fields] and set(new.names[count:]) == set(self.added)

    def migrated(self, value: Any, key: Sequence[Any]) -> Any:
        """Return the new value for ``value``, which is not NULL.

        Raises:
            StateError: the function raises, or returns None.
        """
        if value is None or (self.function is None and not self.added):
            return value
        if self.function is None:
            return {**value._asdict(), **self.added}
        try:
            with localcontext(EXACT_DECIMALS):
                made = self.function(value)
        except Exception as error:
            raise StateError(
                f"{self.called} raised {error_text(error)} for the value {clipped(value)} of the key {clipped(key)}; "
                f"nothing was changed; to fix this: correct the function"
            ) from error
        if made is None:
            raise StateError(
                f"{self.called} returned None for the value {clipped(value)} of the key {clipped(key)}; nothing was "
                f"changed; to fix this: return a value for each value"
            )
        return made


@frozen(kw_only=True)
class MigrationMark:
    """The last migration of a state.

    Attributes:
        before: the name of its table before.
        columns: the declared fields of its table since.
        made: the number of its table since.
        incarnation: of the topology.
        seq: the number of writes of the topology's record before which it was done.
        identity: the hash of the state's declaration since.
    """

    before: str
    columns: str
    made: int
    incarnation: int
    seq: int
    identity: str

    def is_of(self, incarnation: int, seq: int) -> bool:
        """Return whether it was done for the record with this number of writes, so that no later one was written."""
        return (self.incarnation, self.seq) == (incarnation, seq)


_MARK = ("before", "columns", "made", "incarnation", "seq", "identity")


@frozen
class Marks:
    """The table of the migrations of a schema's states; it is made by the first one."""

    dialect: Dialect
    schema: str

    NAME = "_trident_migrations"

    @property
    def there(self) -> str:
        """The table's name, as written in a statement."""
        return placed(self.dialect, self.schema, self.NAME)

    @property
    def create(self) -> str:
        """CREATE TABLE IF NOT EXISTS."""
        of, quoted = self.dialect, self.dialect.quoted
        kinds = (of.text, of.text, of.integer, of.integer, of.integer, of.text)
        columns = ", ".join(f"{quoted(name)} {kind} NOT NULL" for name, kind in zip(_MARK, kinds, strict=True))
        return f"CREATE TABLE IF NOT EXISTS {self.there} (state {of.name} NOT NULL PRIMARY KEY, {columns}) {of.engine}"

    def find(self, connection: Connection, table: str) -> MigrationMark | None:
        """Return the last migration to this table; None: there was none."""
        if connection.execute(self.dialect.has_table, [self.schema, self.NAME]).fetchone() is None:
            return None
        select = f"SELECT {self.dialect.quoted(*_MARK)} FROM {self.there} WHERE state = {self.dialect.mark}"
        row = connection.execute(select, [table]).fetchone()
        return MigrationMark(**dict(zip(_MARK, row, strict=True))) if row else None

    def write(self, connection: Connection, table: str, mark: MigrationMark) -> None:
        """Write the mark of a table; that of the table before is deleted."""
        for name in {table, mark.before}:
            connection.execute(f"DELETE FROM {self.there} WHERE state = {self.dialect.mark}", [name])
        values = [table, *(getattr(mark, name) for name in _MARK)]
        names, marks = self.dialect.quoted("state", *_MARK), self.dialect.marks(len(values))
        connection.execute(f"INSERT INTO {self.there} ({names}) VALUES ({marks})", values)


@frozen(kw_only=True)
class TableMove:
    """The way from a stored table to the declared one.

    Attributes:
        before: the stored table.
        now: the declared table; its number is not used.
        migration: the difference.
    """

    database: Database
    before: Table
    now: Table
    migration: ValueMigration

    @property
    def headers(self) -> Headers:
        """The table of headers."""
        return self.now.headers

    def check(self, connection: Connection) -> int:
        """Migrate all values without storing them; return their number.

        Raises:
            StateError: the fields don't fit, or a value can't be migrated.
        """
        before = self.before
        before.check(self.database.find_table(connection, before.schema, before.name, keys=True))
        self.migration.check(before, self.now)
        return sum(len(rows) for rows in self._rows(connection))

    def run(self, connection: Connection, mark: MigrationMark, header: StateHeader) -> None:
        """Make the new table, and swap the tables.

        Args:
            connection: in a takeover of the old table.
            mark: of this migration; its number is not used.
            header: the state's header, under the fence of this leader.
        """
        of, (filled, aside) = self.now.dialect, _places(self.now)
        marks, made = Marks(of, self.now.schema), secrets.randbelow(MADE_MAX)
        now = evolve(self.now, made=made, timed=self.before.timed)
        connection.execute(marks.create)
        drop_leftovers(connection, self.now)
        connection.execute(now.create_as(_filled(now)))
        for statement in now.add_times(made, filled) if self.before.timed else ():
            connection.execute(statement)
        _begin_again(connection, of)
        insert = self._insert(filled)
        for rows in self._rows(connection):
            self.database.write(connection, insert, rows)
        marks.write(connection, now.name, evolve(mark, made=made))
        _begin_again(connection, of)
        connection.execute(f"DROP TABLE IF EXISTS {placed(of, self.before.schema, self.before.removed)}")
        names = {
            "old": self.before.there,
            "filled": filled,
            "new": now.there,
            "aside": aside,
            "bare_new": of.quoted(now.name),
            "bare_aside": of.quoted(_aside(now)),
        }
        for statement in of.swap:
            connection.execute(statement.format(**names))
        _begin_again(connection, of)
        write_header(connection, self.headers, now.name, evolve(mark, made=made), header)
        _begin_again(connection, of)
        drop_leftovers(connection, self.now)
        _begin_again(connection, of)

    def _rows(self, connection: Connection) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of the new table, in the order of their keys, some at a time."""
        last: str | None = None
        while found := connection.execute(*self._select(last)).fetchall():
            last = found[-1][0]
            yield self._migrated(found)

    def _select(self, last: str | None) -> tuple[str, list[Any]]:
        of, quoted = self.before.dialect, self.before.dialect.quoted
        names = quoted("_key", "_txid", "_born", *self._times, *(each.name for each in self.before.fields), "_prev")
        after, bound = (f"WHERE {quoted('_key')} > {of.mark} ", [last]) if last is not None else ("", [])
        order = f"ORDER BY {quoted('_key')} LIMIT {of.mark}"
        return f"SELECT {names} FROM {self.before.there} {after}{order}", [*bound, CHUNK_ROWS]

    def _insert(self, there: str) -> Callable[[int], str]:
        of = self.now.dialect
        names = ("_key", "_txid", "_born", *self._times, *(each.name for each in self.now.fields), "_prev")
        marks = f"({of.marks(len(names))})"
        return lambda count: f"INSERT INTO {there} ({of.quoted(*names)}) VALUES {', '.join([marks] * count)}"

    @property
    def _times(self) -> tuple[str, ...]:
        return ("_time", "_prev_time") if self.before.timed else ()

    def _migrated(self, found: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
        books = 3 + len(self._times)
        old = self.before
        rows = loaded_rows((*old.fields, old.value), [row[books:] for row in found])
        keys = [row[: len(old.keys)] for row in rows]
        migrated = self.migration.migrated
        values, previous = (
            [migrated(row[place], key) for row, key in zip(rows, keys, strict=True)] for place in (-2, -1)
        )
        columns = [*self.now.stored(keys, values), self.now.value.stored(previous)]
        return [(*row[:books], *its) for row, its in zip(found, zip(*columns, strict=True), strict=True)]


def stored_table(connection: Connection, now: Table, name: str, columns: str) -> Table:
    """Return the table ``name`` that has these fields, in the same schema as ``now``."""
    table = evolve(Table.of(now.dialect, name, *declared_fields(columns)), schema=now.schema)
    ((made,),) = connection.execute(f"SELECT {table.headers.one('made')}", [name]).fetchall()
    is_timed = connection.execute(now.dialect.has_column, [table.schema, name, "_time"]).fetchone() is not None
    return evolve(table, made=made, timed=is_timed)


def stored_name(connection: Connection, headers: Headers, names: Sequence[str]) -> str:
    """Return the first of ``names`` that has a header; if none has, the first one."""
    if connection.execute(headers.dialect.has_table, [headers.schema, HEADERS]).fetchone() is not None:
        for name in names:
            if connection.execute(headers.declared, [name]).fetchone() is not None:
                return name
    return names[0]


def finished(connection: Connection, database: Database, now: Table) -> MigrationMark | None:
    """Return the mark of the last migration to this table, if it was swapped; None: it wasn't, or there was none.

    If a crash came right after the swap, write the header, and drop what is left of the table before.
    """
    headers, of = now.headers, now.dialect
    mark = Marks(of, now.schema).find(connection, now.name)
    if mark is None:
        return None
    if of.begins_again:  # elsewhere, it was all or nothing
        found = database.find_table(connection, now.schema, now.name, keys=True)
        is_swapped = not found.is_gone and found.mark == evolve(now, made=mark.made).mark
        if is_swapped and not _has_made(connection, headers, now.name, mark.made):
            lock, _, _ = of.locks
            row = connection.execute(headers.read(lock), [mark.before]).fetchone()
            if row is not None:
                write_header(connection, headers, now.name, mark, StateHeader.of(row))
                _begin_again(connection, of)
        drop_leftovers(connection, now)
        _begin_again(connection, of)
    return mark if _has_made(connection, headers, now.name, mark.made) else None


def write_header(connection: Connection, headers: Headers, name: str, mark: MigrationMark, header: StateHeader) -> None:
    """Write the header of the new table, and delete that of the table before."""
    if name != mark.before:
        connection.execute(f"DELETE FROM {headers.there} WHERE state = {headers.dialect.mark}", [mark.before])
    connection.execute(headers.write, [name, *evolve(header, columns=mark.columns).row])
    connection.execute(headers.write_made, [mark.made, name])


def drop_leftovers(connection: Connection, now: Table) -> None:
    """Drop a table that was not filled to its end, and an old table that was swapped."""
    for there in _places(now):
        connection.execute(f"DROP TABLE IF EXISTS {there}")


def ensure_owner(header: StateHeader, epoch: int, owner: str, where: str) -> None:
    """Refuse a migration if another leader has taken over.

    Raises:
        FencedError: one has.
    """
    if (header.fence.epoch, header.owner) != (epoch, owner):
        raise FencedError(f"{where}: a leader of epoch {header.fence.epoch} has taken over from epoch {epoch}")


def _has_made(connection: Connection, headers: Headers, name: str, made: int) -> bool:
    ((found,),) = connection.execute(f"SELECT {headers.one('made')}", [name]).fetchall()
    return bool(found == made)


def _begin_again(connection: Connection, dialect: Dialect) -> None:
    if dialect.begins_again:
        connection.execute(dialect.begins_again)


def _filled(table: Table) -> str:
    return f"_{table.name}_migrating"


def _aside(table: Table) -> str:
    return f"_{table.name}_migrated"


def _places(table: Table) -> tuple[str, str]:
    """Return the temporary names of the new table and of the old one, as written in a statement."""
    names = _filled(table), _aside(table)
    filled, aside = (placed(table.dialect, table.schema, name) for name in names)
    return filled, aside
