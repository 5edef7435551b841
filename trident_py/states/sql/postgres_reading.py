"""The reader of a table that `PostgresState` fills; also of a replica of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import evolve

from trident_py.errors import FailedException, StateError
from trident_py.states.sql.columns import TypedColumn, declared_fields
from trident_py.states.sql.postgres_client import Connection, Link, Target, explained
from trident_py.states.sql.postgres_table import Table, declared_columns
from trident_py.states.sql.reading import TableReader, missing


class PostgresTableReader(TableReader):
    """Connected once, and again after the connection broke."""

    def __init__(self, target: Target, table: str) -> None:
        self._target = target
        self._name = f"table {table!r} of {target.shown}"
        self._link = Link(target)
        try:
            with explained(self._name, target), self._link.transaction() as connection:
                self._table = self._found(connection, table)
        except FailedException as error:
            raise StateError(f"{error}; see to the server, the DSN and the role, and start again") from error
        except StateError:
            self.close()
            raise

    @property
    def columns(self) -> Sequence[TypedColumn]:
        """The keys', then the value's."""
        return (*self._table.keys, self._table.value)

    def read(self, texts: list[str]) -> list[tuple[Any, ...]]:
        """Key text and stored value of each of these keys that is there."""
        with explained(self._name, self._target), self._link.transaction() as connection:
            return connection.execute(self._table.read, [texts]).fetchall()

    def read_all(self) -> list[tuple[Any, ...]]:
        """What is stored, of each key that has a value."""
        with explained(self._name, self._target), self._link.transaction() as connection:
            return connection.execute(self._table.read_all).fetchall()

    def close(self) -> None:
        """Close the connection."""
        self._link.close()

    def _found(self, connection: Connection, name: str) -> Table:
        schema = self._link.schema or ""
        query = "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename IN ('_trident', %s)"
        is_there = len(connection.execute(query, [schema, name]).fetchall()) == 2
        row = connection.execute(declared_columns(schema), [name]).fetchone() if is_there else None
        if row is None:
            raise missing(self._name)
        return evolve(Table.of(name, *declared_fields(row[0])), schema=schema)
