from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from trident_py.errors import SpoutError, TopologyError
from trident_py.rows.row import column_values
from trident_py.spouts.kafka.values import ValueDecoder, ValueFormat


def decoded(values: ValueFormat, *given: bytes | None) -> tuple[list[Any], list[int]]:
    array, kept = values.array(given, lambda number: f"record t/0 at {number}")
    return column_values(array), kept


def test_bytes_stay_and_text_is_utf_8() -> None:
    assert decoded(ValueFormat.of("binary", None, "fail"), b"\xff", None) == ([b"\xff", None], [0, 1])
    assert decoded(ValueFormat.of("string", None, "fail"), "ü".encode(), None) == (["ü", None], [0, 1])


def test_objects_have_the_fields_of_the_schema() -> None:
    schema = (
        "n bigint, x double, price decimal(10,2), day date, at timestamp, tags array<string>, more map<string, int>"
    )
    values = ValueFormat.of("json", schema, "fail")
    text = (
        b'{"n": 1, "x": 2, "price": 1.10, "day": "2026-01-02", "at": "2026-01-02T03:04:05Z", "tags": ["a", null], '
        b'"more": {"a": 1}, "other": []}'
    )
    ((row, empty, none), _) = decoded(values, text, b"{}", None)
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert tuple(row) == (1, 2.0, Decimal("1.10"), date(2026, 1, 2), at, ["a", None], {"a": 1})
    assert tuple(empty) == (None,) * 7
    assert none is None


BAD = [b"no JSON", b"[1]", b'{"n": "many"}', b'{"n": 1.5}', b"\xff"]


@pytest.mark.parametrize("bad", BAD)
def test_what_is_wrong_is_named_left_out_or_null(bad: bytes) -> None:
    given = (b'{"n": 1}', bad, b'{"n": 3}')
    with pytest.raises(SpoutError, match="record t/0 at 1: its value is not json of struct<n:int>"):
        decoded(ValueFormat.of("json", "n int", "fail"), *given)
    rows, kept = decoded(ValueFormat.of("json", "n int", "skip"), *given)
    assert ([tuple(row) for row in rows], kept) == ([(1,), (3,)], [0, 2])
    rows, kept = decoded(ValueFormat.of("json", "n int", "null"), *given)
    assert ([row and tuple(row) for row in rows], kept) == ([(1,), None, (3,)], [0, 1, 2])
    quarantine = ValueFormat.of("json", "n int", "quarantine")
    array, _ = quarantine.array(given, lambda number: f"record t/0 at {number}")
    assert quarantine.undecoded(given, array).to_pylist() == [None, bad, None]


def test_a_quarantined_value_is_decoded_again_by_the_present_format() -> None:
    decode = ValueDecoder(ValueFormat.of("json", "n int", "fail"), 1)
    assert decode([b"key", None, "topic", b'{"n": 3}']) == [b"key", (3,), "topic"]
    assert decode([b"key", (1,), "topic", None]) == [b"key", (1,), "topic"]
    with pytest.raises(TypeError, match="'many'"):
        decode([b"key", None, "topic", b'{"n": "many"}'])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("xml", None, "fail"), "value is one of 'binary', 'string', 'json', 'avro', not 'xml'"),
        (("json", None, "fail"), "value='json' needs schema="),
        (("string", "n int", "fail"), "value='string' takes no schema"),
        (("string", None, "ignore"), "on_decode_error is one of"),
    ],
)
def test_what_can_t_work_is_said_at_once(given: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        ValueFormat.of(*given)
