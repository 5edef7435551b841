"""Windows by time over what a store has, fed by the product's own arithmetic; and what a checker wants to know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from attrs import define, field

from trident_py.windows.windows import MICROS, Advance, TumblingDuration, WindowProgress

if TYPE_CHECKING:
    from tests.simulation.stores import Entry, Store

MILLIS_TO_MICROS = 1000


@define
class Windows:
    """Tumbling windows over the rows of every store.

    Attributes:
        seconds: how long they are; 0: the next transaction closes them, so that no time has to pass.
    """

    seconds: float
    _window: TumblingDuration = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Of a length that may be."""
        self._window = TumblingDuration(self.seconds or 1)

    def next_at(self, store: Store) -> int | None:
        """When the next window ends, by the times of transactions in milliseconds; None: no rows wait."""
        if not self.seconds:
            ledger = [entry for entry in store.ledger if not entry.is_left_out]
            return 0 if ledger and ledger[-1].rows else None
        end = self._window.next_firing_at(self._last(store))
        return None if end is None else -(-end // MILLIS_TO_MICROS)

    def firing(self, ledger: Sequence[Entry]) -> Iterator[tuple[Entry, list[int]]]:
        """For each transaction the windows that it let fire, by their ends in milliseconds."""
        if not self.seconds:
            taken = [entry for entry in ledger if not entry.is_left_out]
            yield from ((entry, [0] if before.rows else []) for before, entry in pairwise(taken))
            return
        for entry, step in self._steps(ledger, WindowProgress()):
            yield entry, [each.trigger // MILLIS_TO_MICROS for each in step.fired]

    def _last(self, store: Store) -> WindowProgress:
        # Of all but the last transaction, which may be rolled back, it doesn't change any more.
        count, progress = store.settled
        for _, step in self._steps(store.ledger[count:-1], progress):
            progress = step.after
        store.settled = max(count, len(store.ledger) - 1), progress
        for _, step in self._steps(store.ledger[-1:], progress):
            progress = step.after
        return progress

    def _steps(self, ledger: Sequence[Entry], progress: WindowProgress) -> Iterator[tuple[Entry, Advance]]:
        for entry in ledger:
            if entry.is_passed_over or entry.is_left_out:
                continue
            step = self._window.advance(progress, len(entry.rows), entry.time * (MICROS // 1000))
            progress = step.after
            yield entry, step
