"""Casts of columns to declared types: what is allowed keeps each value, and what would change one is refused."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from trident_py.rows.casting import cast_exactly

NTZ, LTZ = pa.timestamp("us"), pa.timestamp("us", "UTC")
NOON = datetime(2026, 11, 29, 12)  # noqa: DTZ001 - as a file without a zone has it


def cast(value: Any, there: pa.DataType, wanted: pa.DataType) -> Any:
    return cast_exactly(pa.chunked_array([pa.array([value], there)]), wanted)[0].as_py()


@pytest.mark.parametrize(
    ("value", "there", "wanted"),
    [
        (5, pa.uint8(), pa.int64()),
        (5, pa.int64(), pa.int16()),
        (2**53, pa.int64(), pa.float64()),
        (5, pa.int32(), pa.decimal128(12, 2)),
        (Decimal("1.50"), pa.decimal128(3, 2), pa.decimal128(10, 4)),
        (0.5, pa.float32(), pa.float64()),
        ("é", pa.large_string(), pa.string()),
        ("é", pa.dictionary(pa.int8(), pa.string()), pa.string()),
        (date(2026, 11, 29), pa.date64(), pa.date32()),
        (timedelta(microseconds=7), pa.duration("ns"), pa.duration("us")),
        (NOON, pa.timestamp("ns"), NTZ),
        ([1, None], pa.large_list(pa.int8()), pa.list_(pa.int64())),
        ([("a", 1)], pa.map_(pa.string(), pa.int8()), pa.map_(pa.string(), pa.int64())),
        ({"a": 1}, pa.struct({"a": pa.int8()}), pa.struct({"a": pa.int64()})),
        (None, pa.null(), pa.bool_()),
        (True, pa.bool_(), pa.bool_()),
    ],
    ids=str,
)
def test_a_value_of_a_type_that_fits_stays_the_same(value: Any, there: pa.DataType, wanted: pa.DataType) -> None:
    assert cast(value, there, wanted) == value


def test_bytes_are_a_text_and_times_without_a_zone_are_of_utc() -> None:
    assert cast("é".encode(), pa.binary(), pa.string()) == "é"
    assert cast(NOON, NTZ, LTZ).replace(tzinfo=None) == NOON
    assert cast(NOON.date(), pa.date32(), NTZ) == NOON.replace(hour=0)


def test_a_time_at_midnight_is_a_day_and_a_double_is_a_float_if_that_is_wanted() -> None:
    midnight = NOON.replace(hour=0)
    assert cast(midnight, NTZ, pa.date32()) == cast(midnight, LTZ, pa.date32()) == midnight.date()
    rounded = cast_exactly(pa.chunked_array([[[0.5, 0.1]]]), pa.list_(pa.float32()), rounds=True)
    assert rounded.type == pa.list_(pa.float32())
    assert rounded[0].as_py()[0] == 0.5
    encoded = pa.chunked_array([pa.array([0.5, None]).dictionary_encode()])
    assert cast_exactly(encoded, pa.float32(), rounds=True).to_pylist() == [0.5, None]


@pytest.mark.parametrize(
    ("value", "there", "wanted"),
    [
        (5, pa.int64(), pa.bool_()),
        (5, pa.int64(), LTZ),
        (5, pa.int64(), pa.string()),
        (True, pa.bool_(), pa.int32()),
        (0.1, pa.float64(), pa.float32()),
        (1.0, pa.float64(), pa.int64()),
        (0.125, pa.float64(), pa.decimal128(10, 2)),
        (Decimal("0.1"), pa.decimal128(3, 1), pa.float64()),
        ("12", pa.string(), pa.int64()),
        (NOON, NTZ, pa.int64()),
        (NOON, LTZ, NTZ),
        (NOON.date(), pa.date32(), LTZ),
        ([0.1], pa.list_(pa.float64()), pa.list_(pa.float32())),
        ({"a": 5}, pa.struct({"a": pa.int64()}), pa.struct({"a": pa.bool_()})),
        ([("5", 1)], pa.map_(pa.string(), pa.int64()), pa.map_(pa.int64(), pa.int64())),
        ([5], pa.list_(pa.int64()), pa.int64()),
    ],
    ids=str,
)
def test_a_type_with_values_that_would_change_is_refused(value: Any, there: pa.DataType, wanted: pa.DataType) -> None:
    with pytest.raises(pa.ArrowTypeError, match="would change"):
        cast(value, there, wanted)


@pytest.mark.parametrize(
    ("value", "there", "wanted"),
    [
        (2**31, pa.int64(), pa.int32()),
        (2**53 + 1, pa.int64(), pa.float64()),
        (Decimal("1.55"), pa.decimal128(3, 2), pa.decimal128(3, 1)),
        (b"\xff", pa.binary(), pa.string()),
        (NOON, NTZ, pa.date32()),
    ],
)
def test_a_value_that_does_not_fit_is_refused(value: Any, there: pa.DataType, wanted: pa.DataType) -> None:
    with pytest.raises(pa.ArrowInvalid):
        cast(value, there, wanted)
