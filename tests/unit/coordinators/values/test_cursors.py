from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from coordinators.values.canonical import Json, canonical_json
from coordinators.values.cursors import SHARD_BYTES_MAX, Cursors, CursorShard

KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.integers() | st.text("ab", max_size=5) | st.lists(st.integers(), max_size=3)
LARGE = st.sampled_from(["x" * size for size in (30_000, 70_000)])
UPDATES = st.lists(st.dictionaries(KEYS, VALUES | LARGE, max_size=6), max_size=4)


def _applied(updates: list[dict[str, Json]]) -> tuple[Cursors, dict[str, Json]]:
    cursors, expected = Cursors(), dict[str, Json]()
    for changes in updates:
        cursors = cursors.updated(changes)
        expected.update(changes)
    return cursors, expected


@given(UPDATES)
def test_they_hold_what_a_dict_would_hold_sorted(updates: list[dict[str, Json]]) -> None:
    cursors, expected = _applied(updates)
    assert list(cursors.items()) == sorted(expected.items())


@given(UPDATES)
def test_shards_have_names_of_their_own_keys_in_order_and_a_bounded_size(updates: list[dict[str, Json]]) -> None:
    shards = _applied(updates)[0].shards
    assert len({shard.name for shard in shards}) == len(shards)
    for shard in shards:
        assert shard.first_key == min(shard.values)
        assert shard.text == canonical_json(dict(shard.values))
        assert len(shard.text.encode()) <= SHARD_BYTES_MAX or len(shard.values) == 1
    for before, after in pairwise(shards):
        assert max(before.values) < after.first_key


@given(UPDATES)
def test_a_shard_read_back_is_the_same(updates: list[dict[str, Json]]) -> None:
    for shard in _applied(updates)[0].shards:
        assert CursorShard.parse(shard.name, shard.text) == shard


def test_an_update_touches_only_the_shards_of_its_keys() -> None:
    before = Cursors().updated({f"file-{number:04}": number for number in range(20_000)})
    after = before.updated({"file-0001": -1})
    assert len(before.shards) > 3
    assert [old is new for old, new in zip(before.shards, after.shards, strict=True)] == [
        False,
        *[True] * (len(before.shards) - 1),
    ]
    assert dict(after.items())["file-0001"] == -1


def test_an_update_of_nothing_is_the_same_value() -> None:
    cursors = Cursors().updated({"a": 1})
    assert cursors.updated({}) is cursors


def test_a_key_before_all_others_goes_into_the_first_shard() -> None:
    cursors = Cursors().updated({"m": 1}).updated({"a": 2})
    assert [shard.first_key for shard in cursors.shards] == ["a"]
