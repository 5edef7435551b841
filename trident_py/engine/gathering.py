"""Small batches on their way into shared jobs."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable

from attrs import define, field

from trident_py.engine.bolt_executor import TridentBoltExecutor

MEMBERS_MAX = 512
"""Of one job: more gain little, and all of them wait for it."""


@define(eq=False)
class Gathering:
    """What has come while a job runs goes into the next one, all together; a batch that is alone starts at once.

    Attributes:
        start: has a job thread call `run`.
        job: processes a branch of these attempts.
    """

    start: Callable[[Callable[[int], None], int], object]
    job: Callable[[int, list[TridentBoltExecutor]], None]
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
            self.job(branch, works)

    def _taken(self, branch: int) -> list[TridentBoltExecutor]:
        with self._lock:
            waiting = self._waiting[branch]
            works, self._waiting[branch] = waiting[:MEMBERS_MAX], waiting[MEMBERS_MAX:]
            if not works:
                self._running.discard(branch)
            return works
