"""Conversion of rows to Kafka's records: the supported fields, and their checks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t

from trident_py.errors import SinkError, TopologyError
from trident_py.rows.schema import shown

_TEXT = (t.BinaryType, t.StringType)
_WHOLE = (t.ByteType, t.ShortType, t.IntegerType, t.LongType)
_HEADERS = "array<struct<key string, value binary>>"
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
TOPIC_RULE = "Kafka's topics have names of 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_', '-'"
_KINDS: Mapping[str, tuple[str, tuple[type[t.DataType], ...]]] = {
    "value": ("binary or string", _TEXT),
    "key": ("binary or string", _TEXT),
    "topic": ("string", (t.StringType,)),
    "partition": ("int", _WHOLE),
    "headers": (_HEADERS, (t.ArrayType,)),
    "timestamp": ("timestamp", (t.TimestampType,)),
}
PARTITION_MAX = 2**31 - 1
ANY_PARTITION = -1
"""librdkafka's number for a partition chosen by the key, or any partition without a key."""


class Record(NamedTuple):
    """The record of one row. A tuple, because a million are made, and a tuple takes a third of the time.

    Attributes:
        timestamp: in milliseconds since 1970, UTC; 0: the time when it is sent.
    """

    topic: str
    value: bytes | None
    key: bytes | None
    partition: int
    timestamp: int
    headers: list[tuple[str, str | bytes | None]] | None


def is_topic_name(name: str) -> bool:
    """Return whether ``name`` is a valid name of a topic."""
    return bool(_TOPIC.fullmatch(name)) and name not in (".", "..")


def check_fields(fields: t.StructType, topic: str | None) -> None:
    """Check that rows of these fields can be records; ``topic`` is the topic of rows that name none.

    Raises:
        TopologyError: they can't.
    """
    for field in fields.fields:
        if field.name not in _KINDS:
            raise TopologyError(
                f"a record has no field {field.name!r}; it has {', '.join(map(repr, _KINDS))}; to fix this: rename "
                f"it, or put it into the value, as by to_json"
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
    """Check the values of the rows.

    Raises:
        SinkError: a row can't be sent as a record.
    """
    if topic is None and rows["topic"].null_count:
        raise SinkError(
            f"{rows['topic'].null_count} of {rows.num_rows} rows have no topic; to fix this: fill the field, or give "
            f"the KafkaSink a topic for them"
        )
    for name, refused, rule in _RULES:
        found = refused(rows[name].combine_chunks()) if name in rows.column_names else ""
        if found:
            raise SinkError(
                f"field {name!r} of a row can't be sent: it is {found}; {rule}; to fix this: change such rows, or "
                f"leave them out, before the KafkaSink"
            )


def _refused_topic(column: pa.Array) -> str:
    named = (each for each in column.cast(pa.large_string()).unique().to_pylist() if each is not None)
    return next((shown(each) for each in named if not is_topic_name(each)), "")


def _refused_partition(column: pa.Array) -> str:
    numbers = (each for each in column.unique().to_pylist() if each is not None)
    return next((shown(each) for each in numbers if not 0 <= each <= PARTITION_MAX), "")


def _refused_time(column: pa.Array) -> str:
    micros = _micros(column)
    none = pc.and_(pc.greater_equal(micros, 0), pc.less(micros, 1000))
    return "in the first millisecond of 1970 (UTC)" if pc.any(none).as_py() else ""


def _refused_headers(column: pa.Array) -> str:
    keys = pc.struct_field(pc.list_flatten(column), "key").cast(pa.large_string())
    if keys.null_count:
        return "with a header without a key"
    bad = keys.filter(pc.match_substring(keys, "\0"))
    return f"with a header whose key is {shown(bad[0].as_py())}" if len(bad) else ""


_RULES: Sequence[tuple[str, Callable[[pa.Array], str], str]] = (
    ("topic", _refused_topic, TOPIC_RULE),
    ("partition", _refused_partition, f"partitions have numbers from 0 to {PARTITION_MAX}; null lets Kafka choose"),
    ("timestamp", _refused_time, "Kafka's client would send the time of sending instead"),
    ("headers", _refused_headers, "each header has a key that is not null, without the character NUL"),
)


def _micros(column: pa.Array) -> pa.Array:
    return column.cast(pa.timestamp("us", "UTC")).cast(pa.int64())


def records(batch: pa.RecordBatch, topic: str | None) -> Iterator[Record]:
    """Return the rows of ``batch``, which `check_rows` has checked, in order; ``topic`` is for rows without one."""
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
        micros = _micros(columns["timestamp"]).to_pylist()
        times = [0 if each is None else each // 1000 for each in micros]
    if "headers" in columns:
        headers = [each and [_header(one) for one in each] for each in columns["headers"].to_pylist()]
    keys, values = given("key", pa.large_binary()), given("value", pa.large_binary())
    return map(Record, topics, values, keys, partitions, times, headers)


def _header(given: Mapping[str, Any]) -> tuple[str, str | bytes | None]:
    value = given["value"]
    return given["key"], value.encode() if isinstance(value, str) else value  # the client ends a text at its first NUL


def suspect(error: str, sent: Iterator[Record]) -> Record | None:
    """Return the record that most likely caused an error of Kafka's, which is reported for all records sent with it."""
    match error:
        case "INVALID_RECORD":  # a compacted topic refuses records without a key
            return next((each for each in sent if each.key is None), None)
        case "INVALID_TIMESTAMP":
            return max(sent, key=lambda each: each.timestamp, default=None)
        case "_UNKNOWN_PARTITION":
            return max(sent, key=lambda each: each.partition, default=None)
        case "MSG_SIZE_TOO_LARGE" | "INVALID_MSG_SIZE" | "RECORD_LIST_TOO_LARGE":
            return max(sent, key=lambda each: len(each.key or b"") + len(each.value or b""), default=None)
    return None
