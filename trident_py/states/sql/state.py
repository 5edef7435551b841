"""The state that the factories of SQL states make: values by key in one table of any supported database."""
# ruff: noqa: S608 - every name in a statement was checked, or is quoted; values are always bound

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import localcontext
from functools import partial
from itertools import repeat
from operator import itemgetter
from typing import Any, TypeAlias

from attrs import define, evolve, field, frozen

from trident_py.errors import StateError, StoreBusyException
from trident_py.interfaces.operations import EXACT_DECIMALS, CombinerAggregator
from trident_py.interfaces.removal import REMOVE
from trident_py.interfaces.sinks import SinkTransaction
from trident_py.interfaces.states import FencedState, ITupleCollection, Key, ValueUpdater
from trident_py.states.fenced import Expiry, Fence, StateHeader, TableStep, portion
from trident_py.states.keys import encode_keys
from trident_py.states.sql.catalog import FoundTable
from trident_py.states.sql.columns import loaded_rows
from trident_py.states.sql.dialect import Connection, Database, ending_at_refusals
from trident_py.states.sql.merges import MergedChanges, can_combine
from trident_py.states.sql.migratable import MigratableTable
from trident_py.states.sql.migrating import MADE_MAX
from trident_py.states.sql.table import Staging, Table, declarations, placed, stored_rows

CHUNK_ROWS = 1_000  # the rows that user code combines between two statements


# large: the one place that writes to the table, in one transaction
class SQLMapState(MigratableTable, FencedState[Any], ITupleCollection):
    """Values by key in one table, each with its previous value; a header row holds fence and last token."""

    can_tell_rolled_back = True
    around_refusals = staticmethod(ending_at_refusals)

    def __init__(self, database: Database, table: Table, ttl: int | None = None) -> None:
        super().__init__(database, table)
        self._removals = Removals(RemovedRows(table), ttl)
        self._group: Sequence[SinkTransaction] = ()
        self._changed: Sequence[ChangedKey] = ()  # by older attempts of the open transaction
        self._commit_row: tuple[int | None, ...] = ()  # the token of the open transaction
        self._open: tuple[Connection, SinkTransaction, int] | None = None
        self._merged: MergedChanges | None = None  # not written yet
        self._merges = False  # whether the members of the open group are written together
        self._alone_upto = 0  # the last transaction that is written alone
        self._checked: object | None = None
        self._found: FoundTable | None = None

    def _claim(self, connection: Connection, fence: Fence, found: StateHeader | None, *, exists: bool) -> StateHeader:
        self._table = table = evolve(self._table, schema=self._headers.schema)
        claim = StateHeader(fence, self._owner, table.columns)
        header, step = claim.claimed(found, exists=exists, state=self._name)
        # In this order, a takeover may fail between two of the steps, and the next one continues from there: some
        # databases commit before and after each change of a table.
        if step is not TableStep.KEEP and self._exists(connection, RemovedRows(table).name):
            connection.execute(RemovedRows(table).drop)
        if step is TableStep.REPLACE and found:
            connection.execute(table.set_aside(found.fence.topology.incarnation))
        connection.execute(table.headers.write, [table.name, *header.row])
        made = secrets.randbelow(MADE_MAX)
        if step is TableStep.KEEP:
            ((made,),) = connection.execute(f"SELECT {table.headers.one('made')}", [table.name]).fetchall()
        self._table = table = evolve(table, made=made)
        if step is not TableStep.KEEP:
            connection.execute(table.headers.write_made, [made, table.name])
            connection.execute(table.create)
        self._make_room(connection, fence.topology.incarnation)
        self._found = None
        self._check_table(connection, f"topology {fence.topology.name!r}: {self._name}")
        return header

    def _check_table(self, connection: Connection, where: str) -> None:
        """Check that the table is unchanged since it was made; it stays unchanged until the transaction ends.

        Raises:
            StateError: it was changed.
        """
        table = self._table
        found = self._database.find_table(connection, table.schema, table.name, keys=True)
        if found != self._found:
            try:
                table.check(found)
            except StateError as error:
                raise StateError(f"{where} was changed by another program: {error}") from error
            self._found = found

    def _make_room(self, connection: Connection, incarnation: int) -> None:
        """Make the missing parts of the table: the table of removed rows, and write times if the state needs them."""
        table, ttl = self._table, self._removals.ttl
        if not self._exists(connection, RemovedRows(table).name):
            connection.execute(RemovedRows(table).create)
        has_column = [table.schema, table.name, "_time"]
        is_timed = connection.execute(table.dialect.has_column, has_column).fetchone() is not None
        for statement in table.add_times(incarnation) if ttl is not None and not is_timed else ():
            connection.execute(statement)
        self._table = table = evolve(table, timed=is_timed or ttl is not None)
        self._removals = Removals(RemovedRows(table), ttl)

    # --- transactions -------------------------------------------------------------------------------------------------

    def begin_group(self, members: Sequence[SinkTransaction]) -> Sequence[SinkTransaction]:
        """Open the group under the lock of the state's header; abort a transaction that was left open."""
        self.rollback()
        self._check_recovered()
        with self.explained(members[0]):
            connection = self.commit_link.begin()
            try:
                header = self.locked_header(connection, members[0])
                fence = header.fence
                due, redo = fence.due(members, self._name)
                if due:
                    self._check_table(connection, self._where(due[0]))
                undo = due[0].txid if redo else None
                if undo is not None:
                    self._before_undo(connection, undo)
                self._removals.begin(connection, header.expiry, undo)
            except BaseException:
                self.commit_link.rollback()
                raise
        if due:
            self._merges = len(due) > 1 and due[-1].txid > self._alone_upto and not self._table.timed
            self._group, self._commit_row = members, fence.after(members).commit
            self._open = (connection, due[0], threading.get_ident())
        else:
            self.commit_link.rollback()
        return due

    def _before_undo(self, connection: Connection, txid: int) -> None:
        if self.tells_rolled_back:
            self._changed = self._removals.changed(connection, txid)

    def begin_member(self, tx: SinkTransaction) -> None:
        """Write with the txid of ``tx`` from now on."""
        connection, before = self._opened()
        if tx.txid != before.txid:
            self._changed = ()  # that was of the first one
        with self.explained(tx):
            self._removals.begin_member(connection, tx)
            if gone := [each.key for each in self._changed if each.is_new]:
                self._removals.remember(self._database, connection, gone)
        self._open = connection, tx, threading.get_ident()

    def commit_group(self) -> None:
        """Commit changes and token together; they are durable when this returns."""
        connection, tx = self._in_transaction()
        with self.explained(tx):
            self._finish(connection)
            self.pending = self.known.after(self._group) if self.known else None
            self._commit(tx)
        self._open = None

    @property
    def rolled_back(self) -> Sequence[Key]:
        return [each.key for each in self._changed]

    def landed(self) -> None:
        """Record that the changes and removals are durable."""
        if self.pending is not None:
            self._removals.committed()
        super().landed()

    def rollback(self) -> None:
        self._open, self._merged, self._changed = None, None, ()
        with self._database.explained(self._name):
            self.commit_link.rollback()

    def _finish(self, connection: Connection) -> None:
        self._removals.end_member(connection)
        connection.execute(self._table.headers.write_token, [*self._commit_row, self._table.name])

    # --- values -------------------------------------------------------------------------------------------------------

    def multi_get(self, keys: Sequence[Key]) -> list[Any]:
        texts = encode_keys(keys)
        if self._open is not None and self._open[2] == threading.get_ident():
            self._write_merged()
            with self._database.explained(self._name):
                stored = self._table.values(self._open[0], texts)
        else:
            with self._reading() as connection:
                stored = self._table.values(connection, texts)
        return [stored.get(text) for text in texts]

    def get_tuples(self) -> list[tuple[Any, ...]]:
        with self._reading() as connection:
            rows = connection.execute(self._table.read_all, self._table.alive).fetchall()
        return loaded_rows((*self._table.keys, self._table.value), rows)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """Yield a connection that sees the committed data.

        A new connection may lead to a server that has lost commits, so the header is checked first. Within a shared
        transaction of several tables, the connection also sees the changes of that transaction.
        """
        self._check_recovered()
        if self.commit_link.around is not None:
            with self._database.explained(self._name):
                yield self.commit_link.around
            return
        with self._database.explained(self._name), self._others.transaction() as connection:
            if self._others.session is not self._checked:
                self._header(connection, "", f"topology {self._topology!r}: {self._name}")
                self._checked = self._others.session
            yield connection

    def multi_update(self, keys: Sequence[Key], updaters: Sequence[ValueUpdater[Any]]) -> list[Any]:
        """Replace the value of each key by the result of its updater; `REMOVE` removes the key."""
        return self._update(encode_keys(keys), keys, updaters)

    def multi_put(self, keys: Sequence[Key], values: Sequence[Any]) -> None:
        self.write_rows(encode_keys(keys), keys, values)

    def multi_remove(self, keys: Sequence[Key]) -> None:
        """Remove each key; its row is kept in another table until the next transaction commits."""
        self.multi_put(keys, [REMOVE] * len(keys))

    def multi_merge(
        self, keys: Sequence[Key], values: Sequence[Any], aggregator: CombinerAggregator[Any], *, returns: bool = False
    ) -> Sequence[Any]:
        """Combine ``values[i]`` into the stored value of ``keys[i]``: in SQL, if that gives the same."""
        if aggregator.merge not in self._table.value.merges:
            return super().multi_merge(keys, values, aggregator)
        if self._merges and keys and not returns and can_combine(self._table.value):
            self._merge(keys, values, aggregator.merge)
            return ()
        self.write_rows(encode_keys(keys), keys, values, aggregator.merge)
        return self.multi_get(keys) if returns else ()

    def _merge(self, keys: Sequence[Key], values: Sequence[Any], merge: str) -> None:
        """Combine the values of another member of the group; all of them are written later."""
        _, tx = self._opened()
        if self._merged is None or self._merged.merge != merge:
            self._write_merged()
            self._merged = MergedChanges(self._table.value, merge)
        with self.explained(tx):
            self._merged.add(tx.txid, encode_keys(keys), self._table.stored(keys, values))

    def _write_merged(self) -> None:
        """Write the values that members of the group have merged.

        Raises:
            StoreBusyException: not all of it can be written together; when they come again, each member writes alone.
        """
        merged, self._merged = self._merged, None
        if merged is None:
            return
        connection, tx = self._opened()
        try:
            with self.explained(tx):
                for rows in merged.written():
                    upsert = partial(self._table.upsert, merged.merge)
                    self._database.write(connection, upsert, rows)
        except (StateError, OverflowError) as error:
            self._alone_upto = self._group[-1].txid
            raise StoreBusyException(f"{error}; these transactions are tried again, one by one") from error

    def _update(self, texts: list[str], keys: Sequence[Key], updaters: Sequence[ValueUpdater[Any]]) -> list[Any]:
        connection, tx = self._in_transaction()
        values: list[Any] = []
        for start in range(0, len(texts), CHUNK_ROWS):
            part = slice(start, start + CHUNK_ROWS)
            with self.explained(tx):
                current = self._table.values(connection, texts[part])
            values += updated_values(current, texts[part], updaters[part])
            self.write_rows(texts[part], keys[part], values[part])
        return [None if value is REMOVE else value for value in values]

    def write_rows(
        self, texts: Sequence[str], keys: Sequence[Key], values: Sequence[Any], merge: str | None = None
    ) -> None:
        """Set the value of each key, or combine it with the stored one by ``merge``; ``texts`` are the keys' texts."""
        connection, tx = self._in_transaction()
        if REMOVE in values:
            texts, keys, values = self._without_removed(texts, keys, values)
        if not texts:
            return
        table, stamp = self._table, self._table.stamp(tx.txid, tx.time)
        with self.explained(tx):
            columns = [*table.stored(keys, values), texts, *map(repeat, stamp)]
            # In the order of the table, neighbouring rows share pages: twice as fast for large tables.
            rows = sorted(zip(*columns, strict=False), key=itemgetter(len(table.keys) + 1))
            self._removals.before_write(connection, texts)
            self._database.write(connection, lambda count: table.upsert(merge, count), rows)

    def _without_removed(
        self, texts: Sequence[str], keys: Sequence[Key], values: Sequence[Any]
    ) -> tuple[list[str], list[Key], list[Any]]:
        """Remove the keys that have `REMOVE` as their last value; return the other rows."""
        connection, tx = self._in_transaction()
        gone = {text for text, value in dict(zip(texts, values, strict=True)).items() if value is REMOVE}
        with self.explained(tx):
            self._removals.take(connection, list(gone))
        rest = [row for row in zip(texts, keys, values, strict=True) if row[0] not in gone and row[2] is not REMOVE]
        return [row[0] for row in rest], [row[1] for row in rest], [row[2] for row in rest]

    def close(self) -> None:
        self._open = self._merged = None
        super().close()

    def _in_transaction(self) -> tuple[Connection, SinkTransaction]:
        """Return the open transaction, after the values that members have merged are written."""
        self._write_merged()
        return self._opened()

    def _opened(self) -> tuple[Connection, SinkTransaction]:
        if self._open is None:
            raise StateError(f"{self._name} changes only between begin_group and commit_group")
        return self._open[0], self._open[1]


def updated_values(current: dict[str, Any], texts: Sequence[str], updaters: Sequence[ValueUpdater[Any]]) -> list[Any]:
    """Return the new value of each key, by its updater, or `REMOVE`; put the new values into ``current``.

    A key may come several times: the next updater gets the value of the one before.
    """
    values: list[Any] = []
    with localcontext(EXACT_DECIMALS):
        for text, updater in zip(texts, updaters, strict=True):
            value = updater(current.get(text))
            current[text] = None if value is REMOVE else value
            values.append(value)
    return values


KEYS_MAX = 1_000  # the keys that one statement removes

Condition: TypeAlias = tuple[str, Sequence[Any]]  # on rows of the state's table, and the values bound in it


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
        return self.table.removed

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
            self._take_expired(connection, _staged(staging, tasks))

    def take_staged(self, connection: Connection, staging: Staging, tasks: Any) -> None:
        """Remove the keys that these tasks have staged."""
        self._take(connection, _staged(staging, tasks))

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


def _staged(staging: Staging, tasks: Any) -> Condition:
    """Return the condition that these tasks have staged a row's key."""
    of = staging.dialect
    staged = f"SELECT {of.quoted('_key')} FROM {staging.there} WHERE {of.quoted('_task')} {of.among}"
    return f"{of.quoted('_key')} IN ({staged})", [tasks]


def _pieces(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    return (texts[first : first + KEYS_MAX] for first in range(0, len(texts), KEYS_MAX))
