"""A user's own state under the commit protocol: Storm's calls, in order, and nothing that it can't do."""

from __future__ import annotations

from typing import Any

import pytest

from coordinators.values.attempt import TransactionAttempt
from trident_py.errors import StateError
from trident_py.interfaces.sinks import SinkTransaction, TopologyKey, TransactionKey
from trident_py.interfaces.states import Key, MapState, Snapshottable, State, ValueUpdater
from trident_py.operations.builtin import Count
from trident_py.states.memory import MemoryMapState
from trident_py.states.shards import PartitionedState
from trident_py.states.unfenced import UnfencedState, check_values, group_state


class Noting(State):
    """Notes which of Storm's methods are called."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def begin_commit(self, txid: int) -> None:
        self.calls.append(f"begin {txid}")

    def commit(self, txid: int) -> None:
        self.calls.append(f"commit {txid}")


class Values(Noting, MapState[int]):
    """Values by key that can't be removed."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, int] = {}

    def multi_get(self, keys: Any) -> list[int | None]:
        return [self.values.get(str(key)) for key in keys]

    def multi_update(self, keys: Any, updaters: Any) -> list[int]:
        self.multi_put(keys, [updater(self.values.get(str(key))) for key, updater in zip(keys, updaters, strict=True)])
        return [self.values[str(key)] for key in keys]

    def multi_put(self, keys: Any, values: Any) -> None:
        self.calls.append(f"put {list(keys)}")
        self.values.update({str(key): value for key, value in zip(keys, values, strict=True)})


class One(Noting, Snapshottable[int]):
    """One value."""

    def __init__(self) -> None:
        super().__init__()
        self.value = 0

    def get(self) -> int:
        return self.value

    def update(self, updater: ValueUpdater[int]) -> int:
        self.value = updater(self.value)
        return self.value

    def set(self, value: int) -> None:
        self.value = value


def transactions(*txids: int) -> list[SinkTransaction]:
    return [SinkTransaction(TransactionKey("uuid", 1, txid), TransactionAttempt(txid, 0), 1) for txid in txids]


def test_each_transaction_of_a_group_begins_and_commits_before_the_next_one() -> None:
    state = Noting()
    group = group_state(state)
    for tx in group.begin_group(transactions(4, 5)):
        group.begin_member(tx)
    group.commit_group()
    assert state.calls == ["begin 4", "commit 4", "begin 5", "commit 5"]


def test_a_group_that_is_rolled_back_is_not_committed() -> None:
    state = Noting()
    group = group_state(state)
    for tx in group.begin_group(transactions(4)):
        group.begin_member(tx)
    group.rollback()
    group.commit_group()
    assert state.calls == ["begin 4"]


def test_a_fenced_state_is_not_adapted_and_only_another_one_has_no_token() -> None:
    fenced = MemoryMapState[int]()
    assert group_state(fenced) is fenced
    adapted = group_state(Noting())
    assert (fenced.is_fenced, adapted.is_fenced, adapted.recover(TopologyKey("t", "uuid", 1), 1)) == (True, False, None)


def test_shards_are_updated_in_one_call_each_and_the_values_come_in_the_order_of_the_keys() -> None:
    shards = [Values(), Values()]
    state = UnfencedState(PartitionedState(shards))
    keys: list[Key] = [(letter,) for letter in "abcdef"]
    assert state.multi_merge(keys, [1, 2, 3, 4, 5, 6], Count()) == [1, 2, 3, 4, 5, 6]
    assert [len(shard.calls) for shard in shards] == [1, 1]
    assert sum(len(shard.values) for shard in shards) == 6
    assert state.multi_update([], []) == []


def test_a_value_that_is_not_grouped_is_updated_by_its_own_method() -> None:
    one = One()
    assert UnfencedState(one).multi_merge([()], [5], Count()) == [5]
    assert one.value == 5


@pytest.mark.parametrize(("state", "can"), [(Values(), False), (MemoryMapState[int](), True)])
def test_only_a_removable_state_takes_a_removal(state: State, can: bool) -> None:
    assert UnfencedState(state).can_remove is can


@pytest.mark.parametrize(("state", "by_key"), [(One(), True), (Noting(), False), (Noting(), True)])
def test_a_state_without_the_values_that_are_needed_is_refused(state: State, by_key: bool) -> None:
    with pytest.raises(StateError, match=r"persistent_aggregate needs a .*MapState, its factory made "):
        check_values(state, by_key=by_key)
