"""One shard of a state: a table in its own file, with the values that readers see while the shard is ahead."""
# ruff: noqa: S608 - every name in a statement was checked, or is quoted; values are always bound

from __future__ import annotations

from attrs import frozen

from trident_py.interfaces.sinks import CommitToken
from trident_py.states.fenced import Fence, StateHeader
from trident_py.states.sql.dialect import Connection, Database
from trident_py.states.sql.state import SQLMapState
from trident_py.states.sql.table import Table, declarations


@frozen
class ShardTables:
    """The statements over two more tables of a shard.

    One has a row with the central token as of the shard's last commit. The other one has the changes of the attempt
    that this commit has replaced, if the central token is still at that attempt.

    Attributes:
        table: the shard's table of values.
    """

    table: Table

    @property
    def after(self) -> str:
        """The name of the table with the central token; its columns are those of a token."""
        return f"_{self.table.name}_after"

    @property
    def replaced(self) -> str:
        """The name of the table with the changes of a replaced attempt; ``_gone`` is 1 if it removed the key."""
        return f"_{self.table.name}_replaced"

    @property
    def create(self) -> tuple[str, ...]:
        """SQL that makes the missing tables."""
        of, after = self.table.dialect, self._quoted(self.after)
        return (
            f"CREATE TABLE IF NOT EXISTS {after} (txid {of.integer}, epoch {of.integer}, attempt_id {of.integer})",
            f"INSERT INTO {after} SELECT NULL, NULL, NULL WHERE NOT EXISTS (SELECT 1 FROM {after})",
            f"CREATE TABLE IF NOT EXISTS {self._quoted(self.replaced)} ({declarations(of, self.table.fields)}, "
            f"{self._quoted('_key')} {of.key} NOT NULL PRIMARY KEY, {self._quoted('_gone')} {of.integer} NOT NULL, "
            f"{self._quoted('_time')} {of.integer}) {of.options}",
        )

    @property
    def drop(self) -> tuple[str, ...]:
        """SQL that drops both tables."""
        return tuple(f"DROP TABLE IF EXISTS {self._quoted(name)}" for name in (self.after, self.replaced))

    @property
    def read_after(self) -> str:
        """SQL that reads the central token as of the last commit."""
        return f"SELECT txid, epoch, attempt_id FROM {self._quoted(self.after)}"

    @property
    def write_after(self) -> str:
        """SQL that sets it; bound are the parts of the token."""
        return f"UPDATE {self._quoted(self.after)} SET txid = ?, epoch = ?, attempt_id = ?"

    @property
    def forget(self) -> str:
        """SQL that removes the changes of a replaced attempt."""
        return f"DELETE FROM {self._quoted(self.replaced)}"

    @property
    def keep(self) -> tuple[str, str]:
        """SQL that copies the changes of a transaction, before it is undone; its txid is bound in each statement."""
        columns = self._quoted(*(column.name for column in self.table.fields), "_key")
        there, time = (
            f"{self._quoted(self.replaced)} ({columns}, _gone, _time)",
            "_time" if self.table.timed else "NULL",
        )
        # A key that was removed and written again is in both tables; the first row is kept.
        return (
            f"INSERT INTO {there} SELECT {columns}, 0, {time} FROM {self.table.there} WHERE _txid = ?",
            f"INSERT OR IGNORE INTO {there} SELECT {columns}, 1, NULL FROM {self._quoted(self.table.removed)} "
            f"WHERE _txid = ?",
        )

    def _quoted(self, *names: str) -> str:
        return self.table.dialect.quoted(*names)


class Shard(SQLMapState):
    """A shard, which is at the central token, or one commit after it.

    That commit is the next transaction, or another attempt of the central one. In the second case, the shard keeps the
    changes of the attempt that it replaces.

    Attributes:
        central: the central token; set before each group begins.
        after: the central token as of the last commit.
    """

    def __init__(self, database: Database, table: Table, ttl: int | None = None) -> None:
        super().__init__(database, table, ttl)
        self.central: CommitToken | None = None
        self.after: CommitToken | None = None

    def _claim(self, connection: Connection, fence: Fence, found: StateHeader | None, *, exists: bool) -> StateHeader:
        header = super()._claim(connection, fence, found, exists=exists)
        its = ShardTables(self._table)
        for statement in (*(its.drop if header.fence.token is None else ()), *its.create):
            connection.execute(statement)
        ((txid, epoch, attempt),) = connection.execute(its.read_after).fetchall()
        self.after = None if txid is None else CommitToken(txid, epoch, attempt)
        return header

    def _before_undo(self, connection: Connection, txid: int) -> None:
        super()._before_undo(connection, txid)
        if self.token != self.central:  # readers don't see the attempt that is undone
            return
        its = ShardTables(self._table)
        connection.execute(its.forget)
        for statement in its.keep:
            connection.execute(statement, [txid])

    def _finish(self, connection: Connection) -> None:
        super()._finish(connection)
        central = self.central
        bound = (central.txid, central.epoch, central.attempt_id) if central else (None, None, None)
        connection.execute(ShardTables(self._table).write_after, list(bound))
