"""How keys leave the table of a SQL state: removed by a transaction, or expired; and how that is taken back."""
# ruff: noqa: S608 - every name in a statement was checked, or is quoted; values are always bound

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from attrs import define, field, frozen

from trident_py.interfaces.sinks import SinkTransaction
from trident_py.interfaces.states import Key
from trident_py.states.expiry import Expiry, portion
from trident_py.states.keys import encode_keys
from trident_py.states.sql.columns import loaded_rows
from trident_py.states.sql.dialect import Connection, Database
from trident_py.states.sql.table import Staging, Table, declarations, placed, stored_rows

KEYS_MAX = 1_000
"""Of keys that one statement takes out."""

Condition: TypeAlias = tuple[str, Sequence[Any]]
"""Which rows of the state's table, and what is bound in it."""


@frozen
class ChangedKey:
    """A key that a transaction has changed.

    Attributes:
        is_new: whether it was not there before.
    """

    key: Key
    is_new: bool


@frozen
class RemovedRows:
    """The statements over a table beside a state's: what its last transaction took out, until the next one commits."""

    table: Table

    @property
    def name(self) -> str:
        """Return its name."""
        return f"_{self.table.name}_removed"

    @property
    def there(self) -> str:
        """Return its name as it stands in a statement."""
        return placed(self.table.dialect, self.table.schema, self.name)

    @property
    def create(self) -> str:
        """Return CREATE TABLE; ``_time`` is when the row was written, NULL where the state doesn't know."""
        of, integer = self.table.dialect, self.table.dialect.integer
        return (
            f"CREATE TABLE {self.there} ({declarations(of, self.table.fields)}, "
            f"{of.quoted('_key')} {of.key} NOT NULL PRIMARY KEY, {of.quoted('_txid')} {integer} NOT NULL, "
            f"{of.quoted('_born')} {integer} NOT NULL, {of.quoted('_time')} {integer}) {of.options}{of.engine}"
        )

    @property
    def drop(self) -> str:
        """Return DROP TABLE."""
        return f"DROP TABLE {self.there}"

    @property
    def forget(self) -> str:
        """Return what empties it."""
        return f"DELETE FROM {self.there}"

    def keep(self, condition: str) -> str:
        """Return what copies rows as they were before a transaction, but those that it has made itself.

        Bound are its txid, as often as `kept` says, then what ``condition`` binds.
        """
        quoted, mark, timed = self.table.dialect.quoted, self.table.dialect.mark, self.table.timed
        txid, born = quoted("_txid"), quoted("_born")
        value = f"CASE WHEN {txid} = {mark} THEN {quoted('_prev')} ELSE {quoted(self.table.value.name)} END"
        time = f", CASE WHEN {txid} = {mark} THEN {quoted('_prev_time')} ELSE {quoted('_time')} END" if timed else ""
        keys = "".join(f"{quoted(column.name)}, " for column in self.table.keys)
        return (
            f"INSERT INTO {self.there} ({self._columns}) SELECT {keys}{value}, {quoted('_key')}, {mark}, {born}{time} "
            f"FROM {self.table.there} WHERE {born} <> {mark} AND {condition}"
        )

    @property
    def kept(self) -> int:
        """Return how often `keep` binds the txid."""
        return 4 if self.table.timed else 3

    def delete(self, condition: str) -> str:
        """Return what deletes rows of the state's table."""
        return f"DELETE FROM {self.table.there} WHERE {condition}"

    @property
    def restore(self) -> str:
        """Return what puts everything back; each row counts as changed by the transaction that took it out.

        What `remember` keeps was not there before it.
        """
        quoted, value = self.table.dialect.quoted, self.table.dialect.quoted(self.table.value.name)
        prev = quoted("_prev", "_prev_time") if self.table.timed else quoted("_prev")
        before = f"{value}, {quoted('_time')}" if self.table.timed else value
        return (
            f"INSERT INTO {self.table.there} ({self._columns}, {prev}) SELECT {self._columns}, {before} "
            f"FROM {self.there} WHERE {quoted('_born')} <> {quoted('_txid')}"
        )

    @property
    def changed(self) -> str:
        """Return what finds the keys that a transaction has changed, and by which each was made.

        Bound is its txid, twice.
        """
        of = self.table.dialect
        found = f"SELECT {of.quoted(*self._keys, '_born')} FROM {{}} WHERE {of.quoted('_txid')} = {of.mark}"
        return f"{found.format(self.table.there)} UNION ALL {found.format(self.there)}"

    def remember(self, rows: int) -> str:
        """Return what keeps keys that are gone with the attempt that made them.

        Bound are, of each, its columns, ``_key``, and the txid, twice.
        """
        of = self.table.dialect
        marks = ", ".join([f"({of.marks(len(self._keys) + 2)})"] * rows)
        return f"INSERT INTO {self.there} ({of.quoted(*self._keys, '_txid', '_born')}) VALUES {marks}"

    @property
    def _keys(self) -> list[str]:
        return [*(column.name for column in self.table.keys), "_key"]

    @property
    def _columns(self) -> str:
        names = [*(column.name for column in self.table.fields), "_key", "_txid", "_born"]
        return self.table.dialect.quoted(*names, *(["_time"] if self.table.timed else []))

    @property
    def written_first(self) -> str:
        """Return what finds times and keys of rows in that order; bound are the latest time and how many."""
        return self._first("_time", "_key", written=f"<= {self.table.dialect.mark}")

    @property
    def without_time(self) -> str:
        """Return what finds keys of rows without a time, in their order; bound is how many."""
        return self._first("_key", written="IS NULL")

    def _first(self, *names: str, written: str) -> str:
        quoted, mark = self.table.dialect.quoted, self.table.dialect.mark
        return (
            f"SELECT {quoted(*names)} FROM {self.table.there} WHERE {quoted('_time')} {written} "
            f"ORDER BY {quoted('_time', '_key')} LIMIT {mark}"
        )


@define
class Removals:
    """Takes keys out of a state's table within its transactions, and puts them back when one is undone.

    What a transaction took out is kept until the next one commits. What it touches and what had expired before is taken
    out first, so that everything starts anew for such a key; of other keys that have expired, each transaction takes a
    portion, in the order of times and keys.

    Attributes:
        ttl: how long a key stays without a write, in milliseconds; None: for ever.
        expiry: which keys have expired by the open transaction.
    """

    rows: RemovedRows
    ttl: int | None
    expiry: Expiry = field(factory=Expiry, init=False)
    _txid: int | None = field(default=None, init=False)  # of the open transaction
    _written: int = field(default=0, init=False)
    _has_expired: bool = field(default=False, init=False)  # whether the table had a row that had expired
    _has_untimed: bool = field(default=True, init=False)  # whether it may have a row without a time
    _has_taken: bool = field(default=False, init=False)
    _keeps: bool = field(default=True, init=False)  # whether the last commit may have left something to put back

    def begin(self, connection: Connection, expiry: Expiry, undo: int | None) -> None:
        """Begin transactions that commit together; put back what ``undo`` took out, which is to be undone."""
        self._txid, self._has_taken, self.expiry = None, self._keeps, expiry
        if undo is not None:
            for statement, times in self.rows.table.undo:
                connection.execute(statement, [undo] * times)
            connection.execute(self.rows.restore)
            self._has_taken = True

    def begin_member(self, connection: Connection, tx: SinkTransaction) -> None:
        """Begin with ``tx``: what was taken out before can't be put back any more, if it commits."""
        self.end_member(connection)
        if self._has_taken:
            connection.execute(self.rows.forget)
        self._txid, self._written, self._has_taken = tx.txid, 0, False
        before, self.expiry = self.expiry, self.expiry.after(tx.time, self.ttl)
        if self.expiry != before:
            table = self.rows.table
            connection.execute(table.headers.write_expiry, [self.expiry.since, self.expiry.upto, table.name])
        self._has_expired = self.rows.table.timed and bool(self._expired(connection, 1))

    def end_member(self, connection: Connection) -> None:
        """End the open transaction, if there is one: take out a portion of what has expired."""
        if self._txid is not None and self._has_expired:
            self.take(connection, [key for _, key in self._expired(connection, portion(self._written))])

    def committed(self) -> None:
        """Note that the transactions are durable."""
        self._keeps = self._has_taken

    def changed(self, connection: Connection, txid: int) -> list[ChangedKey]:
        """Return the keys that attempts of a transaction have changed; before it is undone."""
        keys = self.rows.table.keys
        found = connection.execute(self.rows.changed, [txid, txid]).fetchall()
        by_text = {
            row[len(keys)]: ChangedKey(loaded_rows(keys, [row[: len(keys)]])[0], row[-1] == txid) for row in found
        }
        return [by_text[text] for text in sorted(by_text)]

    def remember(self, database: Database, connection: Connection, keys: Sequence[Key]) -> None:
        """Keep keys that the open transaction's attempts have made until now, for the next one of them."""
        columns = [*stored_rows(self.rows.table.keys, keys), encode_keys(keys)]
        rows = [(*row, self._txid, self._txid) for row in zip(*columns, strict=True)]
        database.write(connection, self.rows.remember, rows)
        self._has_taken = True

    def take(self, connection: Connection, texts: Sequence[str]) -> None:
        """Take these keys out."""
        for some in _pieces(sorted(texts)):
            self._take(connection, self._among(some))

    def before_write(self, connection: Connection, texts: Sequence[str]) -> None:
        """Take out what has expired of these keys, which are to be written."""
        self._written += len(texts)
        for some in _pieces(texts) if self._has_expired else ():
            self._take_expired(connection, self._among(some))

    def before_merge(self, connection: Connection, staging: Staging, tasks: Any, count: int) -> None:
        """Take out what has expired of the keys that these tasks have staged."""
        self._written += count
        if self._has_expired:
            of = staging.dialect
            staged = f"SELECT {of.quoted('_key')} FROM {staging.there} WHERE {of.quoted('_task')} {of.among}"
            self._take_expired(connection, (f"{of.quoted('_key')} IN ({staged})", [tasks]))

    def _take_expired(self, connection: Connection, which: Condition) -> None:
        of, (condition, bound) = self.rows.table.dialect, which
        expired = f"coalesce({of.quoted('_time')}, {of.mark}) <= {of.mark}"
        self._take(connection, (f"{condition} AND {expired}", [*bound, self.expiry.since, self.expiry.upto]))

    def _take(self, connection: Connection, which: Condition) -> None:
        condition, bound = which
        connection.execute(self.rows.keep(condition), [*[self._txid] * self.rows.kept, *bound])
        connection.execute(self.rows.delete(condition), list(bound))
        self._has_taken = True

    def _among(self, texts: Sequence[str]) -> Condition:
        of = self.rows.table.dialect
        return f"{of.quoted('_key')} {of.among}", [of.listed(list(texts))]

    def _expired(self, connection: Connection, count: int) -> list[tuple[int, str]]:
        """Return the first keys that have expired, with their times, in the order of times and keys."""
        since, upto = self.expiry.since, self.expiry.upto
        if upto is None or since is None:
            return []
        rows = connection.execute(self.rows.written_first, [upto, count]).fetchall()
        found: list[tuple[int, str]] = [(time, key) for time, key in rows]
        if self._has_untimed and since <= upto:
            untimed = connection.execute(self.rows.without_time, [count]).fetchall()
            self._has_untimed = bool(untimed)
            found += [(since, key) for (key,) in untimed]
        return sorted(found)[:count]


def _pieces(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    return (texts[first : first + KEYS_MAX] for first in range(0, len(texts), KEYS_MAX))
