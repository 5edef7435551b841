"""What comes while a job runs goes into the next one; a batch that is alone doesn't wait."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from coordinators.values.attempt import TransactionAttempt
from trident_py.engine.plane.plane import ROWS_MAX, JobBatcher, bisected
from trident_py.engine.plane.work import Job


def attempts(*txids: int) -> tuple[TransactionAttempt, ...]:
    return tuple(TransactionAttempt(txid, 0) for txid in txids)


def job(*txids: int, branch: int = 0) -> Job:
    return Job(branch, attempts(*txids), is_shared=True)


def add(batcher: JobBatcher, txid: int, rows: int = 1, branch: int = 0) -> Job | None:
    return batcher.add(branch, TransactionAttempt(txid, 0), rows)


def test_a_batch_that_is_alone_has_a_job_at_once() -> None:
    batcher = JobBatcher()
    for txid in (1, 2):
        assert add(batcher, txid) == job(txid)
        assert batcher.end(job(txid)) is None


def test_what_comes_while_a_job_runs_goes_into_the_next_one() -> None:
    batcher = JobBatcher()
    add(batcher, 1)
    assert [add(batcher, txid) for txid in (2, 3, 4)] == [None, None, None]
    assert batcher.end(job(1)) == job(2, 3, 4)


def test_branches_do_not_wait_for_each_other() -> None:
    batcher = JobBatcher()
    assert add(batcher, 1) == job(1)
    assert add(batcher, 1, branch=1) == job(1, branch=1)


def test_one_job_takes_only_so_many_rows_but_at_least_one_batch() -> None:
    batcher = JobBatcher()
    ran = [add(batcher, 9)]
    for txid, rows in enumerate([ROWS_MAX // 2, ROWS_MAX // 2, 1, ROWS_MAX + 1, 5, 0], 1):
        add(batcher, txid, rows)
    while ran[-1] is not None:
        ran.append(batcher.end(ran[-1]))
    assert ran == [job(9), job(1, 2), job(3), job(4), job(5, 6), None]


def test_what_has_to_run_again_runs_ahead_of_what_waits() -> None:
    batcher = JobBatcher()
    add(batcher, 1)
    for txid in (2, 3, 4, 5):
        add(batcher, txid)
    first = batcher.end(job(1))
    assert first == job(2, 3, 4, 5)
    add(batcher, 6)
    assert batcher.end(first, bisected(first.attempts)) == job(2, 3)
    assert batcher.end(job(2, 3)) == job(4, 5)
    assert batcher.end(job(4, 5)) == job(6)


def test_who_will_never_commit_goes_into_no_job_any_more() -> None:
    batcher = JobBatcher()
    add(batcher, 1)
    for txid in (2, 3, 4):
        add(batcher, txid)
    whole = batcher.end(job(1))
    assert whole == job(2, 3, 4)
    batcher.drop(TransactionAttempt(3, 0))  # it is in the job that runs
    add(batcher, 5)
    assert batcher.end(whole, [attempts(2), attempts(3, 4)]) == job(2)
    batcher.drop(TransactionAttempt(3, 0))
    batcher.drop(TransactionAttempt(5, 0))
    assert batcher.end(job(2)) == job(4)
    assert batcher.end(job(4)) is None


@pytest.mark.parametrize(("group", "halves"), [([1], [(1,)]), ([1, 2], [(1,), (2,)]), ([1, 2, 3], [(1,), (2, 3)])])
def test_nobody_is_lost_where_a_group_is_bisected(group: Sequence[int], halves: list[tuple[int, ...]]) -> None:
    assert bisected(attempts(*group)) == [attempts(*half) for half in halves]
