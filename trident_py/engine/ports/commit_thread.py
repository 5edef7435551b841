"""What the one thread is doing on which states are used, so that whoever waits for it can be told."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attrs import define, field


@define
class _Work:
    """Something that began at ``since``, on the clock of the thread's."""

    what: str
    since: float
    reported: bool = False


@define(eq=False)
class CommitThread:
    """Written by that thread, read by any.

    Attributes:
        patience: seconds after which what it does is late.
        clock: seconds that never go back.
    """

    patience: float = math.inf
    clock: Callable[[], float] = time.monotonic
    _work: _Work | None = field(default=None, init=False)

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Within the block it does ``what``, a noun, as "the commit of transaction 7"."""
        self._work = _Work(what, self.clock())
        try:
            yield
        finally:
            self._work = None

    def late(self) -> str:
        """Return what it has been doing for longer than its patience, in a sentence; empty: nothing."""
        work = self._work
        secs = self.clock() - work.since if work else 0.0
        if work is None or secs <= self.patience:
            return ""
        return f"{work.what} has taken {secs:.0f} s so far; commits, and whoever asks states, wait for it"

    def warning(self) -> str:
        """Return the same, once."""
        work, late = self._work, self.late()
        if work is None or work.reported:
            return ""
        work.reported = bool(late)
        return late
