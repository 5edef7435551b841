"""Values as they are stored, and the texts they are stored as."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trident_py.errors import StateError
from trident_py.states.values import (
    JSONNonTransactionalSerializer,
    JSONOpaqueSerializer,
    JSONTransactionalSerializer,
    OpaqueValue,
    Serializer,
    TransactionalValue,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def test_st18_an_opaque_value_keeps_the_one_before_its_transaction() -> None:
    value = OpaqueValue(1, "a").update(2, "b")
    assert value == OpaqueValue(2, "b", "a")
    assert value.update(2, "c") == OpaqueValue(2, "c", "a")
    assert (value.get(2), value.get(3)) == ("a", "b")
    with pytest.raises(StateError, match="transaction 1 is before"):
        value.get(1)


@given(st.integers(1), JSON, JSON)
def test_st26_values_come_back_equal(txid: int, curr: Any, prev: Any) -> None:
    for serializer, value in (
        (JSONNonTransactionalSerializer(), curr),
        (JSONTransactionalSerializer(), TransactionalValue(txid, curr)),
        (JSONOpaqueSerializer(), OpaqueValue(txid, curr, prev)),
    ):
        made: Serializer[Any] = serializer
        assert made.deserialize(made.serialize(value)) == value


def test_st26_the_texts_are_storm_s() -> None:
    assert JSONTransactionalSerializer().serialize(TransactionalValue(3, "é")) == '[3,"é"]'.encode()
    assert JSONOpaqueSerializer().serialize(OpaqueValue(3, 2, 1)) == b"[3,2,1]"


@pytest.mark.parametrize("value", [Decimal(1), {1: 2}, float("nan"), b"x", {"a": {2: 3}}])
def test_st26_what_json_cannot_hold_is_an_error_at_once(value: Any) -> None:
    with pytest.raises(StateError, match="JSON"):
        JSONOpaqueSerializer().serialize(OpaqueValue(1, value))


@pytest.mark.parametrize("data", [b"", b"7", b"[1,2]", b'["1",2,3]', b"[1,2,3", b"\xff"])
def test_st26_what_cannot_be_read_never_means_no_value(data: bytes) -> None:
    with pytest.raises(StateError, match="the stored value"):
        JSONOpaqueSerializer().deserialize(data)


def test_st18_without_a_transaction_the_value_is_as_it_is_now() -> None:
    assert OpaqueValue(2, "now", "before").get(None) == "now"
