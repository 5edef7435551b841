"""What a history says of transactions whose writer may have ended at any moment."""

from __future__ import annotations

import json

from attrs import evolve

from tests.unit.trident_py.history.told import LIFE, PROGRAM, attempt
from trident_py.history.entries import AttemptEntry, LeadershipEntry
from trident_py.history.transactions import TransactionHistory, transactions

FIRST = LeadershipEntry(life=LIFE, epoch=1, program=PROGRAM, current_txid=1, since=100.0)
SECOND = LeadershipEntry(life=LIFE, epoch=2, program=PROGRAM, current_txid=5, since=200.0)


def entry(which: str, phase: str, epoch: int = 1, failed: str = "") -> AttemptEntry:
    return AttemptEntry(life=LIFE, epoch=epoch, attempt=attempt(which), emitted=1.0, phase=phase, failed=failed)


def outcomes(found: list[TransactionHistory]) -> list[str]:
    return [f"{each.entry.attempt} {each.outcome}" for one in found for each in one.attempts]


def test_attempts_are_put_together_in_order_whatever_their_order_was() -> None:
    given = [entry("2:0", "processing"), entry("1:1", "committed"), entry("1:0", "failed", failed="1:0")]
    found = transactions([FIRST], given)
    assert outcomes(found) == ["1:0 failed", "1:1 committed", "2:0 processing"]
    assert [each.txid for each in found] == [1, 2]
    assert found[0].own_failure is found[0].attempts[0]
    assert found[1].own_failure is None


def test_a_failure_by_an_earlier_transaction_is_not_its_own() -> None:
    (found,) = transactions([FIRST], [entry("2:0", "failed", failed="1:0")])
    assert found.own_failure is None


def test_what_was_under_way_when_the_leadership_ended_is_abandoned() -> None:
    (found,) = transactions([evolve(FIRST, ended=150.0)], [entry("1:0", "processed")])
    assert found.last.outcome == "abandoned"
    (forgotten,) = transactions([], [entry("1:0", "processing")])
    assert (forgotten.last.outcome, forgotten.last.leadership) == ("abandoned", None)


def test_a_later_leadership_tells_what_was_committed_right_before_a_crash() -> None:
    given = [entry("4:0", "processing"), entry("4:1", "processed"), entry("5:0", "processed")]
    found = transactions([FIRST, SECOND], given)
    assert outcomes(found) == ["4:0 abandoned", "4:1 committed", "5:0 abandoned"]


def test_a_parked_transaction_says_so_under_later_leaderships_too() -> None:
    (found,) = transactions([FIRST, SECOND], [entry("1:0", "parked")])
    assert found.last.outcome == "parked"


def test_a_transaction_that_a_takeover_has_closed_was_parked_if_that_was_decided() -> None:
    given = [entry("3:2", "processed"), entry("4:0", "processed")]
    assert outcomes(transactions([FIRST, SECOND], given, parked={3})) == ["3:2 parked", "4:0 committed"]


def test_the_facts_are_json() -> None:
    (found,) = transactions([FIRST], [entry("1:0", "committed")])
    facts = json.loads(json.dumps(found.facts()))
    assert (facts["txid"], facts["outcome"], facts["attempts"][0]["code"]) == (1, "committed", "c0de")
