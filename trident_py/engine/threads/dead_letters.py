"""The table of dead letters of a topology: reads it, and stores the rows of letters that are to be processed."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
from attrs import frozen
from pyspark.sql.types import StructType

from coordinators.protocol.messages import DeadLetters, LettersRead
from coordinators.record.wishes import Wish
from coordinators.values.error_text import error_text
from trident_py.engine.plane.sifting import rows_of_letters
from trident_py.engine.threads.parked_rows import ParkedRows
from trident_py.graph.bad_rows import DEAD_LETTERS
from trident_py.rows.schema import arrow_schema

COLUMNS = ("txid", "branch", "spout", "operation", "error", "row", "count")


def letters_in(place: Path, txids: Collection[int] = (), branch: str = "") -> list[dict[str, Any]]:
    """Return the letters in the file ``place`` that were not released, by column, in the order of transactions.

    Args:
        place: the file.
        txids: only letters of these transactions.
        branch: only letters of this branch.

    Raises:
        sqlite3.Error: the file can't be read.
    """
    found: list[dict[str, Any]] = []
    with closing(sqlite3.connect(f"{place.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB '_*'")
        for (table,) in tables.fetchall():
            rows = connection.execute(f'SELECT {", ".join(COLUMNS)} FROM "{table}" WHERE count > 0')  # noqa: S608 - ours
            for row in rows:
                letter = dict(zip(COLUMNS, row, strict=True))
                if (not txids or letter["txid"] in txids) and branch in ("", letter["branch"]):
                    found.append(letter)
    return sorted(found, key=lambda letter: (letter["txid"], letter["branch"], letter["row"]))


@frozen
class DeadLetterTable:
    """The table of one topology, in its own file.

    Attributes:
        place: the file.
        parked: keeps the rows of letters that are to be processed.
        schemas: the fields of each spout.
    """

    place: Path
    parked: ParkedRows
    schemas: Mapping[str, StructType]

    def answer(self, wish: Wish) -> LettersRead:
        """Store the rows of the letters that ``wish`` is about; if that is impossible, return why."""
        try:
            return LettersRead(wish, tuple(self._stored(wish)))
        except (OSError, sqlite3.Error, KeyError, TypeError, ValueError) as error:
            return LettersRead(
                wish, refusal=f"the dead letters in {self.place} can't be processed: {error_text(error)}"
            )

    def _stored(self, wish: Wish) -> Iterator[DeadLetters]:
        found: dict[str, dict[str, list[dict[str, Any]]]] = {}
        for letter in letters_in(self.place, wish.txids, wish.branch) if self.place.is_file() else ():
            found.setdefault(letter["branch"], {}).setdefault(letter["spout"], []).append(letter)
        for branch, by_spout in found.items():
            txid = min(each["txid"] for letters in by_spout.values() for each in letters)
            stored = {
                spout: self.parked.store(f"letters-{txid}", spout, self._table(spout, letters))
                for spout, letters in by_spout.items()
            }
            yield DeadLetters(branch=branch, txid=txid, stored=stored)

    def _table(self, spout: str, letters: list[dict[str, Any]]) -> pa.Table:
        if spout not in self.schemas:
            raise ValueError(f"they are rows of spout {spout!r}, which this topology doesn't have")
        rows = [{**each, "letters": each["count"]} for each in letters]
        table = pa.Table.from_pylist(rows, schema=arrow_schema(DEAD_LETTERS))
        rows_of_letters(table, self.schemas[spout])  # raises now instead of in each attempt
        return table
