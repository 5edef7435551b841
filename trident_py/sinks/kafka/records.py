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
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))

    def values(name: str, kind: pa.DataType) -> list[Any]:
        return columns[name].cast(kind).to_pylist() if name in columns else [None] * batch.num_rows

    micros = pa.timestamp("us", "UTC")
    times = columns["timestamp"].cast(micros).cast(pa.int64()).to_pylist() if "timestamp" in columns else None
    found = zip(
        values("topic", pa.large_string()),
        values("value", pa.large_binary()),
        values("key", pa.large_binary()),
        values("partition", pa.int64()),
        times or [None] * batch.num_rows,
        columns["headers"].to_pylist() if "headers" in columns else [None] * batch.num_rows,
        strict=True,
    )
    for named, value, key, partition, at, headers in found:
        yield Record(
            named if named is not None else topic or "",
            value,
            key,
            ANY_PARTITION if partition is None else partition,
            0 if at is None else at // 1000,
            headers and [_header(each) for each in headers],
        )


def _header(given: Mapping[str, Any] | None) -> tuple[str, str | bytes | None]:
    if given is None or given["key"] is None:
        raise SinkError("a row has a header without a key, which Kafka has not; leave it out, or name it")
    return given["key"], given["value"]
