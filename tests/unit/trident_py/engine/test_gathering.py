"""What comes while a job runs goes into the next one; a batch that is alone doesn't wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field

from coordinators.attempt import TransactionAttempt
from trident_py.engine.bolt_executor import TridentBoltExecutor
from trident_py.engine.gathering import ROWS_MAX, Gathering


def work(txid: int, rows: int = 1) -> TridentBoltExecutor:
    made = TridentBoltExecutor(TransactionAttempt(txid, 0), [frozenset({"s"})])
    made.count_rows("s", "driver", rows)
    return made


@define
class Jobs:
    """Threads that start when the test says so, and jobs that call back while they run."""

    started: list[Callable[[], None]] = field(factory=list)
    ran: list[tuple[int, list[int]]] = field(factory=list)
    meanwhile: Callable[[], object] = lambda: None
    gathering: Gathering = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.gathering = Gathering(self.start, self.job)

    def start(self, call: Callable[..., Any], *arguments: Any) -> None:
        self.started.append(lambda: call(*arguments))

    def job(self, branch: int, works: list[TridentBoltExecutor]) -> list[list[TridentBoltExecutor]]:
        self.ran.append((branch, [each.attempt.txid for each in works]))
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        return []

    def run(self) -> None:
        while self.started:
            self.started.pop(0)()


def test_a_batch_that_is_alone_has_a_job_at_once() -> None:
    jobs = Jobs()
    for txid in (1, 2):
        jobs.gathering.add(0, work(txid))
        assert len(jobs.started) == 1
        jobs.run()
    assert jobs.ran == [(0, [1]), (0, [2])]


def test_what_comes_while_a_job_runs_goes_into_the_next_one() -> None:
    def more() -> None:
        for txid in (2, 3, 4):
            jobs.gathering.add(0, work(txid))

    jobs = Jobs(meanwhile=more)
    jobs.gathering.add(0, work(1))
    jobs.run()
    assert jobs.ran == [(0, [1]), (0, [2, 3, 4])]


def test_branches_do_not_wait_for_each_other() -> None:
    jobs = Jobs()
    jobs.gathering.add(0, work(1))
    jobs.gathering.add(1, work(1))
    assert len(jobs.started) == 2
    jobs.run()
    assert jobs.ran == [(0, [1]), (1, [1])]


def test_one_job_takes_only_so_many_rows_but_at_least_one_batch() -> None:
    jobs = Jobs()
    for txid, rows in enumerate([ROWS_MAX // 2, ROWS_MAX // 2, 1, ROWS_MAX + 1, 5, 0], 1):
        jobs.gathering.add(0, work(txid, rows))
    jobs.run()
    assert jobs.ran == [(0, [1, 2]), (0, [3]), (0, [4]), (0, [5, 6])]
