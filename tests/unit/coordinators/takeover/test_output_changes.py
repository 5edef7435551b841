"""States, windows and sinks that changed: which go on, which are refused, and what can be accepted.

See `coordinators.takeover.changes`; a comparison is begun by `coordinators.takeover.changes`.
"""

from __future__ import annotations

import pytest
from attrs import evolve

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
    stored,
    window,
)


@pytest.mark.parametrize(("at", "earlier"), [(2, "transaction 1"), (20, "the 19 before it")])
def test_a_state_that_is_added_says_from_where(at: int, earlier: str) -> None:
    record = ran(NEW, *USUAL, upto=at - 1)
    now = changed(record, *USUAL, state("by_url"))
    assert now.lines == (f"state 'by_url' is new: it begins with transaction {at}, without {earlier}",)
    assert now.record.states == {"counts": 1, "by_url": at}


def test_a_state_that_is_left_out_says_until_when() -> None:
    record = ran(NEW, *USUAL, upto=3)
    assert lines(record, spout()) == [
        "state 'counts' was fed until transaction 3 and is not declared any more; it stays as it is"
    ]
    assert lines(ran(record, spout(), upto=9), spout()) == []


def test_a_state_that_comes_back_misses_transactions_and_may_be_accepted_so() -> None:
    record = ran(ran(NEW, *USUAL, upto=3), spout(), upto=9)
    text = refusal(record, *USUAL)
    assert text.startswith(
        "state 'counts' was left out after transaction 3, and transactions 4 to 9 are not in it. To fix this: give "
        "the new one another name or table, which begins with transaction 10. If it is to continue without them, "
        "accept it: "
    )
    found = changed(record, *USUAL, accept=[offered(text)])
    assert found.refusals == ()
    assert (found.record.states, found.record.gaps) == ({"counts": 1}, {"counts": range(4, 10)})


def test_a_state_that_comes_back_is_the_one_that_was_left_out() -> None:
    record = ran(ran(NEW, *USUAL, upto=3), spout(), upto=9)
    missing, other = changed(record, spout(), state(aggregator=["Max"])).refusals
    assert "transactions 4 to 9 are not in it" in missing
    assert "its aggregator changed from 'Count' to 'Max'" in other


def test_a_gap_grows_where_a_state_is_left_out_again_before_it_has_gone_on() -> None:
    record = ran(ran(NEW, *USUAL, upto=3), spout(), upto=9)
    record = stored(changed(record, *USUAL, accept=[offered(refusal(record, *USUAL))]).record)
    assert stored(changed(record, *USUAL).record).gaps == {"counts": range(4, 10)}
    record = ran(record, spout(), upto=12)
    text = refusal(record, *USUAL)
    assert "transactions 10 to 12 are not in it" in text
    assert changed(record, *USUAL, accept=[offered(text)]).record.gaps == {"counts": range(4, 13)}


def test_a_gap_begins_anew_where_a_state_had_gone_on_before_it_was_left_out_again() -> None:
    record = ran(ran(NEW, *USUAL, upto=3), spout(), upto=9)
    record = ran(record, *USUAL, upto=10, accept=[offered(refusal(record, *USUAL))])
    record = ran(record, spout(), upto=12)
    found = changed(record, *USUAL, accept=[offered(refusal(record, *USUAL))])
    assert found.record.gaps == {"counts": range(11, 13)}


def test_a_state_that_comes_back_before_anything_was_committed_misses_nothing() -> None:
    record = changed(ran(NEW, *USUAL, upto=3), spout()).record
    assert lines(record, *USUAL) == []
    assert changed(record, *USUAL).record.gaps == {}


def test_a_state_that_is_left_out_before_anything_was_committed_to_it_is_new_when_it_comes_back() -> None:
    record = changed(ran(NEW, *USUAL, upto=3), *USUAL, state("sums")).record
    record = ran(record, *USUAL, upto=9)
    assert record.states == {"counts": 1}
    assert lines(record, *USUAL, state("sums")) == [
        "state 'sums' is new: it begins with transaction 10, without the 9 before it"
    ]
    gaps = changed(record, *USUAL, state("sums")).record.gaps
    assert gaps == {"sums": range(4, 10)}, "an attempt of 4 may have died that had committed to it"


def test_another_aggregator_is_refused_and_can_be_accepted() -> None:
    record = ran(NEW, *USUAL, upto=19)
    now = (spout(), state(aggregator=["Max"]))
    text = refusal(record, *now)
    assert text.startswith(
        "state 'counts': its aggregator changed from 'Count' to 'Max'; the data under this name belong to the "
        "other one. To fix this: declare it as it was, migrate it if it is a SQL state "
        "(topology.migrate('counts', …)), or "
        "give the new one another name or table, which begins with transaction 20. If both belong together, accept it: "
    )
    after = ran(record, *now, upto=21, accept=[offered(text)])
    assert lines(after, *now) == []


def test_what_a_table_holds_fast_cannot_be_accepted() -> None:
    record = ran(NEW, *USUAL, upto=19)
    text = refusal(record, spout(), state(keys="word string, lang string"))
    assert "its keys changed from 'word string' to 'word string, lang string'" in text
    assert "accept" not in text


def test_a_state_that_becomes_a_sink_of_the_same_name_is_refused() -> None:
    record = ran(NEW, *USUAL, upto=19)
    text = refusal(record, spout(), evolve(state(), kind="sink"))
    assert text.startswith("sink 'counts': it was a state and is a sink now")


def test_a_state_that_is_fed_by_another_spout_too_goes_on_with_a_line() -> None:
    record = ran(NEW, *USUAL, upto=19)
    assert lines(record, spout(), spout("more"), state(spouts="lines, more")) == [
        "spout 'more' is new: it begins with transaction 20",
        "state 'counts': its spouts changed from 'lines' to 'lines, more', with transaction 20",
    ]


def test_a_window_that_nobody_named_is_known_by_what_leads_to_it() -> None:
    record = ran(NEW, spout(), window("lines > map > filter > window"), upto=9)
    assert lines(record, spout(), window("lines > map > filter > window")) == []
    text = refusal(record, spout(), window("lines > map > window"))
    assert text.startswith(
        "window 'lines-window': it has no explicit name, and the operations before it changed from 'lines > map > "
        "filter > window' to 'lines > map > window', so it may be another one. If it is the same, say so by "
        "name('lines-window')"
    )
    assert lines(record, spout(), window("lines > map > window", is_named=True)) == []
    assert changed(record, spout(), window("lines > map > window"), accept=[offered(text)]).refusals == ()
