"""Avro values that begin with the id of their schema are read with it, and with the schema of the reader."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import fastavro
import pytest

from tests.servers.schema_registry import Registry, registry_running
from trident_py import FailedException, SpoutError, TopologyError
from trident_py.sinks.kafka.registry import SchemaRegistry
from trident_py.spouts.kafka.values import ValueFormat

OLD: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}, {"name": "note", "type": "string"}, {"name": "label", "type": "string"}],
}
NEW: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "aliases": ["label"], "type": "string"},
        {"name": "amount", "type": "double", "default": 1.5},
    ],
}
READ = (
    '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, {"name": "name", "aliases": '
    '["label"], "type": "string"}, {"name": "amount", "type": "double", "default": 1.5}]}'
)


@pytest.fixture
def registry() -> Iterator[Registry]:
    with registry_running() as found:
        yield found


def written(number: int, schema: Any, value: Any) -> bytes:
    """As Confluent's serializer writes it."""
    stream = BytesIO(b"\0" + number.to_bytes(4, "big"))
    stream.seek(5)
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def read(registry: Registry, *values: bytes, on_error: str = "fail", schema: str = READ) -> list[Any]:
    values_format = pickle.loads(pickle.dumps(ValueFormat.of("avro", schema, on_error, registry.url)))  # noqa: S301
    column, _ = values_format.array(values, lambda number: f"t/0 at {number}")
    found: list[Any] = column.to_pylist()
    return found


def test_values_of_all_versions_are_converted_to_the_schema_of_the_reader(registry: Registry) -> None:
    old, new = registry.register("orders-value", OLD), registry.register("orders-value", NEW)
    values = [
        written(old, OLD, {"id": 1, "note": "n", "label": "tea"}),
        written(new, NEW, {"id": 2**40, "name": "cup", "amount": 2.0}),
    ]
    assert read(registry, *values, *values) == 2 * [
        {"id": 1, "name": "tea", "amount": 1.5},
        {"id": 2**40, "name": "cup", "amount": 2.0},
    ]
    assert registry.asked == [f"/schemas/ids/{old}", f"/schemas/ids/{new}"]


def test_a_schema_may_refer_to_those_of_other_subjects(registry: Registry) -> None:
    inner = {"type": "record", "name": "Inner", "namespace": "a.b", "fields": [{"name": "n", "type": "long"}]}
    outer = {"type": "record", "name": "Outer", "fields": [{"name": "inner", "type": "a.b.Inner"}]}
    whole = {"type": "record", "name": "Outer", "fields": [{"name": "inner", "type": inner}]}
    registry.register("of/it", inner)
    number = registry.register("outer-value", outer, ("a.b.Inner", "of/it", 1))
    read_as = (
        '{"type": "record", "name": "Outer", "fields": [{"name": "inner", "type": {"type": "record", "name": "Inner"'
    )
    read_as += ', "namespace": "a.b", "fields": [{"name": "n", "type": "long"}]}}]}'
    assert read(registry, written(number, whole, {"inner": {"n": 3}}), schema=read_as) == [{"inner": {"n": 3}}]
    assert registry.asked == [f"/schemas/ids/{number}", "/subjects/of%2Fit/versions/1"]


def test_a_decimal_keeps_its_digits(registry: Registry) -> None:
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}
    number = registry.register("d-value", schema)
    text = '{"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}'
    value = b"\0" + number.to_bytes(4, "big") + bytes([32]) + (10**37 + 1).to_bytes(16, "big", signed=True)
    assert [str(each) for each in read(registry, value, schema=text)] == [f"1{'0' * 35}.01"]


@pytest.mark.parametrize("on_error", ["fail", "null", "skip"])
def test_a_registry_that_is_away_or_behind_is_waited_for_whatever_happens_to_bad_values(
    registry: Registry, on_error: str
) -> None:
    value = written(1000, OLD, {"id": 1, "note": "n", "label": "tea"})
    with pytest.raises(FailedException, match="answers 404 Not Found to /schemas/ids/1000"):
        read(registry, value, on_error=on_error)
    registry.register("orders-value", OLD)
    registry.answers = 503
    with pytest.raises(FailedException, match="answers 503"):
        read(registry, value, on_error=on_error)
    registry.answers = 200
    assert read(registry, value, on_error=on_error) == [{"id": 1, "name": "tea", "amount": 1.5}]
    with pytest.raises(FailedException, match="doesn't answer /schemas/ids/7"):
        SchemaRegistry("http://127.0.0.1:1").schemas(7)


def test_a_registry_that_refuses_stops_by_name_and_without_the_password() -> None:
    with registry_running("me:p@ss") as other:
        number = other.register("orders-value", OLD)
        url = f"http://me:p%40ss@127.0.0.1:{other.port}"
        assert SchemaRegistry(url).schemas(number) == (OLD,)
        for wrong in (url.replace("p%40ss", "secret"), f"http://127.0.0.1:{other.port}"):
            with pytest.raises(SpoutError, match=r"refuses /schemas/ids/1000: 401 .* correct registry=") as refused:
                SchemaRegistry(wrong).schemas(number)
            assert "secret" not in str(refused.value) + repr(SchemaRegistry(wrong))


def test_schemas_of_other_kinds_stop_by_name(registry: Registry) -> None:
    number = registry.register("orders-value", "syntax = 'proto3';", schemaType="PROTOBUF")
    with pytest.raises(SpoutError, match=rf"schema {number} of the schema registry at 127.* is PROTOBUF; to fix this"):
        read(registry, written(number, OLD, {"id": 1, "note": "", "label": ""}), on_error="null")


def test_values_that_can_not_be_read_are_treated_as_others(registry: Registry) -> None:
    number = registry.register("orders-value", OLD)
    good = written(number, OLD, {"id": 1, "note": "n", "label": "tea"})
    other = registry.register(
        "others-value", {"type": "record", "name": "Other", "fields": [{"name": "x", "type": "int"}]}
    )
    for bad in (b"", b"\0\0\0", b"\1" + good[1:], good[:-1], good + b"x", b"\0" + other.to_bytes(4, "big") + b"\2"):
        assert read(registry, good, bad, on_error="null") == [{"id": 1, "name": "tea", "amount": 1.5}, None]
        with pytest.raises(SpoutError, match="t/0 at 1: its value is not avro of struct"):
            read(registry, good, bad)


def test_arguments_that_can_not_work_are_refused_at_once() -> None:
    for url in ("localhost:8081", "file:///etc/passwd", "http://"):
        with pytest.raises(TopologyError, match="registry is the URL of a schema registry"):
            ValueFormat.of("avro", READ, "fail", url)
    with pytest.raises(TopologyError, match="value='json' takes no registry"):
        ValueFormat.of("json", "a int", "fail", "http://localhost:8081")
