"""Rows as Kafka's records: which fields there can be, and what becomes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import types as t

from trident_py.errors import SinkError, TopologyError

_TEXT = (t.BinaryType, t.StringType)
_WHOLE = (t.ByteType, t.ShortType, t.IntegerType, t.LongType)
_HEADERS = "array<struct<key string, value binary>>"
_KINDS: Mapping[str, tuple[str, tuple[type[t.DataType], ...]]] = {
    "value": ("binary or string", _TEXT),
    "key": ("binary or string", _TEXT),
    "topic": ("string", (t.StringType,)),
    "partition": ("int", _WHOLE),
    "headers": (_HEADERS, (t.ArrayType,)),
    "timestamp": ("timestamp", (t.TimestampType,)),
}
ANY_PARTITION = -1
"""What librdkafka takes for: by the key, or any where there is none."""


class Record(NamedTuple):
    """What one row becomes. A tuple, as it is made a million times, and that takes a third of the time.

    Attributes:
        timestamp: in milliseconds since 1970, UTC; 0: the time when it is sent.
    """

    topic: str
    value: bytes | None
    key: bytes | None
    partition: int
    timestamp: int
    headers: list[tuple[str, str | bytes | None]] | None


def check_fields(fields: t.StructType, topic: str | None) -> None:
    """See whether rows of these fields can be records; ``topic`` is where they go that name none.

    Raises:
        TopologyError: they can't.
    """
    for field in fields.fields:
        if field.name not in _KINDS:
            raise TopologyError(
                f"a record has no field {field.name!r}; it has {', '.join(map(repr, _KINDS))}: rename it, or put it "
                f"into the value, as by to_json"
            )
        expected, kinds = _KINDS[field.name]
        if not isinstance(field.dataType, kinds) or (field.name == "headers" and not _are_headers(field.dataType)):
            raise TopologyError(f"field {field.name!r} is {field.dataType.simpleString()}; a record has {expected}")
    if "value" not in fields.names:
        raise TopologyError(f"a record needs a field 'value'; there are {fields.names}")
    if topic is None and "topic" not in fields.names:
        raise TopologyError("a KafkaSink needs a topic, or rows with a field 'topic'")


def _are_headers(kind: t.DataType) -> bool:
    each = kind.elementType if isinstance(kind, t.ArrayType) else None
    if not isinstance(each, t.StructType) or each.names != ["key", "value"]:
        return False
    return isinstance(each["key"].dataType, t.StringType) and isinstance(each["value"].dataType, _TEXT)


def check_rows(rows: pa.Table, topic: str | None) -> None:
    """See what only the rows themselves tell.

    Raises:
        SinkError: one has no topic to go to.
    """
    if topic is None and rows["topic"].null_count:
        raise SinkError(
            f"{rows['topic'].null_count} of {rows.num_rows} rows have no topic; fill the field, or give the KafkaSink "
            f"a topic for those that have none"
        )


def records(batch: pa.RecordBatch, topic: str | None) -> Iterator[Record]:
    """Return the rows of ``batch``, in order; ``topic`` is where they go that name none.

    Raises:
        SinkError: a row has a header without a key.
    """
    count, columns = batch.num_rows, dict(zip(batch.schema.names, batch.columns, strict=True))

    def given(name: str, kind: pa.DataType) -> list[Any]:
        return columns[name].cast(kind).to_pylist() if name in columns else [None] * count

    topics, partitions, times = [topic or ""] * count, [ANY_PARTITION] * count, [0] * count
    headers: list[Any] = [None] * count
    if "topic" in columns:
        topics = [named if named is not None else topic or "" for named in given("topic", pa.large_string())]
    if "partition" in columns:
        partitions = [ANY_PARTITION if each is None else each for each in given("partition", pa.int64())]
    if "timestamp" in columns:
        micros = columns["timestamp"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
        times = [0 if each is None else each // 1000 for each in micros]
    if "headers" in columns:
        headers = [each and [_header(one) for one in each] for each in columns["headers"].to_pylist()]
    keys, values = given("key", pa.large_binary()), given("value", pa.large_binary())
    return map(Record, topics, values, keys, partitions, times, headers)


def _header(given: Mapping[str, Any] | None) -> tuple[str, str | bytes | None]:
    if given is None or given["key"] is None:
        raise SinkError("a row has a header without a key, which Kafka has not; leave it out, or name it")
    return given["key"], given["value"]
