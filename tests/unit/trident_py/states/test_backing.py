"""Backing maps around backing maps: one that remembers, and one that asks for few keys at once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.trident_py.states.stores import Deleting, Store
from trident_py.errors import FailedException, StateError
from trident_py.states.maps import CachedMap, MicroBatchIBackingMap


def test_st20_a_cache_asks_for_unknown_keys_only_and_knows_what_is_not_there() -> None:
    store = Store({("a",): 1})
    cached: CachedMap[int] = CachedMap(store, 2)
    assert cached.multi_get([["a"], ["b"], ["a"]]) == [1, None, 1]
    assert cached.multi_get([["b"], ["a"]]) == [None, 1]
    assert store.calls == ["get 2"]
    cached.multi_put([["c"]], [3])  # b was used longest ago
    assert cached.multi_get([["a"], ["c"]]) == [1, 3]
    assert store.calls == ["get 2", "put 1"]
    assert cached.multi_get([["b"]]) == [None]
    assert store.calls[2:] == ["get 1"]


def test_st20_a_cache_forgets_what_a_failed_put_may_have_written() -> None:
    store = Store({("a",): 1, ("b",): 2}, breaks_after=1)
    cached: CachedMap[int] = CachedMap(store, 9)
    cached.multi_get([["a"], ["b"]])
    with pytest.raises(FailedException):
        cached.multi_put([["a"], ["b"]], [10, 20])
    assert cached.multi_get([["a"], ["b"]]) == [10, 2]


@pytest.mark.parametrize("size", [0, -1, 1.5])
def test_st20_a_cache_has_room_for_a_key_at_least(size: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        CachedMap(Store(), size)


def test_a_cache_and_pieces_delete_where_the_store_does() -> None:
    store = Deleting({("a",): 1, ("b",): 2, ("c",): 3})
    pieces = MicroBatchIBackingMap(store, max_multi_put=2)
    cached = CachedMap(pieces, 10)
    assert cached.multi_get([["a"], ["b"]]) == [1, 2]
    cached.multi_remove([["a"], ["b"], ["c"]])
    assert store.entries == {}
    assert store.calls == ["get 2", "remove 2", "remove 1"]
    assert cached.multi_get([["a"], ["b"], ["c"]]) == [None] * 3
    assert cached.removes
    assert not CachedMap(MicroBatchIBackingMap(Store()), 10).removes


def test_a_store_without_multi_remove_says_what_it_lacks() -> None:
    with pytest.raises(StateError, match="Store has no multi_remove"):
        CachedMap(Store(), 10).multi_remove([["a"]])
