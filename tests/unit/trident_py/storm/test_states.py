"""The values of Storm's map states in Redis, and what they can be brought to."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import types as t

from trident_py.errors import StateError, TopologyError
from trident_py.rows.ddl import parse_ddl
from trident_py.storm.states import StateFields, StormKind, StormState, StormValues


def values(said: str, **texts: Any) -> StormValues:
    return StormValues.of("counts", StormState.parse(said), {key: json.dumps(each) for key, each in texts.items()})


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("opaque,hash=c", StormState(kind=StormKind.OPAQUE, hash="c")),
        (
            "transactional,strings=c:*,tasks=1",
            StormState(kind=StormKind.TRANSACTIONAL, strings="c:*", has_one_task=True),
        ),
        ("opaque,hash=a=b,tasks=8", StormState(kind=StormKind.OPAQUE, hash="a=b")),
        ("non-transactional,strings=one", StormState(kind=StormKind.NON_TRANSACTIONAL, strings="one")),
    ],
)
def test_a_place_is_written_in_words(text: str, state: StormState) -> None:
    assert StormState.parse(text) == state
    assert StormState.parse(state.text) == state


@pytest.mark.parametrize(
    "text", ["", "opaque", "opaque,x", "opaque,hash=a,strings=b", "opaque,hash=a,tasks=x", "o,hash=a"]
)
def test_another_text_is_no_place(text: str) -> None:
    with pytest.raises(ValueError, match=r"no place|is not a valid StormKind|invalid literal"):
        StormState.parse(text)


def test_opaque_values_go_back_before_the_uncommitted_transaction() -> None:
    found = values("opaque,hash=c", a=[5, 3, 2], b=[4, 7, 6], c=[5, 1, None])
    assert found.possible(5) == {4}
    assert dict(found.at(4)) == {"a": 2, "b": 7}
    assert values("opaque,hash=c,tasks=1", a=[5, 3, 2]).possible(5) == {4, 5}


def test_transactional_values_cannot_go_back() -> None:
    assert values("transactional,hash=c", a=[4, 3]).possible(5) == {4}
    assert values("transactional,hash=c", a=[4, 3], b=[5, 1]).possible(5) == frozenset()
    found = values("transactional,hash=c,tasks=1", a=[4, 3], b=[5, 1])
    assert found.possible(5) == {5}
    assert dict(found.at(5)) == {"a": 3, "b": 1}


def test_values_without_txids_count_the_transaction_again_as_in_storm() -> None:
    found = values("non-transactional,hash=c,tasks=1", a=3, b=None)
    assert found.possible(5) == {4}
    assert dict(found.at(4)) == {"a": 3}


@pytest.mark.parametrize(
    ("said", "text"), [("opaque", [1, 2]), ("transactional", [1, 2, 3]), ("opaque", 7), ("transactional", ["1", 2])]
)
def test_values_of_another_kind_are_refused(said: str, text: Any) -> None:
    with pytest.raises(StateError, match=rf"state 'counts': key 'a' of hash 'c' is not of a state that is {said} in S"):
        values(f"{said},hash=c", a=text)


def test_values_after_what_storm_has_begun_are_another_topologys() -> None:
    values("opaque,hash=c", a=[5, 3, 2]).check(5)
    with pytest.raises(
        StateError, match="key 'a' of hash 'c' is of transaction 6, and Storm is at 5: another topology h"
    ):
        values("opaque,hash=c", a=[6, 3, 2]).check(5)


def fields(value: str, *keys: str) -> StateFields:
    return StateFields([parse_ddl(each).fields[0] for each in keys], parse_ddl(f"v {value}").fields[0])


@pytest.mark.parametrize(
    ("kind", "stored", "converted"),
    [
        ("bigint", 2**40, 2**40),
        ("double", 2, 2.0),
        ("float", 2.5, 2.5),
        ("string", "x", "x"),
        ("boolean", True, True),
        ("decimal(10,2)", 1.1, Decimal("1.1")),
    ],
)
def test_values_have_the_declared_type(kind: str, stored: Any, converted: Any) -> None:
    (row,) = fields(kind, "k string").rows(values("non-transactional,hash=c", a=stored), 1)
    assert row == (("a",), converted)
    assert type(row[1]) is type(converted)


@pytest.mark.parametrize(
    ("kind", "stored"),
    [("bigint", 1.5), ("bigint", True), ("string", 1), ("boolean", 1), ("double", "1"), ("int", "1")],
)
def test_a_value_of_another_type_is_named(kind: str, stored: Any) -> None:
    with pytest.raises(StateError, match=rf"state 'counts', key 'a': .* is no {kind}, which field 'v' is; nothing was"):
        list(fields(kind, "k string").rows(values("non-transactional,hash=c", a=stored), 1))


def test_a_type_that_storms_json_has_not_is_refused() -> None:
    found = values("non-transactional,hash=c", a=1)
    with pytest.raises(
        TopologyError, match="field 'v' is timestamp, and Storm's values can become string, boolean, byte"
    ):
        list(fields("timestamp", "k string").rows(found, 1))
    with pytest.raises(TopologyError, match="field 'k' is double, and Storm's values can become string, byte, short"):
        list(fields("int", "k double").rows(found, 1))


def test_keys_are_texts_or_integers() -> None:
    found = StormValues.of("counts", StormState.parse("non-transactional,hash=c"), {"-7": "1"})
    assert list(fields("int", "k int").rows(found, 1)) == [((-7,), 1)]
    for key in ("07", "x", "1.0", ""):
        odd = StormValues.of("counts", found.state, {key: "1"})
        with pytest.raises(StateError, match="is no int, which field 'k' is"):
            list(fields("int", "k int").rows(odd, 1))


def test_one_value_without_a_key_is_the_only_one() -> None:
    total = StormValues.of("total", StormState.parse("transactional,hash=t"), {"$REDIS-MAP-STATE-GLOBAL": "[4,24]"})
    assert list(fields("bigint").rows(total, 4)) == [((), 24)]
    with pytest.raises(TopologyError, match="state 'counts' has one value without a key, and hash 'c' has 2 values"):
        list(fields("bigint").rows(values("non-transactional,hash=c", a=1, b=2), 1))
    with pytest.raises(
        TopologyError, match="has 2 keys, and Storm's RedisMapState has one, unless it has a KeyFactory"
    ):
        list(fields("bigint", "k string", "l string").rows(total, 4))


def test_every_integral_type_has_a_conversion() -> None:
    for kind in (t.ByteType, t.ShortType, t.IntegerType, t.LongType):
        column = t.StructField("v", kind())
        assert list(StateFields([], column).rows(values("non-transactional,hash=c", a=1), 1)) == [((), 1)]
