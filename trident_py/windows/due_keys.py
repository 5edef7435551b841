"""Keys in the order of time: a key is put with a time, and taken when that time has passed. Kept in a state.

Keys of one span of time are in a bin. A bin with many keys is divided when the time comes into it. So a transaction
reads only the keys that are due, and a few more.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, evolve, frozen

from trident_py.windows.bins import Bins

FIELDS = pa.schema([pa.field("key", pa.string(), nullable=False), pa.field("due", pa.int64(), nullable=False)])
"""The fields of the rows in bins."""

MANY_KEYS = 1000
"""A bin with more keys is divided, one with fewer is written again, if a part of it is due."""

_PARTS = 16
_BINS = 16
"""After each so many bins, new ones are twice as long. So their number grows with the logarithm of the time."""


@frozen
class Span:
    """The keys of one bin.

    Attributes:
        stop: the first time after it.
        least: the least time of a key in it.
        keys: how many there are.
    """

    stop: int
    least: int
    keys: int


@define
class DueKeys:
    """The keys of one kind, in one transaction. All times are in microseconds since the epoch.

    Attributes:
        kind: 0 or 1; keys of both kinds are in the same state.
        spans: by the first time of a bin, what it contains. Store it with the state. Bins don't overlap.
        width: the length of a bin if there are few; a power of two.
    """

    bins: Bins
    kind: int
    spans: dict[int, Span]
    width: int

    @property
    def least(self) -> int | None:
        """The least time of all keys."""
        return min((span.least for span in self.spans.values()), default=None)

    def put(self, keys: Sequence[str], due: Sequence[int]) -> None:
        """Add keys, each with its time."""
        found: dict[int, list[int]] = {}
        starts = sorted(self.spans)
        for position, time in enumerate(due):
            found.setdefault(self._start(time, starts), []).append(position)
        tables = {}
        for start, positions in found.items():
            times = [due[position] for position in positions]
            tables[self._name(start)] = pa.table([[keys[position] for position in positions], times], schema=FIELDS)
            span = self.spans[start]
            self.spans[start] = evolve(span, least=min(span.least, *times), keys=span.keys + len(times))
        self.bins.add(tables)

    def take(self, bound: int) -> Iterator[list[str]]:
        """Remove the keys with a time before ``bound``, and yield them, some at a time.

        A key is there as often as it was put. Between two steps, keys may be put with times from ``bound`` on.
        """
        while due := [start for start, span in self.spans.items() if span.least < bound]:
            start = min(due)
            span = self.spans.pop(start)
            keys = pa.Table.from_batches(self.bins.read(self._name(start)), FIELDS)
            self.bins.remove([self._name(start)])
            is_due = pc.less(keys["due"], bound)
            if span.stop > bound and span.keys > MANY_KEYS:
                self._divide(keys, start, span.stop)
                continue
            if (rest := keys.filter(pc.invert(is_due))).num_rows:
                self.spans[start] = Span(span.stop, span.stop, 0)
                self.put(rest["key"].to_pylist(), rest["due"].to_pylist())
            yield keys.filter(is_due)["key"].to_pylist()

    def _divide(self, keys: pa.Table, start: int, stop: int) -> None:
        length = max(1, (stop - start) // _PARTS)
        for first in range(start, stop, length):
            part = keys.filter(pc.and_(pc.greater_equal(keys["due"], first), pc.less(keys["due"], first + length)))
            if part.num_rows:
                self.spans[first] = Span(first + length, first + length, 0)
                self.put(part["key"].to_pylist(), part["due"].to_pylist())

    def _start(self, time: int, starts: list[int]) -> int:
        """Return the first time of the bin for ``time``. A bin begins if necessary; it is added to ``starts``, too."""
        at = bisect_right(starts, time) - 1
        if at >= 0 and time < self.spans[starts[at]].stop:
            return starts[at]
        width = self.width << len(starts) // _BINS
        start = time // width * width
        # Lengths are powers of two, so a bin overlaps another only if one of them is inside the other.
        while bisect_left(starts, start) < bisect_left(starts, start + width):
            width //= 2
            start = time // width * width
        starts.insert(at + 1, start)
        self.spans[start] = Span(start + width, start + width, 0)
        return start

    def _name(self, start: int) -> int:
        return 2 * start + self.kind
