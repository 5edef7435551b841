"""The reader of a table that `SQLiteState` fills."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from trident_py.errors import FailedException, StateError
from trident_py.states.sql.columns import TypedColumn, declared_fields
from trident_py.states.sql.reading import TableReader, missing
from trident_py.states.sql.sqlite_errors import explained
from trident_py.states.sql.sqlite_table import Table

_BUSY_SECS = 10.0


class SQLiteTableReader(TableReader):
    """Opened once, for reading only."""

    def __init__(self, path: Path, table: str) -> None:
        self._name = f"table {table!r} of {path}"
        self._lock = threading.Lock()
        if not path.is_file():
            raise missing(self._name)
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with explained(self._name):
            self._connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECS, check_same_thread=False)
        try:
            self._table = self._found(table)
        except FailedException as error:
            self.close()
            raise StateError(f"{error}; end it, or start again") from error
        except StateError:
            self.close()
            raise

    @property
    def columns(self) -> Sequence[TypedColumn]:
        """The keys', then the value's."""
        return (*self._table.keys, self._table.value)

    def read(self, texts: list[str]) -> list[tuple[Any, ...]]:
        """Key text and stored value of each of these keys that is there."""
        return self._fetched(self._table.read, json.dumps(texts, ensure_ascii=False))

    def read_all(self) -> list[tuple[Any, ...]]:
        """What is stored, of each key that has a value."""
        return self._fetched(self._table.read_all)

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def _fetched(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        with self._lock, explained(self._name), closing(self._connection.execute(query, values)) as cursor:
            return cursor.fetchall()

    def _found(self, name: str) -> Table:
        there = {each.lower() for (each,) in self._fetched("SELECT name FROM sqlite_master WHERE type = 'table'")}
        is_there = {"_trident", name.lower()} <= there
        rows = self._fetched('SELECT columns FROM "_trident" WHERE state = ?', name) if is_there else []
        if not rows:
            raise missing(self._name)
        ((declared,),) = rows
        return Table.of(name, *declared_fields(declared))
