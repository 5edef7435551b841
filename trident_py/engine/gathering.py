"""Small batches on their way into shared jobs."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from itertools import accumulate

from attrs import define, field

from trident_py.engine.bolt_executor import TridentBoltExecutor

ROWS_MAX = 16_384
"""Of one job, which rows on the driver enter at 80 000 a second: more gain little, and all of them wait for it."""


@define(eq=False)
class Gathering:
    """What has come while a job runs goes into the next one, all together; a batch that is alone starts at once.

    Attributes:
        start: has a job thread call `run`.
        job: processes a branch of these attempts; returns those that have to be processed again, in these groups.
    """

    start: Callable[[Callable[[int], None], int], object]
    job: Callable[[int, list[TridentBoltExecutor]], list[list[TridentBoltExecutor]]]
    _waiting: defaultdict[int, list[TridentBoltExecutor]] = field(factory=lambda: defaultdict(list), init=False)
    _running: set[int] = field(factory=set, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def add(self, branch: int, work: TridentBoltExecutor) -> None:
        """``work`` has what ``branch`` needs."""
        with self._lock:
            self._waiting[branch].append(work)
            if branch in self._running:
                return
            self._running.add(branch)
        self.start(self.run, branch)

    def run(self, branch: int) -> None:
        """Jobs of ``branch``, one after the other, until nothing waits."""
        while works := self._taken(branch):
            groups = [works]
            while groups:
                group, *groups = groups
                groups = [*self.job(branch, group), *groups]

    def _taken(self, branch: int) -> list[TridentBoltExecutor]:
        with self._lock:
            waiting = self._waiting[branch]
            rows = accumulate(work.rows for work in waiting)
            count = max(1, sum(1 for upto in rows if upto <= ROWS_MAX))
            works, self._waiting[branch] = waiting[:count], waiting[count:]
            if not works:
                self._running.discard(branch)
            return works
