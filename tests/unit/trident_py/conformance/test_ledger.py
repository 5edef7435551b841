"""What a reader may see, by what was called and answered, and which rule is broken where it sees something else."""

from __future__ import annotations

from collections import Counter

import pytest

from coordinators.values.attempt import CommitToken
from trident_py.conformance.ledger import Ledger, Row
from trident_py.conformance.report import Rule

FIRST = CommitToken(1, 1, 0)
ROWS: list[Row] = [("a",), ("b",)]


def ledger(*, begun: bool = True, answered: bool = False) -> Ledger:
    found = Ledger()
    found.recovered(1, None, None)
    found.given(FIRST, ROWS)
    if begun:
        found.begun(FIRST, ROWS)
    if answered:
        found.answered(FIRST)
    return found


def seen(*rows: Row) -> Counter[Row]:
    return Counter(rows)


def test_a_commit_that_was_not_answered_may_have_happened_or_not() -> None:
    assert ledger().read(seen()) is None
    assert ledger().read(seen(*ROWS)) is None


def test_what_a_reader_has_seen_stays_and_what_it_has_not_may_come_yet() -> None:
    found = ledger()
    assert found.read(seen()) is None
    assert found.read(seen(*ROWS)) is None
    broken = found.recovered(2, None, seen())
    assert broken is not None
    assert broken.rule is Rule.COMMITTED_STAYS


def test_commits_that_fail_again_and_again_leave_as_few_outcomes_as_one() -> None:
    found = ledger()
    for attempt in range(20):
        found.begun(CommitToken(1, 1, attempt), ROWS)
    assert len(found.outcomes) == 2


@pytest.mark.parametrize(
    ("begun", "answered", "rows", "rule"),
    [
        (False, False, seen(*ROWS), Rule.COMMIT_FIRST),
        (True, False, seen(("a",)), Rule.ALL_OR_NOTHING),
        (True, True, seen(), Rule.COMMITTED_STAYS),
        (True, True, seen(("a",)), Rule.ALL_OR_NOTHING),
        (True, True, seen(*ROWS, *ROWS), Rule.COMMITTED_ONCE),
        (True, True, seen(*ROWS, ("c",)), Rule.GIVEN_ROWS),
    ],
)
def test_a_reader_that_sees_something_else_tells_the_rule(
    begun: bool, answered: bool, rows: Counter[Row], rule: Rule
) -> None:
    broken = ledger(begun=begun, answered=answered).read(rows)
    assert broken is not None
    assert broken.rule is rule


def test_a_row_that_all_transactions_have_tells_of_a_commit_without_an_answer_that_it_is_there_in_part() -> None:
    found = ledger(begun=False)
    found.begun(FIRST, [*ROWS, ("always",)])
    broken = found.read(seen(*ROWS))
    assert broken is not None
    assert broken.rule is Rule.ALL_OR_NOTHING
    assert broken.seen == "a reader does not see ('always',)"


@pytest.mark.parametrize(
    ("token", "rows", "rule"),
    [
        (None, seen(*ROWS), Rule.TOKEN_NOT_BEHIND),
        (FIRST, seen(), Rule.TOKEN_NOT_AHEAD),
        (CommitToken(1, 7, 7), seen(*ROWS), Rule.TOKEN_RIGHT),
        ((1, 1, 0), seen(*ROWS), Rule.TOKEN_RIGHT),
        (None, seen(), None),
        (FIRST, seen(*ROWS), None),
    ],
)
def test_a_token_has_to_fit_the_rows(token: object, rows: Counter[Row], rule: Rule | None) -> None:
    broken = ledger().recovered(2, token, rows)
    assert (broken and broken.rule) is rule


def test_what_an_older_leader_commits_after_the_fence_is_told_from_what_it_commits_before() -> None:
    found = ledger()
    assert found.recovered(2, None, seen()) is None
    broken = found.read(seen(*ROWS))
    assert broken is not None
    assert broken.rule is Rule.FENCED


def test_rows_of_an_attempt_that_was_given_up_are_never_seen() -> None:
    found = ledger(begun=False)
    found.given_up(FIRST)
    broken = found.read(seen(*ROWS))
    assert broken is not None
    assert broken.rule is Rule.NEVER_COMMITTED


def test_a_replay_of_what_is_committed_changes_nothing() -> None:
    found, again = ledger(answered=True), CommitToken(1, 1, 1)
    found.begun(again, ROWS)
    found.answered(again)
    assert found.read(seen(*ROWS)) is None
    assert found.recovered(2, again, None) is None
    assert found.last == 1


def test_a_transaction_that_is_left_out_has_no_rows_whether_it_had_some_or_not() -> None:
    ledger = Ledger()
    first, empty, never = CommitToken(1, 1, 0), CommitToken(1, 1, 1), CommitToken(2, 1, 0)
    ledger.given(first, [("a",)])
    ledger.begun(first, [("a",)])
    ledger.answered(first)
    ledger.leaves_out(empty)
    assert ledger.in_doubt, "it has no answer yet"
    ledger.left_out(empty)
    assert ledger.read(Counter()) is None
    ledger.leaves_out(never)
    ledger.left_out(never)
    assert ledger.last == 2
    broken = ledger.read(Counter([("a",)]))
    assert broken is not None
