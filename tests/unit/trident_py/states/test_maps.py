"""The three maps over a backing map, against a plain reference: rows a.10 of the feature inventory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.trident_py.states.stores import Deleting, Store
from trident_py.errors import FailedException, StateError, TopologyError
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.removal import REMOVE
from trident_py.interfaces.states import Key, StateKind
from trident_py.states.maps import (
    BackedMap,
    CachedMap,
    NonTransactionalMap,
    OpaqueMap,
    SnapshottableMap,
    TransactionalMap,
)
from trident_py.states.values import OpaqueValue, TransactionalValue


def adding(amount: int) -> Callable[[int | None], int]:
    return lambda old: (old or 0) + amount


def apply(state: BackedMap[int, Any], txid: int, changes: dict[str, int]) -> list[int]:
    state.begin_commit(txid)
    values = state.multi_update([[key] for key in changes], list(map(adding, changes.values())))
    state.commit(txid)
    return values


def fail(state: BackedMap[int, Any], store: Store, txid: int, changes: dict[str, int], after: int) -> None:
    """An attempt that dies after it has written some of its keys."""
    store.breaks_after = after
    with pytest.raises(FailedException):
        apply(state, txid, changes)
    store.breaks_after = None


# --- what the documentation of Trident shows --------------------------------------------------------------------------


def test_st15_a_transactional_map_skips_the_keys_that_the_transaction_has_written() -> None:
    store = Store({("man",): TransactionalValue(1, 3), ("dog",): TransactionalValue(3, 4)})
    store.entries[("apple",)] = TransactionalValue(2, 10)
    apply(TransactionalMap(store), 3, {"man": 2, "dog": 1})
    assert store.entries == {
        ("man",): TransactionalValue(3, 5),
        ("dog",): TransactionalValue(3, 4),
        ("apple",): TransactionalValue(2, 10),
    }


@pytest.mark.parametrize(("txid", "stored"), [(3, OpaqueValue(3, 6, 4)), (2, OpaqueValue(2, 3, 1))])
def test_st16_an_opaque_map_starts_from_the_value_before_the_transaction(txid: int, stored: Any) -> None:
    store = Store({("man",): OpaqueValue(2, 4, 1)})
    apply(OpaqueMap(store), txid, {"man": 2})
    assert store.entries == {("man",): stored}


def test_st14_a_non_transactional_map_counts_a_replay_again() -> None:
    state: NonTransactionalMap[int] = NonTransactionalMap(Store())
    apply(state, 1, {"a": 1})
    assert apply(state, 1, {"a": 1}) == [2]


# --- rules that hold for all three ------------------------------------------------------------------------------------


@pytest.fixture(params=[NonTransactionalMap, TransactionalMap, OpaqueMap])
def kind(request: pytest.FixtureRequest) -> type[BackedMap[int, Any]]:
    found: type[BackedMap[int, Any]] = request.param
    return found


def test_st7_updates_of_one_key_in_one_commit_add_up(kind: type[BackedMap[int, Any]]) -> None:
    state = kind(Store())
    state.begin_commit(1)
    assert state.multi_update([["a"], ["b"], ["a"]], [adding(1), adding(2), adding(3)]) == [1, 2, 4]
    assert state.multi_update([["a"]], [adding(4)]) == [8]
    assert state.multi_get([["a"], ["b"], ["c"]]) == [8, 2, None]
    state.commit(1)
    assert state.multi_get([["a"]]) == [8]


def test_st8_what_was_removed_or_put_in_a_commit_is_seen_there(kind: type[BackedMap[int, Any]]) -> None:
    state = kind(Store())
    apply(state, 1, {"a": 1, "b": 2})
    state.begin_commit(2)
    state.multi_remove([["a"]])
    state.multi_put([["b"], ["c"]], [7, 8])
    assert state.multi_get([["a"], ["b"], ["c"]]) == [None, 7, 8]
    state.commit(2)
    assert apply(state, 3, {"a": 5, "b": 1}) == [5, 8]


def test_st7_nothing_changes_outside_of_a_commit(kind: type[BackedMap[int, Any]]) -> None:
    with pytest.raises(StateError, match=f"{kind.__name__} changes only between begin_commit and commit"):
        kind(Store()).multi_update([["a"]], [adding(1)])


def test_st13_a_store_that_gives_too_few_values_is_an_error_that_names_it(kind: type[BackedMap[int, Any]]) -> None:
    class Short(Store):
        def multi_get(self, keys: Sequence[Key]) -> list[Any]:
            return []

    with pytest.raises(StateError, match=r"Short\.multi_get gave 0 values for 1 keys"):
        kind(Short()).multi_get([["a"]])


@pytest.mark.parametrize("kind", [TransactionalMap, OpaqueMap])
def test_st15_st16_a_transaction_that_is_behind_is_refused(kind: type[BackedMap[int, Any]]) -> None:
    store = Store()
    apply(kind(store), 5, {"a": 1})
    before = dict(store.entries)
    with pytest.raises(StateError, match="transaction 4 is before the state, which has a value of transaction 5"):
        apply(kind(store), 4, {"a": 1})
    assert store.entries == before


def test_st17_within_a_commit_an_opaque_map_gives_what_its_transaction_starts_from() -> None:
    state: OpaqueMap[int] = OpaqueMap(Store({("a",): OpaqueValue(2, 4, 1)}))
    assert state.multi_get([["a"]]) == [4]
    state.begin_commit(2)
    assert state.multi_get([["a"]]) == [1]
    state.multi_update([["a"]], [adding(5)])
    assert state.multi_get([["a"]]) == [6]


def test_st22_one_key_of_a_map_is_a_state_of_one_value() -> None:
    store = Store()
    state: SnapshottableMap[int] = SnapshottableMap(OpaqueMap(store), ["total"])
    state.begin_commit(1)
    assert state.update(adding(3)) == 3
    state.commit(1)
    state.begin_commit(2)
    state.set(9)
    state.commit(2)
    assert state.get() == 9
    assert store.entries == {("total",): OpaqueValue(2, 9, 3)}


# --- replays, against a plain reference -------------------------------------------------------------------------------

CHANGES = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 9), max_size=4)
ATTEMPTS = st.lists(st.tuples(CHANGES, st.integers(0, 4)), max_size=3)
HISTORY = st.lists(st.tuples(ATTEMPTS, CHANGES), min_size=1, max_size=6)
"""For each transaction its failed attempts, each with the keys it got to, and what it was in the end."""


def reference(history: Sequence[tuple[Any, dict[str, int]]]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for _, changes in history:
        for key, amount in changes.items():
            totals[key] = totals.get(key, 0) + amount
    return totals


def totals(state: BackedMap[int, Any]) -> dict[str, int]:
    found = state.multi_get([[key] for key in "abcd"])
    return {key: value for key, value in zip("abcd", found, strict=True) if value is not None}


@given(HISTORY, st.integers(0, 3))
@settings(max_examples=200, deadline=None)
def test_st16_st20_an_opaque_map_counts_once_whatever_the_replays_have(
    history: list[tuple[list[tuple[dict[str, int], int]], dict[str, int]]], cache: int
) -> None:
    store = Store()
    state: OpaqueMap[int] = OpaqueMap(CachedMap(store, cache) if cache else store)
    for txid, (attempts, changes) in enumerate(history, 1):
        for attempt, got_to in attempts:
            if got_to < len(attempt):
                fail(state, store, txid, attempt, got_to)
            else:
                apply(state, txid, attempt)  # and then another state of the topology fails
        apply(state, txid, changes)
    assert totals(state) == reference(history)
    assert totals(OpaqueMap(store)) == reference(history)


@given(HISTORY, st.integers(0, 3))
@settings(max_examples=200, deadline=None)
def test_st15_st20_a_transactional_map_counts_once_where_replays_are_alike_also_over_restarts(
    history: list[tuple[list[tuple[dict[str, int], int]], dict[str, int]]], cache: int
) -> None:
    store = Store()

    def started() -> TransactionalMap[int]:
        return TransactionalMap(CachedMap(store, cache) if cache else store)

    state = started()
    for txid, (attempts, changes) in enumerate(history, 1):
        for _, got_to in attempts:
            if got_to < len(changes):
                store.breaks_after = got_to
                state.begin_commit(txid)
                try:
                    state.multi_update([[key] for key in changes], list(map(adding, changes.values())))
                except FailedException:
                    state = started()
                store.breaks_after = None
        apply(state, txid, changes)
    assert totals(state) == reference(history)


def test_st16_a_key_that_vanishes_from_the_replay_is_taken_back_while_the_process_lives() -> None:
    store = Store()
    state: OpaqueMap[int] = OpaqueMap(store)
    apply(state, 4, {"a": 1})
    fail(state, store, 5, {"a": 1, "b": 1, "c": 1}, 2)
    apply(state, 5, {})
    assert totals(state) == {"a": 1}
    fail(state, store, 6, {"a": 1, "b": 1, "c": 1}, 2)
    restarted: OpaqueMap[int] = OpaqueMap(store)  # what the docstring and explain() warn of
    apply(restarted, 6, {})
    assert totals(restarted) == {"a": 2, "b": 1}


# --- the cache --------------------------------------------------------------------------------------------------------


# --- factories --------------------------------------------------------------------------------------------------------


def test_st2_a_factory_makes_the_map_over_a_store_of_its_own() -> None:
    factory = OpaqueMap.factory(Store, cache_size=5)
    state = factory.make_state(TridentConfig(), Metrics(), 0, 1)
    assert isinstance(state, OpaqueMap)
    assert isinstance(state.backing, CachedMap)
    assert repr(factory) == "OpaqueMap over Store"


def test_st25_a_factory_says_its_kind() -> None:
    assert NonTransactionalMap.factory(Store).kind is StateKind.NON_TRANSACTIONAL
    assert TransactionalMap.factory(Store).kind is StateKind.TRANSACTIONAL
    assert OpaqueMap.factory(Store).kind is StateKind.OPAQUE


def test_st2_what_makes_no_store_is_an_error_where_it_is_declared() -> None:
    with pytest.raises(TopologyError, match=r"OpaqueMap\.factory takes a function that makes a backing map"):
        OpaqueMap.factory(Store())  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="cache_size is a number of keys"):
        OpaqueMap.factory(Store, cache_size=-1)
    with pytest.raises(StateError, match=r"must make an IBackingMap, it made \{\}"):
        OpaqueMap.factory(dict).make_state(  # type: ignore[arg-type]
            TridentConfig(), Metrics(), 0, 1
        )


# --- keys that are removed --------------------------------------------------------------------------------------------


def removing(old: int | None) -> Any:
    return REMOVE


def remove(state: BackedMap[int, Any], txid: int, *keys: str) -> None:
    state.begin_commit(txid)
    assert state.multi_update([[key] for key in keys], [removing] * len(keys)) == [None] * len(keys)
    assert state.multi_get([[key] for key in keys]) == [None] * len(keys)
    state.commit(txid)


def test_an_updater_that_returns_remove_deletes_its_key_from_the_store(kind: type[BackedMap[int, Any]]) -> None:
    store = Deleting()
    state = kind(store)
    apply(state, 1, {"a": 1, "b": 2})
    remove(state, 2, "a", "c")
    assert state.multi_get([["a"], ["b"]]) == [None, 2]
    apply(state, 3, {})
    assert set(store.entries) == {("b",)}
    assert apply(state, 4, {"a": 5}) == [5]


def test_a_store_that_cannot_delete_refuses_remove_by_name_and_is_left_alone(kind: type[BackedMap[int, Any]]) -> None:
    store = Store()
    state = kind(store)
    apply(state, 1, {"a": 1})
    before = dict(store.entries)
    state.begin_commit(2)
    with pytest.raises(StateError, match="Store has no multi_remove"):
        state.multi_update([["a"]], [removing])
    assert store.entries == before


def test_a_replay_of_a_transaction_that_removed_a_key_does_not_begin_it_anew() -> None:
    store = Deleting()
    state = TransactionalMap(store)
    apply(state, 1, {"a": 1})
    remove(state, 2, "a")
    again = TransactionalMap(store)  # another process
    again.begin_commit(2)
    assert again.multi_update([["a"]], [adding(-1)]) == [None]
    again.commit(2)
    apply(again, 3, {})
    assert store.entries == {}
    assert apply(again, 4, {"a": 4}) == [4]


def test_a_replay_finds_what_its_attempt_before_removed_and_it_is_not_deleted_later() -> None:
    store = Deleting()
    state = OpaqueMap(store)
    apply(state, 1, {"a": 1, "b": 2})
    remove(state, 2, "a", "b")
    assert apply(state, 2, {"b": 5}) == [7]
    apply(state, 3, {})
    assert state.multi_get([["a"], ["b"]]) == [1, 7]
    remove(state, 4, "a")
    state = OpaqueMap(store)  # another process
    assert apply(state, 4, {"a": 1}) == [2]


def test_a_key_that_only_a_failed_attempt_made_is_deleted() -> None:
    store = Deleting()
    state = OpaqueMap(store)
    apply(state, 1, {"a": 1})
    apply(state, 1, {"b": 1})
    apply(state, 2, {})
    assert set(store.entries) == {("b",)}


def test_a_key_that_is_written_again_in_its_transaction_stays(kind: type[BackedMap[int, Any]]) -> None:
    store = Deleting()
    state = kind(store)
    apply(state, 1, {"a": 1})
    state.begin_commit(2)
    assert state.multi_update([["a"], ["a"]], [removing, adding(3)]) == [None, 3] or kind is NonTransactionalMap
    state.multi_update([["a"]], [removing])
    assert state.multi_update([["a"]], [adding(4)]) == [4]
    state.commit(2)
    apply(state, 3, {})
    assert state.multi_get([["a"]]) == [4]
