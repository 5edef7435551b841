"""How long a failing transaction waits, and when it has failed too often."""

from __future__ import annotations

from coordinators.retries import Retries


def test_own_failures_count_and_others_only_wait() -> None:
    retries = Retries(attempts=2, backoff=1.0, backoff_max=4.0)
    cause = ValueError("boom")
    assert [retries.failed(1, cause, False, 0.0) for _ in range(4)] == [1.0, 2.0, 4.0, 4.0]
    assert retries.failed(1, cause, True, 0.0) == 4.0
    assert retries.failed(1, cause, True, 0.0) is None
    assert retries.failures(1) == 6


def test_each_transaction_has_its_own_book_until_it_commits() -> None:
    retries = Retries(attempts=3, backoff=1.0)
    retries.failed(1, ValueError("boom"), True, 10.0)
    assert (retries.held_until(1), retries.held_until(2)) == (11.0, 0.0)
    assert retries.causes == {1: "boom"}
    retries.forget(1)
    assert (retries.held_until(1), retries.failures(1), retries.causes) == (0.0, 0, {})
