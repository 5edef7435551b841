"""Counts add up, name by name."""

from __future__ import annotations

from coordinators.status.listener import Counts, no_counts
from coordinators.values.attempt import TransactionAttempt


def test_counts_add_up_by_name_whatever_their_sign() -> None:
    both = Counts(2, {"words": 3, "debts": -1}) + Counts(5, {"words": 4, "lines": 0})
    assert both == Counts(7, {"words": 7, "debts": -1, "lines": 0})


def test_adding_changes_neither() -> None:
    first = Counts(1, {"words": 1})
    assert first + first == Counts(2, {"words": 2})
    assert first == Counts(1, {"words": 1})


def test_what_is_written_adds_up_by_output() -> None:
    both = Counts(written={"counts": 3}) + Counts(written={"counts": 4, "files": 1})
    assert both == Counts(written={"counts": 7, "files": 1})


def test_where_nobody_counts_there_is_nothing() -> None:
    assert no_counts(TransactionAttempt(1, 0)) == Counts()
