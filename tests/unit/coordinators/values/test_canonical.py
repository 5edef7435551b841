from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinators.values.canonical import Json, canonical_json, content_hash, json_copy
from coordinators.values.errors import MetadataError

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=8)


@given(JSON)
def test_what_is_accepted_comes_back_equal_and_of_the_same_types(value: Json) -> None:
    assert repr(_sorted(json.loads(canonical_json(value)))) == repr(_sorted(value))


@given(JSON)
def test_one_value_has_one_text(value: Json) -> None:
    assert canonical_json(_reversed(value)) == canonical_json(value)


def test_the_text_has_sorted_keys_no_spaces_and_plain_unicode() -> None:
    assert canonical_json({"b": [1, 2.0, None], "a": "é"}) == '{"a":"é","b":[1,2.0,null]}'


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ((1, 2), "metadata is (1, 2) (tuple)"),
        ({"offsets": [1, {2}]}, "metadata['offsets'][1] is {2} (set)"),
        ({"a": {1: "x"}}, "metadata['a'] has the key 1 (int)"),
        ({None: 1}, "metadata has the key None (NoneType)"),
        ([math.nan], "metadata[0] is nan (float)"),
        ({"x": -math.inf}, "metadata['x'] is -inf (float)"),
        (b"bytes", "metadata is b'bytes' (bytes)"),
        (["\ud800"], "metadata[0] has a string that is not Unicode text"),
        ({"\udfff": 1}, "metadata has a string that is not Unicode text"),
    ],
)
def test_what_would_come_back_different_is_refused_and_its_place_named(value: object, place: str) -> None:
    with pytest.raises(MetadataError) as refused:
        canonical_json(value)
    assert place in str(refused.value)


def test_a_number_too_long_to_be_read_back_is_refused() -> None:
    with pytest.raises(MetadataError):
        canonical_json({"n": [10**5000]})


def test_a_value_nested_too_deep_is_refused() -> None:
    nested: Json = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(MetadataError):
        canonical_json(nested)


@given(TEXT, TEXT)
def test_the_hash_of_a_text_is_that_of_its_bytes_and_tells_texts_apart(one: str, other: str) -> None:
    assert content_hash(one) == content_hash(one.encode())
    assert one == other or content_hash(one) != content_hash(other)


def test_a_copy_shares_nothing() -> None:
    value: Json = {"a": [1]}
    copied = json_copy(value)
    assert copied == value
    assert isinstance(copied, dict)
    assert isinstance(value, dict)
    assert copied["a"] is not value["a"]


def _sorted(value: Json) -> Json:
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return value


def _reversed(value: Json) -> Json:
    if isinstance(value, list):
        return [_reversed(item) for item in value]
    if isinstance(value, dict):
        return {key: _reversed(value[key]) for key in reversed(value)}
    return value
