"""A state in a table of a SQLite database: committed values for any client, exactly once, through any crash."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import Factory, field, frozen

from trident_py.errors import StateError
from trident_py.states.fenced import checked_ttl
from trident_py.states.sql.factory import SQLState
from trident_py.states.sql.sqlite_database import SQLiteDatabase, check_name

if TYPE_CHECKING:
    from trident_py.states.sql.table import Table


def _as_path(path: str | os.PathLike[str]) -> Path:
    if not isinstance(path, str | os.PathLike) or str(path) in ("", ".", ":memory:") or "://" in str(path):
        raise StateError(
            f"SQLiteState keeps its values in a file, and {path!r} is not a path of one; for values in memory use "
            f"MemoryMapState"
        )
    return Path(path)


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

    Raises:
        TopologyError: ``ttl`` is no length of time.
        StateError: ``table`` cannot be a table's name, or ``path`` is no path.
    """

    path: Path = field(converter=_as_path, repr=lambda path: repr(str(path)))
    table: str = field(kw_only=True)
    ttl: timedelta | None = field(default=None, converter=checked_ttl, kw_only=True, repr=False, eq=False)
    _schema: Table | None = field(default=None, kw_only=True, repr=False)
    name: str = field(init=False, repr=False, default=Factory(lambda self: self.table, takes_self=True))

    @table.validator
    def _check_table(self, _: object, table: str) -> None:
        check_name(table, "table")

    @property
    def database(self) -> SQLiteDatabase:
        """The file."""
        return SQLiteDatabase(self.path.absolute())
