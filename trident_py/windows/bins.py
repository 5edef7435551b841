"""Rows in bins, kept in a state: added at the end, read all at once, and removed all at once.

The rows of a bin are in chunks, each a value of the state. The last chunk is written again with each addition, until
it has `SEAL_BYTES`. So an addition costs the same for bins of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
from attrs import define

from trident_py.errors import StateError
from trident_py.interfaces.states import RemovableMapState
from trident_py.rows.batches import read_batch, write_batch

SEAL_BYTES = 64 * 1024
"""A chunk of more bytes is full: it isn't written again."""


@define
class Bins:
    """The bins of one state, in one transaction.

    Attributes:
        fields: the fields of the rows.
        full: by bin, the number of its full chunks. Store it with the state: it says which bins there are.
    """

    state: RemovableMapState[bytes]
    fields: pa.Schema
    full: dict[int, int]

    def add(self, rows: Mapping[int, pa.Table], merged: Callable[[pa.Table], pa.Table] | None = None) -> None:
        """Add rows to the end of bins; a new bin begins.

        Args:
            rows: by bin.
            merged: replaces the rows of a chunk that is written again.
        """
        last = [_key(name, self.full.setdefault(name, 0)) for name in rows]
        stored = self.state.multi_get(last) if last else []
        entries: list[bytes] = []
        for (name, new), value in zip(rows.items(), stored, strict=True):
            if value is not None:
                both = pa.concat_tables([pa.Table.from_batches([read_batch(value, self.fields)]), new])
                new = merged(both) if merged else both
            entries.append(write_batch(new))
            self.full[name] += len(entries[-1]) > SEAL_BYTES
        if last:
            self.state.multi_put(last, entries)

    def read(self, name: int) -> list[pa.RecordBatch]:
        """Return the rows of a bin, in the order in which they were added."""
        keys = self._keys(name)
        stored = self.state.multi_get(keys)
        if any(value is None for value in stored[:-1]):  # the last chunk may not have begun
            raise StateError(f"rows of the windows at {name} that their head names are gone; restore the state")
        return [read_batch(value, self.fields) for value in stored if value is not None]

    def remove(self, names: Sequence[int]) -> None:
        """Remove bins with all of their rows."""
        keys = [key for name in names for key in self._keys(name)]
        if keys:
            self.state.multi_remove(keys)
        for name in names:
            del self.full[name]

    def _keys(self, name: int) -> list[tuple[str, int]]:
        return [_key(name, slot) for slot in range(self.full[name] + 1)]


def _key(name: int, slot: int) -> tuple[str, int]:
    return str(name), slot
