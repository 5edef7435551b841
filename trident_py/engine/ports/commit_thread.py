"""The current work of the commit thread, on which states are used, for messages to components that wait for it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attrs import define, field


@define
class _Work:
    """A piece of work that began at ``since``, by the clock of the thread."""

    what: str
    since: float
    reported: bool = False


@define(eq=False)
class CommitThread:
    """Written by the commit thread, read by any.

    Attributes:
        patience: seconds after which its work is late.
        clock: seconds that never go back.
    """

    patience: float = math.inf
    clock: Callable[[], float] = time.monotonic
    _work: _Work | None = field(default=None, init=False)
    _tasks_done: Callable[[], int | None] | None = field(default=None, init=False)  # of its Spark job
    _seen: int = field(default=-1, init=False)

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Set the work within the block: ``what``, a noun, such as "the commit of transaction 7"."""
        self._work = _Work(what, self.clock())
        try:
            yield
        finally:
            self._work = None

    def late(self) -> str:
        """Return a sentence about work that takes longer than its patience; empty: no work is late."""
        work = self._work
        secs = self.clock() - work.since if work else 0.0
        if work is None or secs <= self.patience:
            return ""
        return f"{work.what} has taken {secs:.0f} s so far; commits and queries of states wait for it"

    def warning(self) -> str:
        """Return the same sentence, but only once for each piece of work."""
        work, late = self._work, self.late()
        if work is None or work.reported:
            return ""
        work.reported = bool(late)
        return late

    @contextmanager
    def by_tasks(self, tasks_done: Callable[[], int | None]) -> Iterator[None]:
        """Let a Spark job do the work within the block; ``tasks_done`` counts its ended tasks, None: it is unknown."""
        self._seen, self._tasks_done = -1, tasks_done
        try:
            yield
        finally:
            self._tasks_done = None

    def gets_on(self) -> bool:
        """Return whether the work has made progress since the last call, which is unknown of work without tasks."""
        tasks_done = self._tasks_done
        done = tasks_done() if tasks_done else None
        if done is None:
            return True
        before, self._seen = self._seen, done
        return done > before
