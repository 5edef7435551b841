"""`JobBatcher`: small batches on their way into shared jobs."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from itertools import accumulate

from attrs import define, field, frozen

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.errors import our_bug
from trident_py.engine.plane.work import Job

ROWS_MAX = 16_384
"""Of one job, which rows on the driver enter at 80 000 a second: more gain little, and all of them wait for it."""


@frozen
class _Waiting:
    attempt: TransactionAttempt
    rows: int


@define
class JobBatcher:
    """Decides which small batches share a job.

    One job a branch runs at a time, and all that comes meanwhile goes into the next one; a batch that is alone has a
    job at once.
    """

    _waiting: defaultdict[int, list[_Waiting]] = field(factory=lambda: defaultdict(list), init=False)
    _again: defaultdict[int, deque[tuple[TransactionAttempt, ...]]] = field(
        factory=lambda: defaultdict(deque), init=False
    )
    _running: dict[int, Job] = field(factory=dict, init=False)

    def add(self, branch: int, attempt: TransactionAttempt, rows: int) -> Job | None:
        """Take ``attempt``, which has what ``branch`` reads, so many rows; gives the job that starts now, if any."""
        self._waiting[branch].append(_Waiting(attempt, rows))
        return None if branch in self._running else self._next(branch)

    def drop(self, attempt: TransactionAttempt) -> None:
        """Drop ``attempt``, which will never commit: it goes into no job any more."""
        for branch, waiting in self._waiting.items():
            self._waiting[branch] = [each for each in waiting if each.attempt != attempt]
        for branch, groups in self._again.items():
            left = (tuple(each for each in group if each != attempt) for group in groups)
            self._again[branch] = deque(group for group in left if group)

    def end(self, job: Job, again: Sequence[Sequence[TransactionAttempt]] = ()) -> Job | None:
        """End a job; these groups of its attempts have to run again, ahead of others; gives the next job."""
        assert self._running.get(job.branch) == job, our_bug(f"{job} ended, and was not running")
        del self._running[job.branch]
        self._again[job.branch].extendleft(tuple(group) for group in reversed(again))
        return self._next(job.branch)

    def _next(self, branch: int) -> Job | None:
        attempts = self._again[branch].popleft() if self._again[branch] else self._taken(branch)
        if not attempts:
            return None
        job = self._running[branch] = Job(branch, attempts, is_shared=True)
        return job

    def _taken(self, branch: int) -> tuple[TransactionAttempt, ...]:
        waiting = self._waiting[branch]
        rows = accumulate(each.rows for each in waiting)
        count = max(1, sum(1 for upto in rows if upto <= ROWS_MAX))
        self._waiting[branch] = waiting[count:]
        return tuple(each.attempt for each in waiting[:count])


def bisected(attempts: Sequence[TransactionAttempt]) -> list[Sequence[TransactionAttempt]]:
    """Halves of what shared a failed job of which nobody knows whose failure it was; one alone stays as it is."""
    middle = len(attempts) // 2
    return [half for half in (attempts[:middle], attempts[middle:]) if half]
