"""What JSON in Kafka records becomes: the same values, or an error of that record."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trident_py.errors import SpoutError, TopologyError
from trident_py.rows.row import column_values
from trident_py.spouts.kafka.values import ValueFormat


def values_of(schema: str, *texts: str | bytes, on_error: str = "fail") -> list[Any]:
    given = [text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text for text in texts]
    array, _ = ValueFormat.of("json", schema, on_error).array(given, lambda number: f"record {number}")
    return [row and row[0] for row in column_values(array)]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("decimal(20,2)", "90071992547409.93", Decimal("90071992547409.93")),
        ("decimal(38,18)", "1.234567890123456789", Decimal("1.234567890123456789")),
        ("decimal(38,0)", "9" * 38, Decimal("9" * 38)),
        ("decimal(38,38)", "-0." + "9" * 38, Decimal("-0." + "9" * 38)),
        ("decimal(10,2)", "1.100", Decimal("1.10")),
        ("decimal(10,2)", "1E+5", Decimal("100000.00")),
        ("decimal(10,2)", '"1.10"', Decimal("1.10")),
        ("decimal(10,2)", "0E-999999999", Decimal("0.00")),
        ("double", "0.1", 0.1),
        ("double", "1", 1.0),
        ("double", "1.7976931348623157e308", 1.7976931348623157e308),
        ("double", "5e-324", 5e-324),
        ("double", "123456789012345678", 123456789012345680.0),
        ("double", "Infinity", math.inf),
        ("float", "16777217", 16777216.0),
        ("float", "3.4028235e38", 3.4028234663852886e38),
        ("bigint", "-9223372036854775808", -(2**63)),
        ("string", '"\\u0000 \\ud83d\\ude00"', "\0 😀"),
        ("date", '"9999-12-31"', date(9999, 12, 31)),
        ("timestamp", '"0001-01-01T00:00:00Z"', datetime(1, 1, 1, tzinfo=UTC)),
        ("timestamp", '"9999-12-31T23:59:59.999999Z"', datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)),
        ("timestamp", '"2026-01-01T00:00:00.120000000+01:00"', datetime(2025, 12, 31, 23, 0, 0, 120000, UTC)),
        ("timestamp_ntz", '"0001-01-01T00:00:00"', datetime(1, 1, 1)),  # noqa: DTZ001 - it has none
    ],
)
def test_a_value_is_what_its_text_says(kind: str, text: str, value: Any) -> None:
    assert values_of(f"v {kind}", f'{{"v": {text}}}') == [value]


def test_negative_zero_keeps_its_sign() -> None:
    assert math.copysign(1, values_of("v double", '{"v": -0.0}')[0]) == -1


WRONG = [
    ("decimal(10,2)", "1.234"),
    ("decimal(10,2)", "123456789.00"),
    ("decimal(10,2)", "1E-77"),
    ("decimal(10,2)", "1E-999999999"),
    ("decimal(10,2)", "1E+999999999"),
    ("decimal(10,2)", "1e99999999999999999999"),
    ("decimal(10,2)", "NaN"),
    ("decimal(10,2)", '"NaN"'),
    ("decimal(10,2)", '"1_0"'),
    ("decimal(10,2)", "true"),
    ("double", "1e400"),
    ("double", "1" + "0" * 400),
    ("double", '"1.5"'),
    ("double", "true"),
    ("float", "1e39"),
    ("int", "2147483648"),
    ("bigint", "1.0"),
    ("bigint", "9" * 5000),
    ("string", '"\\ud800"'),
    ("string", "1"),
    ("string", "[" * 5000 + "]" * 5000),
    ("array<string>", "[" * 200_000),
    ("date", '"0000-01-01"'),
    ("timestamp", '"0001-01-01T00:00:00+05:00"'),
    ("timestamp", '"9999-12-31T23:59:59-00:01"'),
    ("timestamp", '"2026-01-01T00:00:00.123456789Z"'),
    ("timestamp_ntz", '"2026-01-01T00:00:00+05:00"'),
]


@pytest.mark.parametrize(("kind", "text"), WRONG, ids=[f"{kind} {text[:30]}" for kind, text in WRONG])
def test_a_value_that_its_type_cant_hold_is_an_error_of_its_record_alone(kind: str, text: str) -> None:
    good, bad = '{"v": null}', f'{{"v": {text}}}'
    assert values_of(f"v {kind}", good, bad, good, on_error="skip") == [None, None]
    array, kept = ValueFormat.of("json", f"v {kind}", "null").array([good.encode(), bad.encode()], str)
    assert (array.null_count, kept) == (1, [0, 1])
    with pytest.raises(SpoutError, match="record 1: its value is not json of"):
        values_of(f"v {kind}", good, bad)


@pytest.mark.parametrize("kind", ["binary", "array<binary>", "map<int,string>", "struct<a:map<string,binary>>"])
def test_types_that_json_hasnt_are_refused_where_they_are_declared(kind: str) -> None:
    with pytest.raises(TopologyError, match="JSON"):
        ValueFormat.of("json", f"v {kind}", "fail")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.decimals().map(str),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from("abcdefgh") | st.text(), inner),
)
WIDE = (
    "a bigint, b double, c decimal(12,3), d string, e array<timestamp>, f map<string,date>, g struct<a:float,b:int>, "
    "h timestamp_ntz"
)


@given(JSON.map(json.dumps).map(str.encode) | st.binary() | st.text().map(lambda text: text.encode("utf-8", "replace")))
def test_no_record_raises_anything_but_its_own_error(value: bytes) -> None:
    array, kept = ValueFormat.of("json", WIDE, "null").array([b"{}", value], str)
    column_values(array)
    assert kept == [0, 1]
    column_values(ValueFormat.of("json", WIDE, "skip").array([value, b"{}"], str)[0])


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_a_decimal_is_the_same_or_refused(value: Decimal) -> None:
    text = json.dumps({"v": "?"}).replace('"?"', str(value)).encode()
    array, kept = ValueFormat.of("json", "v decimal(38,10)", "skip").array([text], str)
    assert [row[0] for row in column_values(array)] == [value] * len(kept)


@given(st.floats(allow_nan=False))
def test_a_double_is_the_same(value: float) -> None:
    assert values_of("v double", json.dumps({"v": value})) == [value]
