"""A history in a SQLite file, which only its owner may read, because definitions and errors contain users' rows."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import define

from trident_py.errors import HistoryError
from trident_py.history.database import TABLES, HistoryDatabase

BUSY_SECONDS = 5.0
"""Seconds to wait for another process that writes into the file, which never takes long."""


@define(eq=False)
class SQLiteHistory(HistoryDatabase):
    """The history in a SQLite file, which is created with its directory unless it is only read."""

    path: Path

    @property
    def shown(self) -> str:
        return str(self.path)

    def sql(self, statement: str) -> str:
        return statement

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Cursor]:
        try:
            with self.connection:
                yield self.connection.cursor()
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise HistoryError(f"the history in {self.path}: {error}") from error

    def connect(self) -> sqlite3.Connection:
        if self.reads:
            reader = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_SECONDS)
            self.check_version(_columns(reader))
            return reader
        self.path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))  # SQLite's other files get the same mode
        connection = sqlite3.connect(self.path, timeout=BUSY_SECONDS)
        try:
            self.check_version(_columns(connection))
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")  # a crash of the machine may cost the last second
            with connection:
                for statement in TABLES:
                    connection.execute(statement)
        except BaseException:
            connection.close()
            raise
        return connection


def _columns(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM pragma_table_info('trident_leaderships')")}
