"""The rows that a topology has left out, for its page: those of parked transactions, and dead letters."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from coordinators.record.parking import Parked, ParkedList, beginning
from coordinators.values.errors import TridentError
from trident_py.engine.threads.dead_letters import letters_in
from trident_py.engine.threads.parked_rows import LostRows, ParkedRows, parked_directory
from trident_py.interfaces.config import TridentConfig
from trident_py.streams.dead_letters import dead_letters_place

ROWS_MAX = 100
"""The number of rows of one spout, or of dead letters, on a page."""


@frozen
class RowsLeftOut:
    """Reads the files of one topology, which are in its ``state_dir`` and ``parked_dir``."""

    topology: str
    config: TridentConfig

    def letters(self) -> dict[str, Any]:
        """Return the last dead letters, by transaction, and how many there are.

        Raises:
            TridentError: their table can't be read.
        """
        place = dead_letters_place(self.config.state_dir, self.topology)
        try:
            found = letters_in(place) if place.is_file() else []
        except sqlite3.Error as error:
            raise TridentError(f"the dead letters in {place} can't be read: {error}", topology=self.topology) from error
        return {"count": sum(each["count"] for each in found), "letters": found[-ROWS_MAX:]}

    def parked(self, txid: int, entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the rows of the parked transaction ``txid``; ``entries`` are the parked transactions, as JSON.

        ``stored`` is false if the rows are not stored yet. A position is that in the batch, from 0 on.

        Raises:
            TridentError: the rows can't be read here.
        """
        mine = ParkedList(entries=tuple(map(Parked.from_json, entries))).parts(txid)
        is_stored = bool(mine) and not any(each.unstored for each in mine)
        return {"stored": is_stored, "spouts": list(self._read(mine)) if is_stored else []}

    def _read(self, entries: Sequence[Parked]) -> Iterator[dict[str, Any]]:
        files = ParkedRows(self.topology, "", parked_directory(self.topology, self.config))
        for entry in entries:
            for spout, stored in entry.stored.items():
                shown = stored.keeping(beginning(stored.runs, ROWS_MAX))
                try:
                    rows = files.read(spout, shown).to_pylist()
                except LostRows as error:
                    raise TridentError(str(error), topology=self.topology, txid=entry.txid) from error
                numbered = [{"position": at, **row} for at, row in zip(shown.positions, rows, strict=True)]
                yield {"spout": spout, "count": stored.count, "rows": numbered}
