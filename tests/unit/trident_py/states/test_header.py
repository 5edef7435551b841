from __future__ import annotations

import pytest
from attrs import evolve

from trident_py.errors import FencedError, StateError
from trident_py.interfaces.sinks import CommitToken, TopologyKey
from trident_py.states.fenced import Fence, StateHeader, TableStep

TOPOLOGY = TopologyKey("wordcount", "8d1f", 2)
FOUND = StateHeader(Fence(TOPOLOGY, 3, CommitToken(7, 3, 1), 6), "them", "word string, count bigint")
CLAIM = StateHeader(Fence(TOPOLOGY, 4), "us", FOUND.columns)


def claimed(found: StateHeader | None, claim: StateHeader = CLAIM, *, exists: bool) -> tuple[StateHeader, TableStep]:
    return claim.claimed(found, exists=exists, state="table 'counts'")


def test_what_is_stored_comes_back() -> None:
    assert StateHeader.of(FOUND.row) == FOUND
    assert StateHeader.of(CLAIM.row) == CLAIM
    assert len(FOUND.row) == len(StateHeader.COLUMNS.split(", "))


def test_a_new_state_is_made_where_nothing_is() -> None:
    assert claimed(None, exists=False) == (CLAIM, TableStep.CREATE)


def test_what_a_leader_before_left_is_gone_on_with() -> None:
    header, step = claimed(FOUND, exists=True)
    assert step is TableStep.KEEP
    assert header == evolve(FOUND, fence=evolve(FOUND.fence, epoch=4), owner="us")


def test_a_takeover_that_died_before_it_had_made_the_table_makes_it() -> None:
    begun = evolve(FOUND, fence=Fence(TOPOLOGY, 3))
    assert claimed(begun, exists=False)[1] is TableStep.CREATE


@pytest.mark.parametrize(("exists", "step"), [(True, TableStep.REPLACE), (False, TableStep.CREATE)])
def test_a_newer_incarnation_begins_anew(exists: bool, step: TableStep) -> None:
    claim = evolve(CLAIM, fence=Fence(evolve(TOPOLOGY, incarnation=3), 4), columns="other string, n int")
    assert claimed(FOUND, claim, exists=exists) == (claim, step)


REFUSED: list[tuple[StateHeader | None, StateHeader, bool, type[Exception], str]] = [
    (None, CLAIM, True, StateError, "exists and was not made by a topology"),
    (FOUND, evolve(CLAIM, columns="word string, n int"), True, StateError, "has the fields word string, count bigint"),
    (FOUND, CLAIM, False, StateError, "is gone, it was at"),
    (FOUND, evolve(CLAIM, fence=Fence(TOPOLOGY, 2)), True, FencedError, "has seen a leader of epoch 3, ours is 2"),
    (FOUND, evolve(CLAIM, fence=Fence(TOPOLOGY, 3)), True, StateError, "uses table 'counts' twice"),
    (FOUND, evolve(CLAIM, fence=Fence(evolve(TOPOLOGY, uuid="x"), 4)), True, StateError, "another life of it"),
]


@pytest.mark.parametrize(("found", "claim", "exists", "error", "message"), REFUSED)
def test_what_is_not_ours_is_refused_by_name(
    found: StateHeader | None, claim: StateHeader, exists: bool, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        claimed(found, claim, exists=exists)
