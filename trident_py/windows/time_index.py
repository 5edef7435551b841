"""The index of keys by time: which of them are due, found without reading the others.

Joins over time and functions with timers use it. An entry is a time and a key. Entries are in bins, which are wider the
later their times are: a bin spans at most an eighth of the time from now until its entries. When time enters a bin, its
entries that aren't due yet move to bins that are at most a 16th as wide. If they are few, they move to a single bin,
that of the next entries. So an entry moves a few times at most, however many entries there are. The head of the state
lists some hundred bins at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field, frozen

from trident_py.interfaces.states import RemovableMapState
from trident_py.windows.bins import Bins

Entry: TypeAlias = tuple[int, str]
"""A time in microseconds since the epoch, and the text of a key."""

_FIELDS = pa.schema([pa.field("at", pa.int64(), nullable=False), pa.field("key", pa.string(), nullable=False)])

_NARROWEST_BITS = 12
"""The narrowest bins span 4 milliseconds: times of transactions are in milliseconds."""

_PART_BITS = 4
"""A bin spans a 16th of the power of two that is next to the time until its entries."""

_FEW_ROWS = 256
"""So many entries are not divided: they are read and written at once in less time than several bins."""

_KIND_BITS, _SHIFT_BITS = 1, 6
"""The bits of a bin's name that tell the kind of its entries, and its width.

The bin of the few entries that come next has the width 0.
"""

_PORTION_ROWS = 4096
"""The number of entries that are added to a bin at once, which is enough to fill a chunk, or taken at once."""


@frozen
class StoredBin:
    """A bin as the head of the state lists it: the number of its full chunks, and the least time of its entries."""

    full: int
    least: int


@define
class TimeIndex:
    """The entries of one kind, in one transaction.

    Attributes:
        kind: 0 or 1; a state can have an index of each kind.
    """

    _bins: Bins
    _least: dict[int, int] = field(factory=dict)
    kind: int = 0

    @classmethod
    def stored(cls, state: RemovableMapState[bytes], bins: Mapping[int, StoredBin], kind: int = 0) -> TimeIndex:
        """Return the index with these bins of a state."""
        full = {name: each.full for name, each in bins.items()}
        return cls(Bins(state, _FIELDS, full), {name: each.least for name, each in bins.items()}, kind)

    @property
    def bins(self) -> dict[int, StoredBin]:
        """The bins that there are, to be stored in the head."""
        return {name: StoredBin(self._bins.full[name], least) for name, least in self._least.items()}

    def add(self, entries: Sequence[Entry], now: int) -> None:
        """Add entries.

        Args:
            entries: their times, after ``now``.
            now: the time so far, by which bins are chosen.
        """
        if entries:
            times, keys = zip(*entries, strict=True)
            self._place(pa.table([pa.array(times, pa.int64()), pa.array(keys, pa.string())], schema=_FIELDS), now)

    def take(self, now: int) -> Iterator[list[Entry]]:
        """Remove the entries that are due, and yield them in order, some at a time. Meanwhile, entries can be added."""
        reached = [name for name, least in self._least.items() if least <= now]
        if not reached:
            return
        batches = [batch for name in reached for batch in self._bins.read(name)]
        found = pa.Table.from_batches(batches, _FIELDS)
        self._bins.remove(reached)
        for name in reached:
            del self._least[name]
        is_due = pa.array(found.column("at").to_numpy() <= now)
        left = found.filter(pc.invert(is_due))
        if left.num_rows > _FEW_ROWS:
            self._place(left, now)
        elif left.num_rows:
            self._put({self.kind: left}, [pc.min(left.column("at")).as_py()])
        due = found.filter(is_due).sort_by([("at", "ascending"), ("key", "ascending")])
        for first in range(0, due.num_rows, _PORTION_ROWS):
            some = due.slice(first, _PORTION_ROWS)
            yield list(zip(some.column("at").to_pylist(), some.column("key").to_pylist(), strict=True))

    def _place(self, entries: pa.Table, now: int) -> None:
        times = entries.column("at").to_numpy()
        names = bin_names(times, now) << _KIND_BITS | self.kind
        order = np.argsort(names, kind="stable")
        found, starts = np.unique(names[order], return_index=True)
        ordered = entries.take(pa.array(order))
        parts = {
            int(name): ordered.slice(start, stop - start)
            for name, (start, stop) in zip(found, pairwise([*starts.tolist(), len(order)]), strict=True)
        }
        self._put(parts, np.minimum.reduceat(times[order], starts).tolist())

    def _put(self, parts: Mapping[int, pa.Table], times: Sequence[int]) -> None:
        """Add entries to bins; ``times`` are the least ones of each part."""
        for name, least in zip(parts, times, strict=True):
            self._least[name] = min(least, self._least.get(name, least))
        longest = max(part.num_rows for part in parts.values())
        for first in range(0, longest, _PORTION_ROWS):
            some = {name: part.slice(first, _PORTION_ROWS) for name, part in parts.items() if part.num_rows > first}
            self._bins.add(some)


def bin_names(times: np.ndarray, now: int) -> np.ndarray:
    """Return the number of the bin of each time among the bins of its width, and its width, as one number."""
    _, bits = np.frexp((times - now).astype(np.float64))
    shifts = np.maximum(bits.astype(np.int64) - _PART_BITS, _NARROWEST_BITS)
    return (times >> shifts << _SHIFT_BITS) | shifts
