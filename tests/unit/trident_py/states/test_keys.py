from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row

from trident_py.errors import StateError
from trident_py.states.keys import UNGROUPED, encode_key, encode_keys

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(),
    st.floats(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.just(UTC)),
    st.times(),
    st.timedeltas(),
    st.binary(),
)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple))


def identity(value: Any) -> object:
    """What Spark tells groups apart by, types kept."""
    match value:
        case float():
            return ("float", "nan" if math.isnan(value) else value + 0.0)
        case list() | tuple():
            return (type(value).__name__, *map(identity, value))
    return (type(value).__name__, value, isinstance(value, datetime) and value.tzinfo is not None)


@given(st.lists(values, max_size=3), st.lists(values, max_size=3))
def test_two_keys_have_one_text_only_if_they_are_the_same(one: list[Any], other: list[Any]) -> None:
    same = list(map(identity, one)) == list(map(identity, other))
    assert (encode_key(one) == encode_key(other)) == same


@given(st.lists(values, max_size=3))
def test_every_key_is_a_json_array_with_an_element_per_value(key: list[Any]) -> None:
    decoded = json.loads(encode_key(key))
    assert isinstance(decoded, list)
    assert len(decoded) == len(key)


columns = st.sampled_from([values, st.text(), st.integers(), st.booleans()]).flatmap(
    lambda each: st.lists(each, min_size=5, max_size=5)
)


@given(st.lists(columns, min_size=1, max_size=3))
def test_keys_by_the_column_are_the_same_as_key_by_key(found: list[list[Any]]) -> None:
    keys = list(zip(*found, strict=True))
    assert encode_keys(keys) == list(map(encode_key, keys))


def test_keys_without_fields_are_ungrouped_ones() -> None:
    assert encode_keys([(), ()]) == [UNGROUPED, UNGROUPED]
    assert encode_keys([]) == []


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ((), UNGROUPED),
        (("größe\n",), '["größe\\n"]'),
        (("a", 1, None, True), '["a",1,null,true]'),
        ((1.0,), "[1.0]"),
        ((-0.0,), "[0.0]"),
        ((float("nan"),), '[{"float":"nan"}]'),
        ((-math.inf,), '[{"float":"-inf"}]'),
        ((Decimal("1.50"),), '[{"decimal":"1.5"}]'),
        ((Decimal("-0.00"),), '[{"decimal":"0"}]'),
        ((date(2024, 2, 29),), '[{"date":"2024-02-29"}]'),
        ((datetime(2024, 2, 29, 12, tzinfo=UTC),), '[{"timestamp":"2024-02-29T12:00:00+00:00"}]'),
        ((datetime(2024, 2, 29, 12),), '[{"timestamp_ntz":"2024-02-29T12:00:00"}]'),  # noqa: DTZ001
        ((time(1, 2),), '[{"time":"01:02:00"}]'),
        ((timedelta(seconds=1),), '[{"interval":1000000}]'),
        ((b"\x00\xff",), '[{"bytes":"AP8="}]'),
        (([1, [None]],), "[[1,[null]]]"),
        (((1, "a"),), '[{"struct":[1,"a"]}]'),
    ],
)
def test_a_key_reads_like_this(key: tuple[Any, ...], text: str) -> None:
    assert encode_key(key) == text


def test_an_instant_is_the_same_in_every_time_zone() -> None:
    noon = datetime(2024, 1, 1, 12, tzinfo=UTC)
    assert encode_key((noon,)) == encode_key((noon.astimezone(timezone(timedelta(hours=5))),))


def test_a_struct_is_the_same_as_a_row_a_tuple_and_as_arrow_gives_it() -> None:
    row = Row(a=1, b="x")
    assert encode_key((row,)) == encode_key(((1, "x"),)) == encode_key(({"a": 1, "b": "x"},))


def test_decimals_of_more_digits_than_pythons_context_are_told_apart() -> None:
    digits = "1" * 38
    assert encode_key((Decimal(digits),)) != encode_key((Decimal(digits[:-1] + "2"),))


@pytest.mark.parametrize("value", [object(), {1, 2}, 1j, Decimal("NaN"), Decimal("Infinity"), [{1}]])
def test_what_cannot_be_a_key_is_named(value: object) -> None:
    shown = value[0] if isinstance(value, list) else value
    with pytest.raises(StateError, match="cannot be part of a state's key") as raised:
        encode_key((value,))
    assert repr(shown) in str(raised.value)


def test_keys_of_different_lengths_are_not_cut() -> None:
    with pytest.raises(ValueError, match="the same number of values, not 1 and 2"):
        encode_keys([["a"], ["a", "b"]])
