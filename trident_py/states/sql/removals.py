"""The keys that the transactions of a SQL state remove, and how they are put back when one is undone."""
# ruff: noqa: S608 - every name in a statement was checked, or is quoted; values are always bound

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from attrs import define, field, frozen

from trident_py.interfaces.sinks import SinkTransaction
from trident_py.interfaces.states import Key
from trident_py.states.fenced import Expiry, portion
from trident_py.states.keys import encode_keys
from trident_py.states.sql.columns import loaded_rows
from trident_py.states.sql.dialect import Connection, Database
from trident_py.states.sql.table import Staging, Table, declarations, placed, stored_rows

KEYS_MAX = 1_000
"""The number of keys that one statement removes."""

Condition: TypeAlias = tuple[str, Sequence[Any]]
"""A condition on rows of the state's table, and the values bound in it."""


@frozen
class ChangedKey:
    """A key that a transaction has changed.

    Attributes:
        is_new: whether the transaction created it.
    """

    key: Key
    is_new: bool


@frozen
class RemovedRows:
    """The statements over the table of removed rows: it keeps the rows that the last transaction removed.

    The rows stay until the next transaction commits.
    """

    table: Table

    @property
    def name(self) -> str:
        """The name of the table."""
        return f"_{self.table.name}_removed"

    @property
    def there(self) -> str:
        """The table's name, as written in a statement."""
        return placed(self.table.dialect, self.table.schema, self.name)

    @property
    def create(self) -> str:
        """CREATE TABLE; ``_time`` is the write time of the row, NULL if the state doesn't keep write times."""
        of, integer = self.table.dialect, self.table.dialect.integer
        return (
            f"CREATE TABLE {self.there} ({declarations(of, self.table.fields)}, "
            f"{of.quoted('_key')} {of.key} NOT NULL PRIMARY KEY, {of.quoted('_txid')} {integer} NOT NULL, "
            f"{of.quoted('_born')} {integer} NOT NULL, {of.quoted('_time')} {integer}) {of.options}{of.engine}"
        )

    @property
    def drop(self) -> str:
        """DROP TABLE."""
        return f"DROP TABLE {self.there}"

    @property
    def forget(self) -> str:
        """SQL that empties the table."""
        return f"DELETE FROM {self.there}"

    def keep(self, condition: str) -> str:
        """Return SQL that copies the rows of ``condition`` to this table, as they were before a transaction.

        Rows created by the transaction are skipped. Bound are its txid, `kept` times, then the values of ``condition``.
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
        """The number of times that `keep` binds the txid."""
        return 4 if self.table.timed else 3

    def delete(self, condition: str) -> str:
        """Return SQL that deletes the rows of ``condition`` from the state's table."""
        return f"DELETE FROM {self.table.there} WHERE {condition}"

    @property
    def restore(self) -> str:
        """SQL that puts all rows back; each row counts as changed by the transaction that removed it.

        It skips the keys that `remember` stores, because they did not exist before the transaction.
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
        """SQL that finds the keys that a transaction has changed, and for each the txid that created it.

        Bound is the transaction's txid, twice.
        """
        of = self.table.dialect
        found = f"SELECT {of.quoted(*self._keys, '_born')} FROM {{}} WHERE {of.quoted('_txid')} = {of.mark}"
        return f"{found.format(self.table.there)} UNION ALL {found.format(self.there)}"

    def remember(self, rows: int) -> str:
        """Return SQL that records keys created by a rolled-back attempt; the next attempt can report them as deleted.

        Bound are, for each key, its columns, ``_key``, and the txid, twice.
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
        """SQL that finds times and keys of rows, in that order; bound are the latest time and the number of rows."""
        return self._first("_time", "_key", written=f"<= {self.table.dialect.mark}")

    @property
    def without_time(self) -> str:
        """SQL that finds keys of rows without a time, in their order; bound is the number of rows."""
        return self._first("_key", written="IS NULL")

    def _first(self, *names: str, written: str) -> str:
        quoted, mark = self.table.dialect.quoted, self.table.dialect.mark
        return (
            f"SELECT {quoted(*names)} FROM {self.table.there} WHERE {quoted('_time')} {written} "
            f"ORDER BY {quoted('_time', '_key')} LIMIT {mark}"
        )


@define
class Removals:
    """Removes keys from a state's table within its transactions, and puts them back when one is undone.

    The rows that a transaction removed are kept until the next one commits. If a key that it touches had expired
    before, the key is removed first, so that it starts without a value. Of the other expired keys, each transaction
    removes a portion, in the order of times and keys.

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
        """Begin transactions that commit together; if ``undo`` is a txid, undo that transaction first."""
        self._txid, self._has_taken, self.expiry = None, self._keeps, expiry
        if undo is not None:
            for statement, times in self.rows.table.undo:
                connection.execute(statement, [undo] * times)
            connection.execute(self.rows.restore)
            self._has_taken = True

    def begin_member(self, connection: Connection, tx: SinkTransaction) -> None:
        """Begin with ``tx``; if it commits, the removals of the transaction before can't be undone any more."""
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
        """End the open transaction, if there is one: remove a portion of the expired keys."""
        if self._txid is not None and self._has_expired:
            self.take(connection, [key for _, key in self._expired(connection, portion(self._written))])

    def committed(self) -> None:
        """Record that the transactions are durable."""
        self._keeps = self._has_taken

    def changed(self, connection: Connection, txid: int) -> list[ChangedKey]:
        """Return the keys that attempts of a transaction have changed; call it before the transaction is undone."""
        keys = self.rows.table.keys
        found = connection.execute(self.rows.changed, [txid, txid]).fetchall()
        by_text = {
            row[len(keys)]: ChangedKey(loaded_rows(keys, [row[: len(keys)]])[0], row[-1] == txid) for row in found
        }
        return [by_text[text] for text in sorted(by_text)]

    def remember(self, database: Database, connection: Connection, keys: Sequence[Key]) -> None:
        """Record keys created by earlier attempts of the open transaction, for its next attempt."""
        columns = [*stored_rows(self.rows.table.keys, keys), encode_keys(keys)]
        rows = [(*row, self._txid, self._txid) for row in zip(*columns, strict=True)]
        database.write(connection, self.rows.remember, rows)
        self._has_taken = True

    def take(self, connection: Connection, texts: Sequence[str]) -> None:
        """Remove the keys with these texts."""
        for some in _pieces(sorted(texts)):
            self._take(connection, self._among(some))

    def before_write(self, connection: Connection, texts: Sequence[str]) -> None:
        """Remove the expired keys among ``texts``, which will be written."""
        self._written += len(texts)
        for some in _pieces(texts) if self._has_expired else ():
            self._take_expired(connection, self._among(some))

    def before_merge(self, connection: Connection, staging: Staging, tasks: Any, count: int) -> None:
        """Remove the expired keys among the ``count`` keys that these tasks have staged."""
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
        """Return the first expired keys with their times, in the order of times and keys."""
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
