"""The tables of a SQL state, and the statements over them."""
# ruff: noqa: S608 - every name in a statement was checked, or is quoted; values are always bound

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from attrs import field, frozen
from pyspark.sql import types as t

from trident_py.errors import StateError
from trident_py.states.fenced import StateHeader
from trident_py.states.sql.catalog import ONLY_KEY, FoundTable
from trident_py.states.sql.columns import TypedColumn, UnfitError, as_key, check_distinct, declared
from trident_py.states.sql.dialect import Connection, Dialect

HEADERS = "_trident"
READ_MAX = 1_000
"""The number of keys that one statement reads."""

TOKEN = ("txid", "epoch", "attempt_id", "group_first")


@frozen
class Headers:
    """The table with a header row for each state of a schema: its topology and its last commit."""

    dialect: Dialect
    schema: str

    @property
    def there(self) -> str:
        """The table's name, as written in a statement."""
        return placed(self.dialect, self.schema, HEADERS)

    @property
    def create(self) -> str:
        """CREATE TABLE IF NOT EXISTS."""
        of, text, integer = self.dialect, self.dialect.text, self.dialect.integer
        return (
            f"CREATE TABLE IF NOT EXISTS {self.there} (state {of.name} NOT NULL PRIMARY KEY, topology {text} NOT NULL, "
            f"uuid {text} NOT NULL, incarnation {integer} NOT NULL, fence {integer} NOT NULL, owner {text} NOT NULL, "
            f"{of.quoted('columns')} {text} NOT NULL, txid {integer}, epoch {integer}, attempt_id {integer}, "
            f"group_first {integer}, ttl_since {integer}, expired {integer}, made {integer}, "
            f"version {integer} NOT NULL) {of.engine}"
        )

    def check_version(self, connection: Connection) -> None:
        """Check that the table, if there is one, has a format version; its rows are checked when they are read.

        Raises:
            StateError: a version before the first release made it.
        """
        found = [
            connection.execute(statement, values).fetchone() is not None
            for statement, values in (
                (self.dialect.has_table, [self.schema, HEADERS]),
                (self.dialect.has_column, [self.schema, HEADERS, "version"]),
            )
        ]
        if found == [True, False]:
            raise StateError(
                f"the table {self.there} has no format version: a version of trident_py before the first release made "
                f"it, and nothing in it was changed; to fix this: take another database or schema, or drop the table "
                f"and those of its states"
            )

    def read(self, lock: str = "") -> str:
        """Return SQL that finds a state's header; bound is its name."""
        names = self.dialect.quoted(*StateHeader.COLUMNS.split(", "))
        return f"SELECT {names} FROM {self.there} WHERE state = {self.dialect.mark} {lock}"

    @property
    def declared(self) -> str:
        """SQL that reads the declared fields from a state's header; bound is its name."""
        return f"SELECT {self.dialect.quoted('columns')} FROM {self.there} WHERE state = {self.dialect.mark}"

    @property
    def write(self) -> str:
        """SQL that replaces a state's header; bound are its name and its row."""
        of, names = self.dialect, StateHeader.COLUMNS.split(", ")
        new = ", ".join(f"{of.quoted(name)} = {of.new.format(of.quoted(name))}" for name in names)
        return (
            f"INSERT INTO {self.there} ({of.quoted('state', *names)}) VALUES ({of.marks(len(names) + 1)}) "
            f"{of.conflict.format('state')} {new}"
        )

    @property
    def write_token(self) -> str:
        """SQL that sets a state's token; bound are txid, epoch, attempt, the group's first and the state's name."""
        return self._update(TOKEN)

    @property
    def write_made(self) -> str:
        """SQL that sets the number of a state's table; bound are the number and the state's name."""
        return self._update(("made",))

    @property
    def write_expiry(self) -> str:
        """SQL that stores the expiry of a state's keys; bound are the two times and the state's name."""
        return self._update(("ttl_since", "expired"))

    def one(self, name: str) -> str:
        """Return SQL for one column of a state's header, as a value in another statement; bound is the state's name."""
        return f"(SELECT {name} FROM {self.there} WHERE state = {self.dialect.mark})"

    def _update(self, names: Sequence[str]) -> str:
        new = ", ".join(f"{name} = {self.dialect.mark}" for name in names)
        return f"UPDATE {self.there} SET {new} WHERE state = {self.dialect.mark}"


@frozen
class Staging:
    """The staging table: it holds the change of one attempt before it commits.

    Attributes:
        columns: the key columns, then the value.
    """

    dialect: Dialect
    schema: str
    name: str
    columns: tuple[TypedColumn, ...]

    @property
    def there(self) -> str:
        """The table's name, as written in a statement."""
        return placed(self.dialect, self.schema, self.name)

    @property
    def create(self) -> str:
        """CREATE TABLE."""
        of = self.dialect
        create, options = of.staging
        return (
            f"{create} {self.there} ({declarations(of, self.columns)}, {of.quoted('_key')} {of.key} NOT NULL, "
            f"{of.quoted('_task')} {of.integer} NOT NULL) {options}{of.engine}"
        )

    @property
    def loaded(self) -> str:
        """The columns that tasks fill: those of the state, the key's text, the task."""
        return self.dialect.quoted(*(column.name for column in self.columns), "_key", "_task")

    def counted(self, connection: Connection, tasks: Sequence[int]) -> dict[int, int]:
        """Return the number of stored rows of each of these tasks."""
        task = self.dialect.quoted("_task")
        count = f"SELECT {task}, count(*) FROM {self.there} WHERE {task} {self.dialect.among} GROUP BY {task}"
        return dict(connection.execute(count, [self.dialect.listed(list(tasks))]).fetchall())

    @property
    def shared_key(self) -> str:
        """SQL that finds the text of a key that several of some tasks have staged."""
        key, task = self.dialect.quoted("_key"), self.dialect.quoted("_task")
        found = f"SELECT {key} FROM {self.there} WHERE {task} {self.dialect.among}"
        return f"{found} GROUP BY {key} HAVING count(*) > 1 LIMIT 1"

    @property
    def rows(self) -> str:
        """SQL that finds the rows of some tasks: the key's text, the columns."""
        names = self.dialect.quoted("_key", *(column.name for column in self.columns))
        return f"SELECT {names} FROM {self.there} WHERE {self.dialect.quoted('_task')} {self.dialect.among}"

    @property
    def drop(self) -> str:
        """DROP TABLE IF EXISTS."""
        return f"DROP TABLE IF EXISTS {self.there}"


class AnyTable:
    """The common part of tables under a fence: a name, columns, and staging tables of attempts.

    Attributes:
        schema: the table's schema; known after the database was queried.
    """

    dialect: Dialect
    name: str
    schema: str

    @property
    @abstractmethod
    def fields(self) -> tuple[TypedColumn, ...]:
        """The columns without those for bookkeeping: keys and value of a state, or the fields of a sink's rows."""

    @property
    def there(self) -> str:
        """The table's name, as written in a statement."""
        return placed(self.dialect, self.schema, self.name)

    def staging(self, epoch: int, txid: int, attempt: int) -> Staging:
        """Return the staging table of an attempt; its name is never used again, because each epoch has one leader."""
        return self.staged(f"_{self.name}_{epoch}_{txid}_{attempt}")

    def staged(self, name: str) -> Staging:
        """Return the staging table of this name.

        Raises:
            StateError: the database would cut the name off, which could make it the name of another attempt's table.
        """
        if len(name) > self.dialect.longest_name:
            raise StateError(
                f"table {self.name!r}: {name!r} is longer than {self.dialect.database}'s names; to fix this: use a "
                f"shorter name of the table"
            )
        return Staging(self.dialect, self.schema, name, self.fields)

    @property
    def find_staged(self) -> str:
        """SQL that finds tables that may be staging tables of this one; bound are the schema and, twice, `prefix`."""
        return (
            "SELECT table_name FROM information_schema.tables WHERE table_schema = %s "
            "AND left(table_name, char_length(%s)) = %s"
        )

    @property
    def prefix(self) -> str:
        """The prefix of its staging tables' names."""
        return f"_{self.name}_"

    def epoch_of(self, name: str) -> int | None:
        """Return the epoch of the staging table ``name``; None: it is not a staging table of this one."""
        found = re.fullmatch(rf"_{self.name}_(\d+)_\d+_\d+", name)
        return int(found[1]) if found else None


@frozen
class Table(AnyTable):
    """A state's table: its key columns, its value, and the columns to undo the last transaction.

    There is no index by ``_txid``, which would make each commit half as slow again. An undo is rare: it happens only if
    a leader died after the commit of the state and before the commit of the topology's record.

    Attributes:
        schema: the table's schema; known after the database was queried.
        timed: whether its rows have write times, as with a ``ttl``; known after the database was queried.
        made: the number that another table of this name would not have; None: an older release has made it.
    """

    dialect: Dialect
    name: str
    keys: tuple[TypedColumn, ...]
    value: TypedColumn
    schema: str = ""
    timed: bool = False
    made: int | None = None
    columns: str = field(init=False)
    """The declared fields, to be compared with the fields of the existing table."""

    @columns.default
    def _declared(self) -> str:
        return declared((*self.keys, self.value))

    @classmethod
    def of(cls, dialect: Dialect, name: str, keys: t.StructType, value: t.StructField) -> Table:
        """Return the table for these fields.

        Raises:
            StateError: a column can't have one of the types or names.
        """
        columns = [dialect.column_of(spec) for spec in (*keys.fields, value)]
        check_distinct(columns, "SQL")
        return cls(dialect, name, tuple(map(as_key, columns[:-1])), columns[-1])

    @property
    def headers(self) -> Headers:
        """The table of headers."""
        return Headers(self.dialect, self.schema)

    @property
    def fields(self) -> tuple[TypedColumn, ...]:
        """The key columns, then the value."""
        return (*self.keys, self.value)

    @property
    def create(self) -> str:
        """CREATE TABLE; ``_born`` is the txid that created the row, ``_prev`` the value before ``_txid`` changed it."""
        return self.create_as(self.name)

    def create_as(self, name: str) -> str:
        """Return CREATE TABLE for this table under another name, which is temporary."""
        of = self.dialect
        return (
            f"CREATE TABLE {placed(of, self.schema, name)} ({declarations(of, (*self.keys, self.value))}, "
            f"{of.quoted('_key')} {of.key} NOT NULL {of.marked_key.format(self.mark)}, "
            f"{of.quoted('_txid')} {of.integer} NOT NULL, {of.quoted('_prev')} {self.value.storage}, "
            f"{of.quoted('_born')} {of.integer} NOT NULL) "
            f"{of.options}{of.engine}"
        )

    @property
    def mark(self) -> str:
        """The mark that is written into the table when it is made; a table that another program makes lacks it."""
        return f"_{self.name}_made_{self.made}"

    @property
    def removed(self) -> str:
        """The name of the table of rows that the last transaction has removed."""
        return f"_{self.name}_removed"

    def check(self, found: FoundTable) -> None:
        """Check that the table is the one that was made, with the same columns.

        Raises:
            StateError: it was changed in a way that changes or loses values.
        """
        if found.is_gone:
            raise StateError("it is gone; to fix this: restore it from a backup")
        for name, storage in self._made_columns():
            column, made = found.column(name), self.dialect.as_found(storage)
            if column is None or column.written not in made:
                now = "is gone" if column is None else f"is {column.written}"
                raise StateError(
                    f"its column {name!r} was made as {made[0]} and {now}; to fix this: alter the table back"
                )
        if found.keys not in (None, ONLY_KEY):
            raise StateError(
                f"its only unique key was _key, and there are {found.keys or 'none'}; to fix this: drop the others, "
                f"and restore the primary key"
            )
        if self.made is not None and found.mark != self.mark:
            raise StateError(
                f"it was dropped and made again by another program, or its primary key was; its values may be lost; "
                f"to fix this: restore the table from a backup; or, if it has all values as they were committed, run: "
                f"UPDATE {self.headers.there} SET made = NULL WHERE state = '{self.name}'"
            )

    def _made_columns(self) -> Iterator[tuple[str, str]]:
        of = self.dialect
        yield from ((column.name, column.storage) for column in self.fields)
        yield "_key", of.key
        yield "_prev", self.value.storage
        yield from ((name, of.integer) for name in ("_txid", "_born"))
        yield from ((name, "bigint") for name in ("_time", "_prev_time") if self.timed)

    def set_aside(self, incarnation: int) -> str:
        """Return SQL that renames the table of an older incarnation."""
        aside = placed(self.dialect, "", f"_{self.name}_incarnation_{incarnation}")
        return f"ALTER TABLE {self.there} RENAME TO {aside}"

    def add_times(self, number: int, there: str = "") -> list[str]:
        """Return SQL that adds write times to the rows, with an index by them, of which the name has ``number``.

        ``there`` is the table's temporary name, if it has one.
        """
        of = self.dialect
        return [each.format(there or self.there, of.quoted(f"_{self.name}_times_{number}")) for each in of.times]

    @property
    def read(self) -> str:
        """SQL that finds key texts and values of keys that have not expired; bound are the key texts, then `alive`."""
        key, value = self._quoted("_key"), self._quoted(self.value.name)
        return f"SELECT {key}, {value} FROM {self.there} WHERE {key} {self.dialect.among}{self._is_alive}"

    def values(self, connection: Connection, texts: Sequence[str]) -> dict[str, Any]:
        """Return the values of the keys with these texts; a key without a row, or an expired one, is left out."""
        found: dict[str, Any] = {}
        for start in range(0, len(texts), READ_MAX):
            some = [self.dialect.listed(list(texts[start : start + READ_MAX])), *self.alive]
            found.update(
                (text, self.value.loaded(value)) for text, value in connection.execute(self.read, some).fetchall()
            )
        return found

    @property
    def read_all(self) -> str:
        """SQL that finds the key columns and value of each row that has a value and isn't expired; bound is `alive`."""
        names = self._quoted(*(column.name for column in (*self.keys, self.value)))
        return f"SELECT {names} FROM {self.there} WHERE {self._quoted(self.value.name)} IS NOT NULL{self._is_alive}"

    @property
    def alive(self) -> list[str]:
        """The bound values of the condition that leaves out expired rows."""
        return [self.name] * 2 if self.timed else []

    @property
    def _is_alive(self) -> str:
        if not self.timed:
            return ""
        one = self.headers.one
        return f" AND coalesce({self._quoted('_time')}, {one('ttl_since')}, 0) > coalesce({one('expired')}, -1)"

    def upsert(self, merge: str | None, rows: int = 1) -> str:
        """Return SQL that sets or merges some values.

        Bound are, for each row, key columns, value, ``_key``, and the values of `stamp`.
        """
        marks = f"({self.dialect.marks(len(self.keys) + 2 + len(self.stamp(0, 0)))})"
        return self._upsert(f"VALUES {', '.join([marks] * rows)}", merge)

    def merge(self, staging: Staging, merge: str | None) -> str:
        """Return SQL that merges the staged rows; bound are the values of `stamp`, and tasks."""
        of = self.dialect
        names = of.quoted(*(column.name for column in staging.columns), "_key")
        task, marks = of.quoted("_task"), of.marks(len(self.stamp(0, 0)))
        return self._upsert(
            f"SELECT {names}, {marks} FROM {staging.there} AS {of.quoted('_staged')} WHERE {task} {of.among}",
            merge,
        )

    def stored(self, keys: Sequence[Sequence[Any]], values: Sequence[Any]) -> list[Any]:
        """Return the stored values of each column, those of the key first.

        Raises:
            UnfitError: a value doesn't fit its column.
        """
        try:
            return [*stored_rows(self.keys, keys), self.value.stored(values)]
        except UnfitError as error:
            rows = ((*key, value) for key, value in zip(keys, values, strict=True))
            row = next(row for row in rows if any(part is error.value for part in row))
            raise error.in_row(self.fields, row) from error.__cause__

    def stamp(self, txid: int, time: int) -> tuple[int, ...]:
        """Return the bookkeeping of a transaction's rows: its txid, twice, and its time if rows have times."""
        return (txid, txid, time) if self.timed else (txid, txid)

    def _upsert(self, rows: str, merge: str | None) -> str:
        of, old, times = self.dialect, self._quoted(self.name), ["_time"] if self.timed else []
        names = self._quoted(*(column.name for column in (*self.keys, self.value)), "_key", "_txid", "_born", *times)
        key, txid, prev, value = (self._quoted(name) for name in ("_key", "_txid", "_prev", self.value.name))
        merged = of.merges[merge].format(old=f"{old}.{value}", new=of.new.format(value))
        is_same = f"{old}.{txid} = {of.new.format(txid)}"
        kept = [(prev, f"CASE WHEN {is_same} THEN {old}.{prev} ELSE {old}.{value} END")]
        new = [(value, merged), (txid, of.new.format(txid))]
        for time in map(self._quoted, times):
            before = self._quoted("_prev_time")
            kept.append((before, f"CASE WHEN {is_same} THEN {old}.{before} ELSE {old}.{time} END"))
            new.append((time, of.new.format(time)))
        # In this order: MySQL assigns from left to right.
        changes = ", ".join(f"{name} = {its}" for name, its in (*kept, *new))
        return f"INSERT INTO {self.there} ({names}) {rows} {of.conflict.format(key)} {changes}"

    @property
    def undo(self) -> tuple[tuple[str, int], ...]:
        """SQL that undoes a transaction: statements, each with the number of times that the txid is bound."""
        txid, born, mark = self._quoted("_txid"), self._quoted("_born"), self.dialect.mark
        value, prev = self._quoted(self.value.name), self._quoted("_prev")
        time = f", {self._quoted('_time')} = {self._quoted('_prev_time')}" if self.timed else ""
        return (
            (f"DELETE FROM {self.there} WHERE {txid} = {mark} AND {born} = {mark}", 2),
            (f"UPDATE {self.there} SET {value} = {prev}{time} WHERE {txid} = {mark}", 1),
        )

    def _quoted(self, *names: str) -> str:
        return self.dialect.quoted(*names)


def placed(dialect: Dialect, schema: str, name: str) -> str:
    """Return a table's name as written in a statement: with its schema, if there is one."""
    return f"{dialect.quoted(schema)}.{dialect.quoted(name)}" if schema else dialect.quoted(name)


def declarations(dialect: Dialect, columns: Sequence[TypedColumn]) -> str:
    """Return the columns as written in CREATE TABLE."""
    return ", ".join(
        f"{dialect.quoted(column.name)} {column.storage}{column.check.format(dialect.quoted(column.name))}"
        for column in columns
    )


def stored_rows(columns: Sequence[TypedColumn], keys: Sequence[Sequence[Any]]) -> list[Any]:
    """Return the stored values of each key column."""
    return [column.stored(part) for column, part in zip(columns, zip(*keys, strict=True), strict=True)]
