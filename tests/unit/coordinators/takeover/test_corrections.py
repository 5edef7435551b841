"""Data that were corrected in place: when spouts are asked, what is refused, what replaces the old definitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from attrs import evolve

from coordinators.record.declarations import Declarations
from coordinators.record.parking import Parked, ParkedList, Parking
from coordinators.record.record import CoordinatorRecord, Failure
from coordinators.takeover.changes import SpoutCorrection, compared, corrections_of
from coordinators.takeover.takeover import Torn
from coordinators.values.batch_coordinator import BatchCoordinator, Correction
from coordinators.values.canonical import Fingerprint
from coordinators.values.cursors import Cursors
from tests.unit.coordinators.comparing import NEW, USUAL, offered, ran

FAILED = Failure(count=5, attempt_id=4, cause="ValueError: bad", since=0.0, last=1.0, tries=5)
ROWS = Fingerprint(rows=3, sum=7)
RECORD = evolve(
    ran(NEW, *USUAL, upto=19),
    metadata={19: {"lines": ["old", 0]}, 20: {"lines": ["old", 1], "other": 4}, 21: {"lines": ["old", 2]}},
    cursors={"lines": Cursors().updated({"a.log": 30, "b.log": 7})},
    fingerprints={20: {"lines": ROWS, "other": ROWS}, 21: {"lines": ROWS}},
    failures={20: FAILED},
)
FOUND = Correction(
    what="the bytes of file 'a.log' from 10 on have changed",
    checked="the rest is your word",
    before=["a.log", 10, 20],
    now=["a.log", 10, 18],
    definitions={20: ["new", 1], 21: ["new", 2]},
    moved={"a.log": 18},
)


class Source(BatchCoordinator[Any]):
    """A spout's coordinator that was asked what has been corrected."""

    def __init__(self) -> None:
        self.asked: list[Mapping[int, Any]] = []

    def is_ready(self, txid: int) -> bool:
        return False

    def initialize_transaction(self, txid: int, prev_metadata: Any, curr_metadata: Any) -> Any:
        return curr_metadata

    def corrected(self, definitions: Mapping[int, Any]) -> Correction[Any] | None:
        self.asked.append(definitions)
        return FOUND


def found(record: CoordinatorRecord, torn: Torn | None = None, *accept: str) -> Any:
    return compared(record, Declarations(USUAL, accept=accept), torn, [SpoutCorrection("lines", FOUND)])


def test_a_spout_is_asked_about_its_batches_that_are_not_committed_if_one_has_failed() -> None:
    source = Source()
    assert list(corrections_of(RECORD, {"lines": source})) == [SpoutCorrection("lines", FOUND)]
    assert source.asked == [{20: ["old", 1], 21: ["old", 2]}]


def test_a_batch_that_is_being_parked_stays_as_it_was_parked() -> None:
    source = Source()
    parking = Parking(20, 5, Parked(txid=20, number=20, definition={"lines": ["old", 1]}))
    record = evolve(RECORD, parked=ParkedList(parking), failures={21: FAILED})
    list(corrections_of(record, {"lines": source}))
    assert source.asked == [{21: ["old", 2]}]


@pytest.mark.parametrize(
    "failures",
    [{}, {19: FAILED}, {20: evolve(FAILED, count=0, spout="lines")}],
    ids=["none", "committed", "source away"],
)
def test_a_spout_is_not_asked_where_no_batch_failed_by_its_own_fault(failures: dict[int, Failure]) -> None:
    source = Source()
    assert list(corrections_of(evolve(RECORD, failures=failures), {"lines": source})) == []
    assert source.asked == []


def test_a_correction_is_refused_until_it_is_accepted_by_its_name_and_hash_and_used_once() -> None:
    (text,) = found(RECORD).refusals
    assert "the bytes of file 'a.log' from 10 on have changed. Transactions 20 to 21 failed, or came after it" in text
    assert found(RECORD, None, "corrected:lines:00000000").refusals
    accepted = found(RECORD, None, offered(text))
    assert accepted.refusals == ()
    assert found(accepted.record, None, offered(text)).refusals  # the same change again would be another one


def test_what_was_corrected_takes_the_place_of_the_old_definitions_and_nothing_else_changes() -> None:
    record = found(RECORD, None, offered(found(RECORD).refusals[0])).record
    assert record.metadata == {
        19: {"lines": ["old", 0]},
        20: {"lines": ["new", 1], "other": 4},
        21: {"lines": ["new", 2]},
    }
    assert dict(record.cursors["lines"].items()) == {"a.log": 18, "b.log": 7}
    assert record.fingerprints == {20: {"other": ROWS}, 21: {}}
    assert (record.current_txid, record.attempt_ids) == (RECORD.current_txid, RECORD.attempt_ids)


@pytest.mark.parametrize(("txids", "refused"), [(range(20, 21), True), (range(20, 22), True), (range(21, 22), False)])
def test_a_correction_is_refused_where_an_output_has_the_transaction_and_names_it(txids: range, refused: bool) -> None:
    torn = Torn(txids, ("counts",), ("sums",))
    text = offered(found(RECORD).refusals[0])
    (*refusals,) = found(RECORD, torn, text).refusals
    assert bool(refusals) == refused
    if refused:
        assert "but 'counts' has transaction 20 as it was read before, so it can't be read again" in refusals[0]
        assert "accept" not in refusals[0]
