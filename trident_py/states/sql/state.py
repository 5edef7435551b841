"""The state that the factories of SQL states make: values by key in one table of any supported database."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import localcontext
from functools import partial
from itertools import repeat
from operator import itemgetter
from typing import Any

from attrs import evolve

from coordinators.values.errors import located, our_bug
from trident_py.errors import StateError, StoreBusyException
from trident_py.interfaces.operations import EXACT_DECIMALS, CombinerAggregator
from trident_py.interfaces.removal import REMOVE
from trident_py.interfaces.sinks import SinkTransaction, TopologyKey
from trident_py.interfaces.states import FencedState, ITupleCollection, Key, ValueUpdater
from trident_py.states.fenced import Fence, StateHeader, TableStep
from trident_py.states.keys import encode_keys
from trident_py.states.sql.catalog import FoundTable
from trident_py.states.sql.columns import loaded_rows
from trident_py.states.sql.dialect import Connection, Database, ending_at_refusals
from trident_py.states.sql.fenced_table import FencedTable
from trident_py.states.sql.merges import MergedChanges, can_combine
from trident_py.states.sql.migrating import (
    MADE_MAX,
    MigrationMark,
    TableMove,
    ValueMigration,
    ensure_owner,
    finished,
    stored_name,
    stored_table,
)
from trident_py.states.sql.removals import ChangedKey, Removals, RemovedRows
from trident_py.states.sql.table import Table

CHUNK_ROWS = 1_000  # the rows that user code combines between two statements


# large: the one place that writes to the table, in one transaction
class SQLMapState(FencedTable, FencedState[Any], ITupleCollection):
    """Values by key in one table, each with its previous value; a header row holds fence and last token."""

    can_tell_rolled_back = True
    around_refusals = staticmethod(ending_at_refusals)

    def __init__(self, database: Database, table: Table, ttl: int | None = None) -> None:
        super().__init__(database, table.name)
        self._table = table
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
        self._migration: ValueMigration | None = None
        self.stored_before: Table | None = None  # the stored table, until it is migrated
        self.mark: MigrationMark | None = None

    # --- migration ----------------------------------------------------------------------------------------------------

    def plan_migration(self, migration: ValueMigration) -> None:
        """Migrate a stored table that differs from the declared one by ``migration``; called before it recovers."""
        self._migration = migration

    @property
    def is_behind(self) -> bool:
        """Whether the stored table has another name or other fields than declared; then nothing but `migrate` works."""
        return self.stored_before is not None

    def check_migration(self) -> int:
        """Migrate all values without storing them; return the number of keys.

        Raises:
            StateError: the migration doesn't lead to the declared fields, or a value can't be migrated.
        """
        with self._migrating(), self.commit_link.transaction() as connection:
            return self._move().check(connection)

    def migrate(self, incarnation: int, seq: int, identity: str) -> None:
        """Migrate the table, under the fence of this leader; the arguments are those of `MigrationMark`.

        It is done, or nothing is, when it returns or raises. After a crash, the next `recover` finds one of both.
        """
        if self._leader is None:
            raise AssertionError(our_bug(f"{self._name} was not recovered"))
        leader, columns = self._leader, self._table.columns
        mark = MigrationMark(
            before=self._claimed, columns=columns, made=0, incarnation=incarnation, seq=seq, identity=identity
        )
        with self._migrating() as where:
            takeover = self._database.takeover(self.commit_link, self._headers.schema, self._claimed, leader)
            with takeover as connection:
                header = self._found_header(connection, self._claimed)
                if header is None:
                    raise StateError(f"{where} has lost its row in _trident; to fix this: restore the database")
                ensure_owner(header, leader.epoch, self._owner, where)
                self._move().run(connection, mark, header)
                self.stored_before, self._claimed = None, self._table_name
                found = self._found_header(connection, self._table_name)
                self._claim(connection, header.fence, found, exists=True)
                self.mark = finished(connection, self._database, self._table)
        self._connect(leader, self._table_name)

    def _move(self) -> TableMove:
        before, migration = self.stored_before or self._table, self._migration or ValueMigration()
        return TableMove(database=self._database, before=before, now=self._table, migration=migration)

    @contextmanager
    def _migrating(self) -> Iterator[str]:
        where = f"topology {self._topology!r}: {self._name}"
        with located(topology=self._topology), self._database.starting(where):
            try:
                yield where
            except StateError as error:
                raise StateError(f"{where} can't be migrated: {error}") from error

    def _stored_name(self) -> str:
        names = [self._table_name, *(self._migration.names if self._migration else ())]
        if len(names) == 1:
            return self._table_name
        with self.commit_link.transaction() as connection:
            return stored_name(connection, self._headers, names)

    def _take_over(self, connection: Connection, topology: TopologyKey, epoch: int) -> Fence:
        self._table = table = evolve(self._table, schema=self._headers.schema)
        self.stored_before = None
        self.mark = finished(connection, self._database, table)
        name = stored_name(connection, self._headers, [table.name, self._claimed])
        found = self._found_header(connection, name)
        is_ours = found is not None and found.fence.topology.incarnation == topology.incarnation
        if found is None or not is_ours or self._migration is None or self._is_declared(name, found.columns):
            self._claimed = table.name
            return super()._take_over(connection, topology, epoch)
        self._claimed, self.stored_before = name, stored_table(connection, table, name, found.columns)
        claim = StateHeader(Fence(topology, epoch), self._owner, found.columns)
        header, _ = claim.claimed(found, exists=self._exists(connection, name), state=self._name)
        connection.execute(self._headers.write, [name, *header.row])
        return header.fence

    def _is_declared(self, name: str, columns: str) -> bool:
        return name == self._table.name and columns == self._table.columns

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
                if self.tells_rolled_back:
                    self._changed = self._removals.changed(connection, undo) if undo is not None else ()
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
        self._open = self._merged = None
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
                stored = self._read(self._open[0], texts)
        else:
            with self._reading() as connection:
                stored = self._read(connection, texts)
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
        self._write(encode_keys(keys), keys, values, None)

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
        self._write(encode_keys(keys), keys, values, aggregator.merge)
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

    def _read(self, connection: Connection, texts: list[str]) -> dict[str, Any]:
        loaded, listed = self._table.value.loaded, self._table.dialect.listed
        found: dict[str, Any] = {}
        for start in range(0, len(texts), CHUNK_ROWS):
            some = [listed(texts[start : start + CHUNK_ROWS]), *self._table.alive]
            rows = connection.execute(self._table.read, some)
            found.update((text, loaded(value)) for text, value in rows.fetchall())
        return found

    def _update(self, texts: list[str], keys: Sequence[Key], updaters: Sequence[ValueUpdater[Any]]) -> list[Any]:
        connection, tx = self._in_transaction()
        values: list[Any] = []
        for start in range(0, len(texts), CHUNK_ROWS):
            part = slice(start, start + CHUNK_ROWS)
            with self.explained(tx):
                current = self._read(connection, texts[part])
            with localcontext(EXACT_DECIMALS):
                for text, updater in zip(texts[part], updaters[part], strict=True):
                    value = updater(current.get(text))
                    current[text] = None if value is REMOVE else value
                    values.append(value)
            self._write(texts[part], keys[part], values[part], None)
        return [None if value is REMOVE else value for value in values]

    def _write(self, texts: list[str], keys: Sequence[Key], values: Sequence[Any], merge: str | None) -> None:
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
        self, texts: list[str], keys: Sequence[Key], values: Sequence[Any]
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
