"""The central token of a state in shards: the last transaction that all shards have, and that readers see.

Between two transactions, each shard is at the central token. While one commits, a shard is at it or one commit after
it. The steps are:

1. Each shard applies the transaction, side by side with the others.
2. When all have it, it becomes the central token.

A crash between two steps leaves shards that are one commit ahead. `ShardedSQLMapState` replays that transaction: a
shard that has it rolls it back first, as `fenced.py` decides. The transaction may also be another attempt of the
central one. Until it is the central token, readers see the old attempt: each shard keeps its changes.
"""
# ruff: noqa: S608 - every name in a statement was checked, or is quoted; values are always bound

from __future__ import annotations

from collections.abc import Sequence

from trident_py.interfaces.sinks import SinkTransaction, TopologyKey
from trident_py.states.fenced import Fence, StateHeader, TableStep
from trident_py.states.sql.dialect import Connection
from trident_py.states.sql.fenced_table import FencedTable
from trident_py.states.sql.sharded_reading import (
    bookkeeping,
    join_columns,
    split_columns,
    wrong_number,
)
from trident_py.states.sql.sqlite_database import SQLiteDatabase, SQLiteLink
from trident_py.states.sql.table import HEADERS, Table


class CentralToken(FencedTable):
    """The header of the whole state in the central file, and a table with one row for its shards.

    The row has the script for readers.

    Attributes:
        script: SQL by which readers attach the shards; stored when it recovers.
    """

    def __init__(self, database: SQLiteDatabase, table: Table, shards: int, ttl: int | None) -> None:
        super().__init__(database, table.name)
        self._path, self._table, self._number, self._ttl = database.path, table, shards, ttl
        self._there = database.dialect.quoted(bookkeeping(table.name))
        self.script = ""

    def check_claim(self, topology: TopologyKey, epoch: int) -> None:
        """Check that a takeover can succeed, before it changes any file.

        Raises:
            StateError, FencedError: it can't, as for `StateHeader.claimed`; or the number of shards has changed.
        """
        if not self._database.exists:
            return
        where = f"topology {topology.name!r}: {self._name}"
        link = SQLiteLink(self._path, str(self._path), is_reader=True)
        try:
            with self._database.starting(where), link.transaction() as connection:
                self._headers.check_version(connection)
                has_headers = super()._exists(connection, HEADERS)
                found = self._found_header(connection, self._table_name) if has_headers else None
                exists = self._exists(connection, self._table_name)
        finally:
            link.close()
        self._claimed(Fence(topology, epoch), found, exists=exists)

    def due(self, members: Sequence[SinkTransaction]) -> int:
        """Return how many of the last ``members`` must be applied; read the token again.

        Raises:
            FencedError, StateError: as for `Fence.decide`.
        """
        self._check_recovered()
        with self.explained(members[0]), self._others.transaction() as connection:
            fence = self._header(connection, "", self._where(members[0])).fence
            due, _ = fence.due(members, self._name)
        self.known = fence
        return len(due)

    def advance(self, members: Sequence[SinkTransaction]) -> None:
        """Make the last of ``members``, which all shards have, the central token; durable when this returns."""
        tx = members[-1]
        with self.explained(tx):
            connection = self.commit_link.begin()
            try:
                header = self.locked_header(connection, tx)
                header.fence.due(members, self._name)
                self.pending = header.fence.after(members)
                connection.execute(self._headers.write_token, [*self.pending.commit, self._table_name])
                self._write_expiry(connection, header, members)
                self._commit(tx)
            except BaseException:
                self.commit_link.rollback()
                raise

    def _write_expiry(self, connection: Connection, header: StateHeader, members: Sequence[SinkTransaction]) -> None:
        expiry = header.expiry
        for tx in members:
            expiry = expiry.after(tx.time, self._ttl)
        if expiry != header.expiry:
            connection.execute(self._headers.write_expiry, [expiry.since, expiry.upto, self._table_name])

    def _exists(self, connection: Connection, name: str) -> bool:
        return super()._exists(connection, name) or super()._exists(connection, bookkeeping(name))

    def _claimed(self, fence: Fence, found: StateHeader | None, *, exists: bool) -> tuple[StateHeader, TableStep]:
        topology = fence.topology
        fields, number = split_columns(found.columns) if found else ("", 0)
        is_ours = found is not None and found.fence.topology.incarnation == topology.incarnation
        if is_ours and number != self._number and fields == self._table.columns:
            raise wrong_number(f"topology {topology.name!r}: {self._name}", number, self._number)
        columns = join_columns(self._table.columns, self._number)
        return StateHeader(fence, self._owner, columns).claimed(found, exists=exists, state=self._name)

    def _claim(self, connection: Connection, fence: Fence, found: StateHeader | None, *, exists: bool) -> StateHeader:
        header, step = self._claimed(fence, found, exists=exists)
        if step is TableStep.REPLACE and found and super()._exists(connection, self._table_name):
            connection.execute(self._table.set_aside(found.fence.topology.incarnation))
            connection.execute(f"DROP TABLE IF EXISTS {self._headers.dialect.quoted(self._table.removed)}")
        if step is not TableStep.KEEP:
            connection.execute(f"DROP TABLE IF EXISTS {self._there}")
            connection.execute(f"CREATE TABLE {self._there} (script TEXT)")
            connection.execute(f"INSERT INTO {self._there} DEFAULT VALUES")
        connection.execute(f"UPDATE {self._there} SET script = ?", [self.script])
        connection.execute(self._headers.write, [self._table_name, *header.row])
        return header
