"""The table that users write by hand: totals by key and which batches they hold, changed in one SQLite transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow as pa
from attrs import frozen

UPSERT = "INSERT INTO totals VALUES (?, ?) ON CONFLICT DO UPDATE SET total = total + excluded.total"


@frozen
class Totals:
    """The table, open; as durable as the product's own (WAL, ``synchronous=FULL``)."""

    database: sqlite3.Connection

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[Totals]:
        """A new database."""
        with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as database:
            for pragma in ("journal_mode=WAL", "synchronous=FULL"):
                database.execute(f"PRAGMA {pragma}")
            database.execute("CREATE TABLE totals (key PRIMARY KEY, total INTEGER) WITHOUT ROWID")
            database.execute("CREATE TABLE done (batch INTEGER PRIMARY KEY)")
            yield cls(database)

    def add(self, batch: int, changes: pa.Table) -> None:
        """Add the changes of ``batch``, unless they are in it already."""
        self.database.execute("BEGIN IMMEDIATE")
        if self.database.execute("INSERT OR IGNORE INTO done VALUES (?)", (batch,)).rowcount:
            columns = (column.to_pylist() for column in changes.columns)
            self.database.executemany(UPSERT, zip(*columns, strict=True))
        self.database.execute("COMMIT")


def total(path: Path | str, table: str, column: str) -> int:
    """The sum of all totals, as any client reads it; those in shards by their script."""
    with closing(sqlite3.connect(path)) as database:
        find = "SELECT name FROM sqlite_master WHERE name = ?"
        if database.execute(find, [f"_{table}_shards"]).fetchone():
            ((script,),) = database.execute(f'SELECT script FROM "_{table}_shards"').fetchall()  # noqa: S608
            database.executescript(script)
        found: int = database.execute(f'SELECT sum("{column}") FROM "{table}"').fetchone()[0]  # noqa: S608
    return found
