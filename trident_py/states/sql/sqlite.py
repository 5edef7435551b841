"""A state in a table of a SQLite database: committed values for any client, exactly once, through any crash."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import Factory, field, frozen

from coordinators.values.canonical import Json
from trident_py.errors import StateError
from trident_py.states.fenced import checked_ttl, milliseconds
from trident_py.states.sql.factory import SQLState
from trident_py.states.sql.local_files import check_local
from trident_py.states.sql.reading import ReadTable
from trident_py.states.sql.sqlite_database import SQLiteDatabase, check_name

if TYPE_CHECKING:
    from trident_py.interfaces.states import FencedState
    from trident_py.states.sql.table import Table


def _as_path(path: str | os.PathLike[str]) -> Path:
    if not isinstance(path, str | os.PathLike) or str(path) in ("", ".", ":memory:") or "://" in str(path):
        raise StateError(
            f"SQLiteState keeps its values in a file, and {path!r} is not a path of one; for values in memory use "
            f"MemoryMapState"
        )
    return Path(path)


SHARDS_MAX = 10
"""SQLite attaches so many files to a connection."""


@frozen
class SQLiteState(SQLState):
    """Keeps values in ``table`` of the database at ``path``, which is made if it doesn't exist.

    The table is an ordinary one: ``SELECT word, count FROM counts`` returns the committed values at any time, from any
    client; reading blocks no commit. Columns and tables that begin with an underscore are bookkeeping. Each state needs
    its own table; several may share a database. Values are durable when committed (WAL, synchronous=FULL).

    Args:
        path: the file.
        table: the table's name.
        ttl: how long a key stays without a write, by the times of transactions, as ``timedelta(days=30)``; None: for
            ever. See `docs/how-to/removing-keys.md`.
        shards: into how many files the values go, from 1 to 10; each has its own thread that writes it. The number
            can't be changed later. See `docs/how-to/sqlite-shards.md`.

    Raises:
        TopologyError: ``ttl`` is no length of time.
        StateError: ``table`` cannot be a table's name, ``path`` is no path, or ``shards`` is out of range.
    """

    path: Path = field(converter=_as_path, repr=lambda path: repr(str(path)))
    table: str = field(kw_only=True)
    ttl: timedelta | None = field(default=None, converter=checked_ttl, kw_only=True, repr=False, eq=False)
    shards: int = field(default=1, kw_only=True, eq=False)
    _schema: Table | None = field(default=None, kw_only=True, repr=False)
    name: str = field(init=False, repr=False, default=Factory(lambda self: self.table, takes_self=True))

    @table.validator
    def _check_table(self, _: object, table: str) -> None:
        check_name(table, "table")

    @shards.validator
    def _check_shards(self, _: object, shards: int) -> None:
        if type(shards) is not int or not 1 <= shards <= SHARDS_MAX:
            raise StateError(f"shards is the number of files for the values, from 1 to {SHARDS_MAX}, not {shards!r}")

    def __repr__(self) -> str:
        shards = f", shards={self.shards}" if self.shards > 1 else ""
        return f"SQLiteState(path={str(self.path)!r}, table={self.table!r}{shards})"

    @property
    def is_one_table(self) -> bool:
        return self.shards == 1

    def identity(self) -> Mapping[str, Json]:
        """Return the number of shards, which the place of each key depends on."""
        return {"shards": self.shards} if self.shards > 1 else {}

    def ensure_usable(self) -> None:
        super().ensure_usable()
        if self.shards > 1:
            check_local(self.database.path, f"table {self.table!r} of {self.database.shown}")

    def for_reading(self) -> ReadTable:
        if self.shards == 1:
            return super().for_reading()
        from trident_py.states.sql.sharded_reading import ShardedDatabase, ShardedTableReader

        database = ShardedDatabase(self.database.path, table=self.table, shards=self.shards)
        return ReadTable(self, self.table, partial(ShardedTableReader.of_shards, database))

    def _made(self, table: Table) -> FencedState[Any]:
        if self.shards == 1:
            return super()._made(table)
        from trident_py.states.sql.sharded_state import ShardedSQLMapState

        return ShardedSQLMapState(self.database, table, self.shards, milliseconds(self.ttl))

    @property
    def database(self) -> SQLiteDatabase:
        """The file."""
        return SQLiteDatabase(self.path.absolute())
