"""Reading a state in shards by its central token: what a reader sees doesn't depend on which shards are ahead.

A shard may be one commit after the central token. That commit is the next transaction, or another attempt of the
central one. In the first case, its rows say what was there before. In the second case, that is what was there before
both attempts, and over it come the changes of the central one, which the shard has kept.

A connection to the central file attaches the shards, and gets a temporary view of the table. SQLite can't store such a
view: a stored one sees only its own file. So the script that makes it is stored instead.
"""
# ruff: noqa: S608 - every name in a statement was checked, or is quoted; values are literals of ours

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from trident_py.errors import StateError, StoreBusyException
from trident_py.states.sql.columns import declared_fields
from trident_py.states.sql.reading import TableReader
from trident_py.states.sql.shard import ShardTables
from trident_py.states.sql.sqlite_database import SQLiteDatabase, SQLiteLink
from trident_py.states.sql.table import HEADERS, Headers, Table, placed

if TYPE_CHECKING:
    from trident_py.states.sql.dialect import Connection

READ_TRIES = 1_000
"""How often a reader begins again because shards have committed meanwhile; each time takes less than a commit."""

_MOVED = "the shards have committed while this read began: run it again, after "


def bookkeeping(table: str) -> str:
    """Return the name of the central table of a state in shards."""
    return f"_{table}_shards"


@frozen
class ShardPlace:
    """A shard as a reader sees it.

    Attributes:
        number: from 0 on.
        path: the file.
        table: its table.
    """

    number: int
    path: Path
    table: Table

    @property
    def schema(self) -> str:
        """The name under which its file is attached."""
        return f"shard{self.number}"

    def placed(self, name: str) -> str:
        """Return a table of the shard, as written in a statement."""
        return placed(self.table.dialect, self.schema, name)


@frozen
class ShardsView:
    """The SQL of the view over the shards of a state.

    Attributes:
        table: the state's table, as users name it.
        shards: all shards.
    """

    table: Table
    shards: Sequence[ShardPlace]

    @property
    def script(self) -> str:
        """SQL that makes the view on a connection to the central file."""
        attach = [f"ATTACH {_text(str(each.path))} AS {each.schema}" for each in self.shards]
        arms = [arm for each in self.shards for arm in (self._rows(each), self._removed(each), self._replaced(each))]
        names = self._quoted(*(column.name for column in self.table.fields), "_key")
        made = f"CREATE TEMP VIEW {self._quoted(self.table.name)} ({names}) AS {' UNION ALL '.join(arms)}"
        return ";\n".join([*attach, self._apart, made, ""])

    @property
    def _apart(self) -> str:
        """A view of the shards that this read sees neither at the central token nor one commit after it."""
        shards = " UNION ALL ".join(
            f"SELECT {each.number} AS number, s.txid, ({_token('s')}) IS ({_token('c')}) OR ({_token('b')}) IS "
            f"({_token('c')}) AS fits FROM {self._tokens(each)}"
            for each in self.shards
        )
        return (
            f"CREATE TEMP VIEW {self._quoted(apart(self.table.name))} AS SELECT number, txid FROM ({shards}) "
            f"WHERE NOT fits"
        )

    def _tokens(self, shard: ShardPlace) -> str:
        """Return the tokens, as the tables of a query.

        These are ``c``, the central one, ``s``, the shard's own one, and ``b``, the central one before the shard's
        last commit.
        """
        return (
            f"main.{HEADERS} AS c JOIN {shard.schema}.{HEADERS} AS s ON c.state = {_text(self.table.name)} "
            f"AND s.state = {_text(shard.table.name)} JOIN {shard.placed(ShardTables(shard.table).after)} AS b"
        )

    def _seen(self, shard: ShardPlace) -> str:
        """Return a query with one row that says which transactions of the shard are seen.

        ``replaces`` is 1 if the shard has another attempt of the central transaction. ``upto`` is the last transaction
        that is seen in its own rows.
        """
        # The check is made even if no row of the shard is found: it depends on the tokens only.
        check = (
            f"CASE WHEN EXISTS (SELECT 1 FROM {self._quoted(apart(self.table.name))}) "
            f"THEN json_extract('{{}}', {_text(_MOVED)} || coalesce(c.txid, 0)) IS NULL ELSE c.state IS NOT NULL END"
        )
        replaces = "coalesce(s.txid = c.txid AND (s.epoch, s.attempt_id) <> (c.epoch, c.attempt_id), 0)"
        # LIMIT: else SQLite would put these expressions into the outer query, and compute them for each row.
        return (
            f"SELECT {replaces} AS replaces, coalesce(c.txid, 0) - {replaces} AS upto, coalesce(c.ttl_since, 0) AS "
            f"since, coalesce(c.expired, -1) AS expired FROM {self._tokens(shard)} WHERE {check} LIMIT 1"
        )

    def _rows(self, shard: ShardPlace) -> str:
        """Return the rows of the shard, with the values before its last commit if that is not seen."""
        before = self._shown("_prev", self.table.value.name)
        alive = self._alive(self._shown("_prev_time", "_time"))
        return self._arm(shard, shard.table.name, before, f"r._born <= v.upto{alive}{self._not_replaced(shard)}")

    def _removed(self, shard: ShardPlace) -> str:
        """Return the rows that only a commit which is not seen has removed."""
        # In the form of the other arms, of the same affinity: else SQLite would read all rows to find one key.
        value, alive = self._shown(self._quoted(self.table.value.name), self.table.value.name), self._alive("r._time")
        condition = f"r._txid > v.upto AND r._born <= v.upto{alive}{self._not_replaced(shard)}"
        return self._arm(shard, shard.table.removed, value, condition)

    def _replaced(self, shard: ShardPlace) -> str:
        """Return the rows that the central attempt has written, if the shard has another attempt."""
        value = f"CASE WHEN v.replaces THEN r.{self._quoted(self.table.value.name)} END"
        return self._arm(
            shard, ShardTables(shard.table).replaced, value, f"v.replaces AND r._gone = 0{self._alive('r._time')}"
        )

    def _not_replaced(self, shard: ShardPlace) -> str:
        kept = f"SELECT 1 FROM {shard.placed(ShardTables(shard.table).replaced)} AS k WHERE k._key = r._key"
        return f" AND NOT (v.replaces AND EXISTS ({kept}))"

    def _arm(self, shard: ShardPlace, table: str, value: str, condition: str) -> str:
        keys = "".join(f"r.{self._quoted(column.name)}, " for column in self.table.keys)
        # CROSS JOIN, so the check comes before any row.
        return (
            f"SELECT {keys}{value}, r._key FROM ({self._seen(shard)}) AS v CROSS JOIN {shard.placed(table)} AS r "
            f"WHERE {condition}"
        )

    def _shown(self, before: str, now: str) -> str:
        return f"CASE WHEN r._txid > v.upto THEN r.{before} ELSE r.{self._quoted(now)} END"

    def _alive(self, time: str) -> str:
        return f" AND coalesce({time}, v.since) > v.expired" if self.shards[0].table.timed else ""

    def _quoted(self, *names: str) -> str:
        return self.table.dialect.quoted(*names)


def apart(table: str) -> str:
    """Return the name of the view of shards that can't be read together now."""
    return f"_{table}_apart"


def _token(source: str) -> str:
    return f"{source}.txid, {source}.epoch, {source}.attempt_id"


def _text(value: str) -> str:
    escaped = value.replace("'", "''")
    return f"'{escaped}'"


class ShardsLink(SQLiteLink):
    """A connection for reading all shards as of one central token."""

    def __init__(self, path: Path, table: str) -> None:
        super().__init__(path, str(path), is_reader=True)
        self._table = table

    def begin(self) -> sqlite3.Connection:
        """Begin a transaction in which all shards are at the central token, or one transaction ahead.

        Raises:
            StoreBusyException: shards have committed each time.
        """
        apart_now = f'SELECT 1 FROM "{apart(self._table)}"'
        for _ in range(READ_TRIES):
            connection = super().begin()
            if connection.execute(apart_now).fetchone() is None:
                return connection
        self.rollback()
        raise StoreBusyException(f"table {self._table!r} of {self._path}: its shards changed whenever it was read")

    def _opened(self) -> sqlite3.Connection:
        connection = super()._opened()
        try:
            find = f'SELECT script FROM "{bookkeeping(self._table)}"'
            ((script,),) = connection.execute(find).fetchall()
            connection.executescript(script)
        except BaseException:
            connection.close()
            raise
        return connection


@frozen
class ShardedDatabase(SQLiteDatabase):
    """The central file of a state in shards.

    Attributes:
        table: the state's table.
        shards: their number.
    """

    table: str
    shards: int

    def beside(self) -> SQLiteLink:
        """Return a connection for reading the shards."""
        return ShardsLink(self.path, self.table)


class ShardedTableReader(TableReader):
    """Values by key of a state in shards, as of the central token."""

    @classmethod
    def of_shards(cls, database: ShardedDatabase) -> TableReader:
        """Return the reader of the state in ``database``.

        Raises:
            StateError: no topology has made it with so many shards, or it can't be read.
        """
        link = SQLiteLink(database.path, str(database.path), is_reader=True)
        reader = cls(database, database.table)
        if not database.exists:
            raise reader._missing()
        try:
            with database.starting(reader._name), link.transaction() as connection:
                found = _stored_columns(connection, database.table)
        finally:
            link.close()
        columns, shards = split_columns(found or "")
        if shards != database.shards:
            raise wrong_number(reader._name, shards, database.shards) if found else reader._missing()
        return cls.of_table(database, Table.of(database.dialect, database.table, *declared_fields(columns)))

    @classmethod
    def of_table(cls, database: ShardedDatabase, table: Table) -> ShardedTableReader:
        """Return the reader of a state with these fields, which exists."""
        reader = cls(database, database.table)
        reader._table = evolve(table, schema="temp")
        return reader


def _stored_columns(connection: Connection, table: str) -> str | None:
    """Return the fields and the number of shards, as stored; None: no topology has made the table."""
    headers = Headers(SQLiteDatabase.dialect, "")
    if connection.execute(headers.dialect.has_table, ["", HEADERS]).fetchone() is None:
        return None
    headers.check_version(connection)
    row = connection.execute(headers.declared, [table]).fetchone()
    return row[0] if row else None


def join_columns(columns: str, shards: int) -> str:
    """Return the declared fields with the number of shards, as stored in the central header."""
    return f"{columns} in {shards} shards"


def split_columns(stored: str) -> tuple[str, int]:
    """Return the declared fields and the number of shards; 1: the state is in one table."""
    columns, _, number = stored.removesuffix(" shards").rpartition(" in ")
    return (columns, int(number)) if stored.endswith(" shards") and number.isdigit() else (stored, 1)


def wrong_number(where: str, stored: int, declared: int) -> StateError:
    """Return the error for a state that was made with another number of shards."""
    made = f"has {stored} shards" if stored > 1 else "was made without shards"
    return StateError(
        f"{where} {made}, declared are {declared}, and the shard of a key depends on their number; to fix this: "
        f"declare shards={stored}; or use another table, and let a second topology fill it"
    )
