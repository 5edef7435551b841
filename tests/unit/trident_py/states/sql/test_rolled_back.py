"""What SQL states tell of keys that older attempts of a transaction had changed, in each database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.transactions import begin
from tests.unit.trident_py.states.aggregators import Adding
from tests.unit.trident_py.states.sql.everywhere import DATABASES, factory_over
from tests.unit.trident_py.states.sql.test_fenced_state import TOPOLOGY, commit, made_by, transaction, values
from trident_py.interfaces.removal import REMOVE
from trident_py.interfaces.states import FencedState

Lead = Callable[[int], FencedState[Any]]


@pytest.fixture(params=("shards", *DATABASES))
def lead(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lead]:
    """A leader's state over one table, which tells what it rolled back."""
    opened: list[FencedState[Any]] = []

    def led(epoch: int) -> FencedState[Any]:
        state = made_by(factory_over(request, tmp_path))
        assert isinstance(state, FencedState)
        state.tells_rolled_back = True
        opened.append(state)
        state.recover(TOPOLOGY, epoch)
        return state

    yield led
    for state in opened:
        state.close()


def redone(state: FencedState[Any], txid: int, epoch: int, changes: dict[str, Any]) -> dict[str, Any]:
    """Redo a transaction; return the keys that it rolled back, with their values behind the change."""
    tx = transaction(txid, 0, epoch)
    assert begin(state, tx)
    state.multi_merge([(word,) for word in changes], list(changes.values()), Adding())
    told = dict(zip([key for (key,) in state.rolled_back], state.multi_get(state.rolled_back), strict=True))
    state.commit_group()
    return told


def test_each_redo_tells_the_keys_of_all_attempts_before_it_also_those_that_are_gone(lead: Lead) -> None:
    state = lead(1)
    commit(state, transaction(1), {"old": 5, "other": 1})
    commit(state, transaction(2), {"old": 1, "new": 1})
    assert state.rolled_back == []
    assert redone(lead(2), 2, 2, {"later": 2}) == {"old": 5, "new": None}
    assert redone(lead(3), 2, 3, {"old": 2}) == {"old": 7, "new": None, "later": None}
    state = lead(4)
    assert redone(state, 2, 4, {"new": 3}) == {"old": 5, "new": 3, "later": None}
    assert values(state, "old", "other", "new", "later") == [5, 1, 3, None]


def test_keys_that_were_removed_are_among_them(lead: Lead) -> None:
    state = lead(1)
    commit(state, transaction(1), {"old": 5})
    tx = transaction(2)
    begin(state, tx)
    state.multi_update([["old"]], [lambda value: REMOVE])
    state.commit_group()
    assert redone(lead(2), 2, 2, {"new": 1}) == {"old": 5}
    state = lead(3)
    assert redone(state, 2, 3, {}) == {"old": 5, "new": None}
    assert values(state, "old", "new") == [5, None]


def test_a_transaction_is_told_its_own_only(lead: Lead) -> None:
    state = lead(1)
    commit(state, transaction(1), {"a": 1})
    state = lead(2)
    assert redone(state, 1, 2, {}) == {"a": None}
    commit(state, transaction(2, 0, 2), {"b": 1})
    assert state.rolled_back == []
    state = lead(3)
    assert redone(state, 2, 3, {}) == {"b": None}
    commit(state, transaction(3, 0, 3), {"a": 1})
    assert values(state, "a", "b") == [1, None]


def test_the_members_of_a_group_that_follow_are_told_nothing(lead: Lead) -> None:
    commit(lead(1), transaction(1), {"a": 1})
    state, first = lead(2), transaction(1, 0, 2, group_first=1)
    members = [first, transaction(2, 0, 2, group_first=1)]
    assert state.begin_group(members) == members
    told = []
    for tx in members:
        state.begin_member(tx)
        told.append(list(state.rolled_back))
    state.commit_group()
    assert told == [[("a",)], []]
