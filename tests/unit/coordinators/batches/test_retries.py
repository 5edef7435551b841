"""How long a failing transaction waits, when it is given up, and what of it outlives the leader."""

from __future__ import annotations

from coordinators.batches.failures import Retries
from coordinators.record.record import Failure
from coordinators.values.attempt import TransactionAttempt


def fail(retries: Retries, txid: int, *, counts: bool, now: float = 0.0, cause: str = "boom") -> float | None:
    attempt = TransactionAttempt(txid, retries.failures(txid))
    return retries.failed(attempt, ValueError(cause), counts=counts, now=now, wall=1000.0 + now)


def test_own_failures_count_and_others_only_wait() -> None:
    retries = Retries(attempts=2, backoff=1.0, backoff_max=4.0)
    assert [fail(retries, 1, counts=False) for _ in range(4)] == [1.0, 2.0, 4.0, 4.0]
    assert fail(retries, 1, counts=True) == 4.0
    assert fail(retries, 1, counts=True) is None
    assert retries.failures(1) == 6


def test_each_transaction_has_its_own_book_until_it_commits() -> None:
    retries = Retries(attempts=3, backoff=1.0)
    fail(retries, 1, counts=True, now=10.0)
    assert (retries.held_until(1), retries.held_until(2)) == (11.0, 0.0)
    assert retries.causes == {1: "ValueError: boom"}
    retries.forget(1)
    assert (retries.held_until(1), retries.failures(1), retries.causes) == (0.0, 0, {})


def test_what_is_kept_of_failures_is_how_many_which_why_and_since_when() -> None:
    retries = Retries()
    fail(retries, 7, counts=True, now=1.0)
    fail(retries, 7, counts=False, now=5.0, cause="lost")
    assert retries.known == {7: Failure(1, 1, "ValueError: lost", since=1001.0, last=1005.0, tries=2)}


def test_a_later_leader_goes_on_counting_and_tries_once_more_what_was_given_up() -> None:
    retries = Retries(attempts=3)
    retries.restore({4: Failure(2, 5, "boom", 0.0, 0.0), 5: Failure(3, 2, "boom", 0.0, 0.0)})
    assert (retries.held_until(4), retries.held_until(5)) == (0.0, 0.0)
    assert fail(retries, 4, counts=True) is None
    assert fail(retries, 5, counts=False) == 0.1
    assert fail(retries, 5, counts=True) is None
