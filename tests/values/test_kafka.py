"""Odd values on their way to Kafka and from there; written and read by confluent_kafka at librdkafka's own broker.

With real brokers, transactions and topologies: `tests/integration/trident_py/test_kafka_values.py`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any
from uuid import uuid4

import confluent_kafka as kafka
import fastavro
import pytest
from attrs import define, field
from pyspark.sql import types as t

from tests.values.odd import ODD
from tests.values.reading import spark_value, type_of
from tests.values.store import Store, check_type
from trident_py import KafkaSink, TopologyError
from trident_py.rows.row import column_values
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.sinks.kafka.records import check_rows, records
from trident_py.spouts.kafka.ranges import OffsetRange
from trident_py.spouts.kafka.reader import KafkaReader
from trident_py.spouts.kafka.values import ValueFormat


@define
class Cluster:
    """A broker in this process."""

    producer: kafka.Producer
    servers: str

    @property
    def options(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.servers, "log_level": 0, "message.max.bytes": 30_000_000}

    def send(self, topic: str, values: Sequence[bytes | None], keys: Sequence[bytes | None]) -> None:
        for value, key in zip(values, keys, strict=True):
            self.producer.produce(topic, value, key, partition=0)
        assert self.producer.flush(30) == 0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    options = {"bootstrap.servers": "", "test.mock.num.brokers": 1, "log_level": 0, "message.max.bytes": 30_000_000}
    producer = kafka.Producer(options)
    (broker,) = producer.list_topics(timeout=30).brokers.values()
    yield Cluster(producer, f"{broker.host}:{broker.port}")
    producer.close()


@define
class SinkValues(Store):
    """What `KafkaSink` sends of rows, as values and keys, read by a consumer."""

    cluster: Cluster
    topic: str = field(factory=lambda: uuid4().hex)
    ddl: str = ""

    def write(self, ddl: str, values: Sequence[Any]) -> None:
        self.ddl = ddl
        fields = schema_of(f"value {ddl}, key {ddl}")
        try:
            KafkaSink(self.cluster.servers, self.topic).check_fields(fields)
            table = arrow_table([(value, value) for value in values], fields)
        except (TopologyError, TypeError) as error:
            raise type(error)(str(error).replace("'value'", "'v'")) from error
        check_rows(table, self.topic)
        sent = [record for batch in table.to_batches() for record in records(batch, self.topic)]
        self.cluster.send(self.topic, [each.value for each in sent], [each.key for each in sent])

    def read(self) -> list[Any]:
        consumer = kafka.Consumer({**self.cluster.options, "group.id": "x", "enable.partition.eof": True})
        consumer.assign([kafka.TopicPartition(self.topic, 0, 0)])
        found = []
        while (message := consumer.poll(30)) is not None and message.error() is None:
            assert message.key() == message.value()
            found.append(message.value())
        consumer.close()
        return [each.decode() if self.ddl == "string" and each is not None else each for each in found]


@define
class SpoutValues(Store):
    """What `KafkaSpout` makes of values that another program has written."""

    cluster: Cluster
    topic: str = ""
    ddl: str = ""
    count: int = 0
    format: ValueFormat = field(init=False)

    def written(self, values: Sequence[Any]) -> list[bytes | None]:
        """Return the values as that program writes them, and know their format from then on."""
        raise NotImplementedError

    def write(self, ddl: str, values: Sequence[Any]) -> None:
        self.ddl, self.count, self.topic = ddl, len(values), uuid4().hex
        stored = self.written(values)
        self.cluster.send(self.topic, stored, [None] * len(stored))
        if len(values) == 1:  # it may be refused: which is seen where it is read
            self.read()

    def read(self) -> list[Any]:
        reader = KafkaReader(self.cluster.options, self.format)
        rows = reader([OffsetRange(self.topic, 0, 0, self.count)])
        return [self.value(each) for batch in rows for each in column_values(batch.column("value"))]

    def value(self, stored: Any) -> Any:
        """Return the value of a record."""
        return spark_value(None if stored is None else stored[0], type_of(self.ddl))


class PlainValues(SpoutValues):
    """Texts and bytes."""

    def written(self, values: Sequence[Any]) -> list[bytes | None]:
        if self.ddl not in ("string", "binary"):
            raise TopologyError("field 'v': Kafka's values are bytes, and texts where they are UTF-8")
        self.format = ValueFormat.of(self.ddl, None, "fail")
        return [each.encode("utf-8", "surrogatepass") if isinstance(each, str) else each for each in values]

    def value(self, stored: Any) -> Any:
        return stored

    def read(self) -> list[Any]:
        try:
            return SpoutValues.read(self)
        except Exception as error:
            raise TopologyError(f"'v': {error}") from error


class JsonValues(SpoutValues):
    """Objects in JSON, as Python's own module writes them."""

    def written(self, values: Sequence[Any]) -> list[bytes | None]:
        self.format = ValueFormat.of("json", f"v {self.ddl}", "fail")
        return [f'{{"v": {as_json(each, type_of(self.ddl))}}}'.encode() for each in values]


def as_json(value: Any, kind: t.DataType) -> str:
    match value, kind:
        case None, _:
            return "null"
        case Decimal(), _:
            return str(value)
        case ((datetime() | date()), _):
            return json.dumps(value.isoformat())
        case _, t.ArrayType():
            return f"[{', '.join(as_json(each, kind.elementType) for each in value)}]"
        case _, t.MapType():
            pairs = (f"{json.dumps(key)}: {as_json(each, kind.valueType)}" for key, each in value.items())
            return f"{{{', '.join(pairs)}}}"
        case _, t.StructType():
            pairs = (
                f"{json.dumps(name)}: {as_json(each, kind[name].dataType)}"
                for name, each in zip(kind.names, value, strict=True)
            )
            return f"{{{', '.join(pairs)}}}"
    return json.dumps(value)


class AvroValues(SpoutValues):
    """Records in Avro, as fastavro writes them."""

    def written(self, values: Sequence[Any]) -> list[bytes | None]:
        schema = {"type": "record", "name": "r", "fields": [{"name": "v", "type": avro_of(type_of(self.ddl), [])}]}
        self.format = ValueFormat.of("avro", json.dumps(schema), "fail")
        parsed, stored = fastavro.parse_schema(schema), list[bytes | None]()
        for each in values:
            stream = BytesIO()
            try:
                fastavro.schemaless_writer(stream, parsed, {"v": as_avro(each, type_of(self.ddl))})
            except UnicodeEncodeError as error:
                raise TopologyError(f"'v': {error}") from error
            stored.append(stream.getvalue())
        return stored


_AVRO: dict[type[t.DataType], Any] = {
    t.BooleanType: "boolean",
    t.IntegerType: "int",
    t.LongType: "long",
    t.FloatType: "float",
    t.DoubleType: "double",
    t.StringType: "string",
    t.BinaryType: "bytes",
    t.DateType: {"type": "int", "logicalType": "date"},
    t.TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    t.TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
}


def avro_of(kind: t.DataType, names: list[str]) -> Any:
    match kind:
        case t.DecimalType():
            return [
                "null",
                {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale},
            ]
        case t.ArrayType():
            return ["null", {"type": "array", "items": avro_of(kind.elementType, names)}]
        case t.MapType():
            return ["null", {"type": "map", "values": avro_of(kind.valueType, names)}]
        case t.StructType():
            names.append("s")
            fields = [{"name": each.name, "type": avro_of(each.dataType, names)} for each in kind.fields]
            return ["null", {"type": "record", "name": f"s{len(names)}", "fields": fields}]
    if type(kind) not in _AVRO:
        raise TopologyError(f"field 'v': Avro has no {kind.simpleString()}")
    return ["null", _AVRO[type(kind)]]


def as_avro(value: Any, kind: t.DataType) -> Any:
    match value, kind:
        case None, _:
            return None
        case _, t.ArrayType():
            return [as_avro(each, kind.elementType) for each in value]
        case _, t.MapType():
            return {key: as_avro(each, kind.valueType) for key, each in value.items()}
        case _, t.StructType():
            return {each.name: as_avro(part, each.dataType) for each, part in zip(kind.fields, value, strict=True)}
    return value


@pytest.mark.parametrize("ddl", ODD)
def test_values_and_keys_arrive_in_kafka_as_they_are(cluster: Cluster, ddl: str) -> None:
    check_type(SinkValues(cluster), "KafkaSink", ddl)


@pytest.mark.parametrize("ddl", ODD)
def test_texts_and_bytes_come_from_kafka_as_they_are(cluster: Cluster, ddl: str) -> None:
    check_type(PlainValues(cluster), "KafkaSpout, text and binary", ddl)


@pytest.mark.parametrize("ddl", ODD)
def test_json_comes_from_kafka_as_it_is(cluster: Cluster, ddl: str) -> None:
    check_type(JsonValues(cluster), "KafkaSpout, json", ddl)


@pytest.mark.parametrize("ddl", ODD)
def test_avro_comes_from_kafka_as_it_is(cluster: Cluster, ddl: str) -> None:
    check_type(AvroValues(cluster), "KafkaSpout, avro", ddl)


def test_nan_is_no_number_of_json_and_is_read_all_the_same() -> None:
    array, _ = ValueFormat.of("json", "v double", "fail").array([b'{"v": NaN}'], str)
    assert math.isnan(column_values(array)[0][0])
