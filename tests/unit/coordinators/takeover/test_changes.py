"""A topology that changed: when nothing is said, and what only some states have of a transaction."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from attrs import evolve

from coordinators.record.declarations import Declaration, Declarations
from coordinators.takeover.changes import compared
from coordinators.takeover.takeover import Torn
from coordinators.values.cursors import Cursors
from tests.unit.coordinators.comparing import (
    NEW,
    USUAL,
    changed,
    lines,
    offered,
    ran,
    refusal,
    spout,
    state,
)


def test_a_new_topology_has_nothing_to_compare_and_is_remembered() -> None:
    found = changed(NEW, *USUAL)
    assert (found.lines, found.refusals) == ((), ())
    assert found.record.declared is not None
    assert found.record.states == {"counts": 1}


def test_the_same_declarations_say_nothing() -> None:
    record = ran(NEW, *USUAL, upto=19)
    found = changed(record, *USUAL)
    assert (found.lines, found.refusals) == ((), ())
    assert found.record == record


def test_before_anything_was_read_everything_may_change() -> None:
    record = changed(NEW, *USUAL).record
    assert lines(record, spout("others"), state("sums", keys="n int"), state(aggregator=["Max"])) == []


def test_a_record_of_a_release_that_kept_no_declarations_counts_as_unchanged() -> None:
    record = evolve(NEW, current_txid=20, metadata={19: {"lines": 1}}, states={"counts": 1})
    (line,) = lines(record, *USUAL)
    assert "kept no declarations: the current ones are assumed to be unchanged" in line
    assert lines(changed(record, *USUAL).record, *USUAL) == []


def test_a_record_without_declarations_still_knows_names() -> None:
    record = evolve(NEW, current_txid=20, metadata={19: {"lines": 1}}, cursors={"lines": Cursors()}, states={"a": 1})
    assert "spout 'log' is new and would be read from the beginning, while 'lines'" in refusal(record, spout("log"))
    _, left, new = lines(record, spout(), state())
    assert left == "state 'counts' is new: it begins with transaction 20, without the 19 before it"
    assert new == "state 'a' was fed until transaction 19 and is not declared any more; it stays as it is"


SUMS = (*USUAL, state("sums"))
TORN = Torn(range(20, 22), ("counts",), ("sums",))


def test_the_plan_that_began_a_torn_transaction_goes_on_with_it() -> None:
    record = ran(NEW, *SUMS, upto=19)
    mended = (*USUAL, evolve(state("sums"), details={"spouts": "lines", "workers": 4}))
    for same in (SUMS, mended):
        assert compared(record, Declarations(same), TORN).refusals == ()


@pytest.mark.parametrize(
    "other",
    [
        (*USUAL,),
        (*SUMS, spout("more")),
        (*SUMS, state("products")),
        (*USUAL, evolve(state("sums"), way="lines > filter > persistent_aggregate")),
    ],
)
def test_another_plan_is_refused_while_only_some_states_have_a_transaction_and_both_ways_on_are_told(
    other: Sequence[Declaration],
) -> None:
    record = ran(NEW, *SUMS, upto=19)
    (text,) = compared(record, Declarations(other), TORN).refusals
    assert text.startswith("transactions 20 to 21 are in counts and not in sums, because of a crash between their comm")
    assert "start the version that began them once more and stop() it, which commits them" in text
    assert compared(record, Declarations(other)).refusals == ()
    found = compared(record, Declarations(other, [offered(text)]), TORN)
    assert found.refusals == ()
    assert f"torn '20-21': continues, as accepted by {offered(text)}, from transaction 20 on" in found.lines
    assert found.record.accepted == (offered(text),)


def test_where_all_that_keep_tokens_have_a_transaction_the_refusal_names_nobody_who_lacks_it() -> None:
    torn = evolve(TORN, having=("counts", "sums"), lacking=())
    (text,) = compared(ran(NEW, *SUMS, upto=19), Declarations(USUAL), torn).refusals
    assert "are in counts and sums; whether the rest has committed too isn't known, because of a crash between" in text


def test_accepting_one_torn_transaction_says_nothing_of_the_next() -> None:
    record, other = ran(NEW, *SUMS, upto=19), (*SUMS, spout("more"))
    text = offered(compared(record, Declarations(other), TORN).refusals[0])
    later = compared(record, Declarations(other, [text]), evolve(TORN, txids=range(20, 21)))
    assert len(later.refusals) == 1


def test_a_state_cannot_join_a_torn_transaction_of_a_release_that_kept_no_declarations() -> None:
    record = evolve(NEW, current_txid=20, metadata={19: {"lines": 1}}, states={"counts": 1, "sums": 1})
    assert compared(record, Declarations(SUMS), TORN).refusals == ()
    (text,) = compared(record, Declarations((*SUMS, state("products"))), TORN).refusals
    assert "transactions 20 to 21 are in counts and not in sums" in text
