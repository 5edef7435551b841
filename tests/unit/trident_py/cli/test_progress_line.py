"""What is said first of a running topology, and what a narrow terminal leaves of it."""

from __future__ import annotations

import pytest

from coordinators.record.record import Failure
from coordinators.status.status import TopologyStatus, TransactionStatus
from coordinators.values.attempt import TransactionAttempt
from trident_py.cli.progress_line import RecentRate, fitted, parts

DONE = {"committed_transactions": 1, "total_input_rows": 2_345, "seconds": 61.4}


def status(*attempts: TransactionAttempt, failing: int = 0) -> TopologyStatus:
    """Of a topology with these in flight, one of which may have failed before."""
    failures = (
        {failing: Failure(count=1, attempt_id=0, cause="ValueError", since=0.0, last=0.0, tries=1)} if failing else {}
    )
    transactions = [
        TransactionStatus(attempt=each, number=each.txid, phase="processing", since=0.0) for each in attempts
    ]
    return TopologyStatus(topology="orders", epoch=1, transactions=tuple(transactions), failures=failures)


def test_state_and_cause_come_before_the_numbers() -> None:
    failing = status(TransactionAttempt(5, 2), TransactionAttempt(6, 0), failing=5)
    assert parts("orders", failing, DONE, 1234.5) == [
        "orders",
        "transaction 5 has failed and is tried again: ValueError (1 try, 0 s)",
        "5 (try 3) 6",
        "1 transaction",
        "2,345 rows",
        "1,234 rows/s",
        "61 s",
    ]


def test_what_is_idle_has_no_rate() -> None:
    assert parts("orders", status(), DONE, 0.0)[-2:] == ["2,345 rows", "61 s"]


def test_a_narrow_terminal_has_a_line_for_each_part() -> None:
    assert fitted(["orders", "paused", "3 s"], 59) == "orders\npaused\n3 s"
    assert fitted(["orders", "paused", "3 s"], 60) == "orders  paused  3 s"


def test_the_rate_is_of_the_last_ten_seconds() -> None:
    rate = RecentRate()
    assert rate.per_second == 0
    for second in range(31):
        rate.note(float(second), 100 * min(second, 15))
    assert rate.per_second == 0  # since second 15 there was nothing
    rate.note(31.0, 1610)
    assert rate.per_second == pytest.approx(11)
