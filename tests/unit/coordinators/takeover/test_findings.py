"""What a comparison tells and refuses, and what users accept of it."""

from __future__ import annotations

import pytest
from attrs import evolve

from coordinators.takeover.changes import accept_text, changed_words, span
from coordinators.values.errors import TopologyError
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


def test_what_fits_nothing_is_told_and_ignored() -> None:
    record = ran(NEW, *USUAL, upto=19)
    found = changed(record, *USUAL, accept=["state:counts:12345678"])
    assert found.lines == ("accept='state:counts:12345678' fits no change of this start, and is ignored",)
    assert found.record.accepted == ()


def test_what_was_used_may_stay_in_the_program_and_fits_no_second_change() -> None:
    count, most = (spout(), state()), (spout(), state(aggregator=["Max"]))
    record = ran(NEW, *count, upto=1)
    first = offered(refusal(record, *most))
    record = ran(record, *most, upto=2, accept=[first])
    assert lines(record, *most, accept=[first]) == []
    back = offered(refusal(record, *count, accept=[first]))
    record = ran(record, *count, upto=3, accept=[first, back])
    again = offered(refusal(record, *most, accept=[first, back]))
    assert len({first, back, again}) == 3
    assert changed(record, *most, accept=[again]).record.accepted == (first, back, again)


def test_all_refusals_are_told_at_once_with_topology_and_transaction() -> None:
    record = ran(NEW, *USUAL, state("sums"), upto=19)
    found = changed(record, spout("others"), state(aggregator=["Max"]), state("sums", aggregator=["Min"]))
    with pytest.raises(
        TopologyError, match=r"'wc' is not what it was.*at transaction 20:\n- spout .*\n- state .*\n- st"
    ):
        found.check("wc")


def test_what_is_accepted_is_bound_to_the_change_and_to_how_often_that_was_accepted_before() -> None:
    texts = {
        accept_text(record, kind, name, before, "now")
        for record in (NEW, evolve(NEW, accepted=("state:counts:12345678",)))
        for kind, name in (("state", "counts"), ("state", "sums"), ("sink", "counts"))
        for before in ("before", "earlier")
    }
    assert len(texts) == 2 * 3 * 2 - 4, "what was accepted of another one changes nothing"


def test_a_word_that_only_one_side_has_has_not_changed() -> None:
    assert changed_words({"a": 1, "b": 1, "c": 1}, {"b": 2, "c": 1, "d": 3}) == ["b"]


def test_transactions_are_told_from_the_first_to_the_last() -> None:
    assert [span([7]), span(range(7, 10))] == ["transaction 7", "transactions 7 to 9"]
