"""Values in Avro for a schema registry: a `KafkaSpout` reads them as they were."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from tests.servers.schema_registry import Registry, registry_running
from trident_py import SinkError, StoreBusyException, TopologyError
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.sinks.kafka.avro_values import AvroValues
from trident_py.spouts.kafka.values import ValueFormat

FIELDS = {
    "id": "long",
    "note": ["null", "string"],
    "price": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
    "day": {"type": "int", "logicalType": "date"},
    "at": {"type": "long", "logicalType": "timestamp-micros"},
    "tags": {"type": "map", "values": "int"},
    "sizes": {"type": "array", "items": "double"},
    "kind": {"type": "enum", "name": "Kind", "symbols": ["TEA", "CUP"]},
}
ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": n, "type": k} for n, k in FIELDS.items()]})
VALUE: dict[str, Any] = {
    "id": 2**40,
    "note": None,
    "price": Decimal("-1.05"),
    "day": date(2024, 2, 29),
    "at": datetime(2024, 2, 29, 12, 30, 0, 5, UTC),
    "tags": {"a": 1, "b": 2},
    "sizes": [0.1, -0.0],
    "kind": "TEA",
}
MILLIS = '{"type": "long", "logicalType": "timestamp-millis"}'


@pytest.fixture
def registry() -> Iterator[Registry]:
    with registry_running() as found:
        yield found


def encoder(registry: Registry, schema: str = ORDER) -> AvroValues:
    return AvroValues.of("orders", schema, registry.url)


def rows(values: list[Any], kind: t.DataType) -> pa.Table:
    fields = t.StructType([t.StructField("key", t.StringType()), t.StructField("value", kind)])
    return arrow_table([("k", value) for value in values], fields)


def test_a_spout_reads_the_values_as_they_were_and_null_is_a_tombstone(registry: Registry) -> None:
    made = encoder(registry)
    found = made.encoded(rows([VALUE, None, {**VALUE, "id": 1}], made.type))
    assert found.schema.types == [pa.string(), pa.binary()]
    values = found["value"].to_pylist()
    assert (values[0][:5], values[1]) == (b"\0\0\0\3\xe8", None)
    column, _ = ValueFormat.of("avro", ORDER, "fail", registry.url).array(values, str)
    read = column.to_pylist(maps_as_pydicts="strict")
    assert read == [VALUE, None, {**VALUE, "id": 1}]


def test_the_schema_is_registered_once_for_the_topic_and_another_process_gets_its_id(registry: Registry) -> None:
    for _ in range(2):
        made = encoder(registry)
        for _ in range(2):
            made.encoded(rows([VALUE], made.type))
    assert registry.versions == {"orders-value": [1000]}
    assert registry.asked == ["/subjects/orders-value/versions"] * 2


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"kind": "POT"}, "'orders-value': .*POT"),
        ({"id": None}, "doesn't fit the Avro schema"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_name(registry: Registry, changed: Any, said: str) -> None:
    made = encoder(registry)
    with pytest.raises(SinkError, match=said):
        made.encoded(rows([{**VALUE, **changed}], made.type))


def test_microseconds_are_not_dropped_in_silence(registry: Registry) -> None:
    made = encoder(registry, MILLIS)
    whole = datetime(2024, 2, 29, 12, 30, 0, 5000, UTC)
    assert made.encoded(rows([whole], made.type)).num_rows == 1
    with pytest.raises(SinkError, match="it has microseconds, and the schema milliseconds"):
        made.encoded(rows([whole.replace(microsecond=5001)], made.type))


def test_a_registry_that_is_away_is_waited_for_and_one_that_refuses_is_named(registry: Registry) -> None:
    made = encoder(registry)
    for answers, error in ((503, StoreBusyException), (409, SinkError)):
        registry.answers = answers
        with pytest.raises(error, match=f"schema registry at 127.* {answers} "):
            made.encoded(rows([VALUE], made.type))
    registry.answers = 200
    assert made.encoded(rows([VALUE], made.type)).num_rows == 1


def test_arguments_that_can_not_work_are_refused_at_once() -> None:
    for topic, schema, url in ((None, ORDER, "http://x"), ("t", None, "http://x"), ("t", ORDER, None)):
        with pytest.raises(TopologyError, match="writes Avro needs a topic, schema= and registry="):
            AvroValues.of(topic, schema, url)
    made = AvroValues.of("t", '"long"', "http://x")
    assert made.encoded_fields(schema_of("key string, value bigint")) == schema_of("key string, value binary")
    with pytest.raises(TopologyError, match="field 'value' is int, and the Avro schema is of bigint; to fix this"):
        made.encoded_fields(schema_of("value int"))
