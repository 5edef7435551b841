from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trident_py.errors import SpoutError, TopologyError
from trident_py.rows.avro import avro_decoder, avro_schema, avro_type
from trident_py.rows.row import column_values
from trident_py.spouts.kafka.values import ValueFormat

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "here", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "size", "type": {"type": "enum", "name": "Size", "symbols": ["S", "L"]}},
        {"name": "other", "type": ["null", "Size"]},
        {"name": "wide", "type": ["int", "long", "null"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "more", "type": {"type": "map", "values": "double"}},
    ],
}
VALUES = {
    "id": 7,
    "note": None,
    "price": Decimal("1.10"),
    "day": date(2026, 1, 2),
    "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    "here": datetime(2026, 1, 2, 3, 4, 5),  # noqa: DTZ001 - a local timestamp has no time zone
    "key": "f81d4fae",
    "size": "L",
    "other": "S",
    "wide": 2**40,
    "tags": ["a", "b"],
    "more": {"x": 0.5},
}


def written(value: Any, schema: Any = ORDER) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(avro_schema(json.dumps(schema))), value)
    return stream.getvalue()


def test_a_record_is_a_struct_with_what_spark_has_for_each_type() -> None:
    values = ValueFormat.of("avro", json.dumps(ORDER), "fail")
    assert values.field.dataType.simpleString() == (
        "struct<id:bigint,note:string,price:decimal(10,2),day:date,at:timestamp,here:timestamp_ntz,key:string,"
        "size:string,other:string,wide:bigint,tags:array<string>,more:map<string,double>>"
    )
    array, _ = values.array([written(VALUES), None], str)
    row, none = column_values(array)
    assert tuple(row) == tuple(VALUES.values())
    assert none is None


def test_a_schema_need_not_be_a_record() -> None:
    array, _ = ValueFormat.of("avro", '"long"', "fail").array([written(5, "long")], str)
    assert column_values(array) == [5]


BAD = [b"", written(VALUES)[:-1], written(VALUES) + b"\0", b"\xff" * 9, b"\0\0\0\0\x05" + written(VALUES)]


@pytest.mark.parametrize("bad", BAD)
def test_what_is_no_such_value_is_named_left_out_or_null(bad: bytes) -> None:
    several = (written(VALUES), bad)
    with pytest.raises(SpoutError, match="t/0 at 1: its value is not avro of struct<id:bigint"):
        ValueFormat.of("avro", json.dumps(ORDER), "fail").array(several, lambda number: f"t/0 at {number}")
    array, kept = ValueFormat.of("avro", json.dumps(ORDER), "skip").array(several, str)
    assert (len(array), kept) == (1, [0])
    array, kept = ValueFormat.of("avro", json.dumps(ORDER), "null").array(several, str)
    assert (array[1].as_py(), kept) == (None, [0, 1])


@given(place=st.integers(0, 60), byte=st.integers(0, 255), end=st.integers(0, 60))
def test_bytes_that_are_damaged_give_a_value_or_an_error_that_is_expected(place: int, byte: int, end: int) -> None:
    damaged = bytearray(written(VALUES))
    damaged[place % len(damaged)] = byte
    with suppress(ValueError, TypeError, ArithmeticError):
        avro_decoder(avro_schema(json.dumps(ORDER)))(bytes(damaged[: end or None]))


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (None, "value='avro' needs schema=, the Avro schema of values as JSON text"),
        ("id long", "is not an Avro schema: JSONDecodeError"),
        ('"Order"', "is not an Avro schema: UnknownType"),
        ('{"type": "record", "name": "r", "fields": [{"name": "next", "type": ["null", "r"]}]}', "no type for 'r'"),
        ('["int", "string"]', "no type for \\['int', 'string'\\]"),
        ('"null"', "no type for 'null'"),
        ('{"type": "bytes", "logicalType": "decimal", "precision": 50}', "no type for"),
    ],
)
def test_a_schema_that_can_t_work_is_said_at_once(schema: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        ValueFormat.of("avro", schema, "fail")


def test_other_logical_types_are_what_they_annotate() -> None:
    time = '{"type": "int", "logicalType": "time-millis"}'
    assert avro_type(avro_schema(time)).simpleString() == "int"


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}


def decimal_of(unscaled: int, schema: Any, **options: Any) -> list[Any]:
    stored = unscaled.to_bytes(16, "big", signed=True)
    text = json.dumps({"type": "record", "name": "r", "fields": [{"name": "v", "type": schema}]})
    stored = stored if schema["type"] == "fixed" else bytes([32]) + stored
    array, _ = ValueFormat.of("avro", text, options.get("on_error", "fail")).array([stored], str)
    return [row[0] for row in column_values(array)]


@pytest.mark.parametrize("kind", [{"type": "bytes"}, {"type": "fixed", "name": "f", "size": 16}])
def test_a_decimal_has_all_of_its_digits_or_is_an_error_of_its_record(kind: Any) -> None:
    assert decimal_of(12345, {**DECIMAL, **kind}) == [Decimal("123.45")]
    assert decimal_of(-99999, {**DECIMAL, **kind}) == [Decimal("-999.99")]
    whole = {**DECIMAL, **kind, "precision": 38}
    assert decimal_of(10**38 - 1, whole) == [Decimal("9" * 36 + ".99")]
    assert decimal_of(1234567, {**DECIMAL, **kind}, on_error="skip") == []
    with pytest.raises(SpoutError, match="a decimal has more than 5 digits"):
        decimal_of(1234567, {**DECIMAL, **kind})


def test_fastavro_reads_the_decimals_of_others_as_before() -> None:
    decimal_of(12345, DECIMAL)
    stored = fastavro.schemaless_reader(BytesIO(bytes([4, 1, 2])), fastavro.parse_schema(DECIMAL), None)
    assert stored == Decimal("2.58")


@pytest.mark.parametrize("kind", ["timestamp-micros", "timestamp-millis", "local-timestamp-micros", "date"])
@given(number=st.integers(-(2**63), 2**63 - 1))
def test_a_time_that_isnt_in_the_years_1_to_9999_is_an_error_of_its_record(kind: str, number: int) -> None:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, "long", number)
    schema = {"type": "int" if kind == "date" else "long", "logicalType": kind}
    text = json.dumps({"type": "record", "name": "r", "fields": [{"name": "v", "type": schema}]})
    array, _ = ValueFormat.of("avro", text, "skip").array([stream.getvalue()], str)
    column_values(array)


@given(st.binary() | st.binary(max_size=40).map(lambda tail: written(VALUES)[: len(tail) * 3] + tail))
def test_bytes_of_any_kind_are_a_value_or_an_error_of_their_record_alone(value: bytes) -> None:
    array, kept = ValueFormat.of("avro", json.dumps(ORDER), "null").array([value, written(VALUES)], str)
    assert kept == [0, 1]
    assert column_values(array)[1] is not None
