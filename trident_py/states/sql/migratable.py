"""A table under a fence that a takeover may find under another name, or with other fields, and then migrates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from attrs import evolve

from coordinators.values.errors import located, our_bug
from trident_py.errors import StateError
from trident_py.interfaces.sinks import TopologyKey
from trident_py.states.fenced import Fence, StateHeader
from trident_py.states.sql.dialect import Connection, Database, Leader
from trident_py.states.sql.fenced_table import FencedTable
from trident_py.states.sql.migrating import (
    MigrationMark,
    TableMove,
    ValueMigration,
    ensure_owner,
    finished,
    stored_name,
    stored_table,
)
from trident_py.states.sql.table import Table


class MigratableTable(FencedTable):
    """A state's table under a fence.

    Attributes:
        stored_before: the stored table, if it has another name or other fields than declared.
        mark: the last migration to this table; None: there was none.
    """

    def __init__(self, database: Database, table: Table) -> None:
        super().__init__(database, table.name)
        self._table = table
        self._leader: Leader | None = None
        self._claimed = table.name
        self._migration: ValueMigration | None = None
        self.stored_before: Table | None = None
        self.mark: MigrationMark | None = None

    def plan_migration(self, migration: ValueMigration) -> None:
        """Migrate a stored table that differs from the declared one by ``migration``; called before it recovers."""
        self._migration = migration

    @property
    def is_timed(self) -> bool:
        """Whether its rows have write times; known after it recovered."""
        return self._table.timed

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

    def _claimed_name(self, leader: Leader) -> str:
        self._leader, self._claimed = leader, self._table_name
        if self._migration is not None and self._migration.names:
            with self.commit_link.transaction() as connection:
                self._claimed = stored_name(connection, self._headers, [self._table_name, *self._migration.names])
            if self._claimed != self._table_name:
                self._connect(leader, self._claimed)
        return self._claimed

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
