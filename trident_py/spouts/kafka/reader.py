"""Reads ranges of a Kafka topic, in a Spark task or on the driver."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from attrs import field, frozen
from pyspark.sql import types as t

from trident_py.errors import FailedException, SpoutError
from trident_py.rows.schema import arrow_schema
from trident_py.sinks.kafka.client_log import client_log
from trident_py.spouts.kafka.ranges import OffsetRange
from trident_py.spouts.kafka.values import UNDECODED, ValueFormat

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

ROWS_MAX = 10_000
"""The maximum number of rows of one Arrow batch."""

SILENCE_SECONDS = 30.0
"""How long a cluster may return no records of a range before the read fails."""

POLL_SECONDS = 0.1

_MILLIS_MIN, _MILLIS_MAX = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999, which are those of Python and of Spark."""

_READING = {
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.partition.eof": True,  # a range may end in aborted records, which have no other sign
    "auto.offset.reset": "error",  # expired records are an error, not skipped
    # A range never waits for new records. But the request after its end would, and a client has one request at a time,
    # so the next range would wait, too.
    "fetch.wait.max.ms": 1,
}

_HEADERS = t.ArrayType(t.StructType([t.StructField("key", t.StringType()), t.StructField("value", t.BinaryType())]))
_kept = threading.local()
"""Each thread's consumers, by their options: a new one takes a tenth of a second."""


def fields_of(values: ValueFormat) -> t.StructType:
    """Return the fields of the rows, like those of Spark's own source."""
    more = [UNDECODED] if values.quarantines else []
    return t.StructType(
        [
            t.StructField("key", t.BinaryType()),
            values.field,
            t.StructField("topic", t.StringType()),
            t.StructField("partition", t.IntegerType()),
            t.StructField("offset", t.LongType()),
            t.StructField("timestamp", t.TimestampType()),
            t.StructField("headers", _HEADERS),
            *more,
        ]
    )


@frozen
class KafkaReader:
    """Reads ranges: rows with the fields of `fields_of`.

    Attributes:
        options: librdkafka's options, including ``bootstrap.servers``; they may have a password, and are sent to tasks.
        values: the format of the values.
    """

    options: Mapping[str, Any] = field(repr=False)
    values: ValueFormat

    def __call__(self, ranges: Sequence[OffsetRange]) -> Iterator[pa.RecordBatch]:
        """Yield the records of ``ranges``, in their order.

        Raises:
            SpoutError: some records are gone, or can't be read.
            FailedException: the cluster doesn't return them now.
        """
        for each in ranges:
            for records in self._records(each):
                yield self._batch(records)

    def mean_bytes(self, given: OffsetRange) -> float:
        """Return the mean size of the first records of a range, in bytes; 0: there are no records."""
        for records in self._records(given):
            return sum(len(each) for each in records) / len(records)
        return 0.0

    def _records(self, given: OffsetRange) -> Iterator[list[Message]]:
        from confluent_kafka import KafkaException, TopicPartition

        consumer = self._consumer()
        try:
            consumer.assign([TopicPartition(given.topic, given.partition, given.start)])
            yield from _read(consumer, given)
            consumer.unassign()
        except BaseException as error:
            _kept.consumers.pop(self._name, None)
            consumer.close()
            if isinstance(error, KafkaException):
                raise _failure(given, error.args[0]) from error
            raise

    @property
    def _name(self) -> str:
        return repr(sorted(self.options.items()))

    def _consumer(self) -> Consumer:
        from confluent_kafka import Consumer

        kept: dict[str, Consumer] | None = getattr(_kept, "consumers", None)
        if kept is None:
            kept = _kept.consumers = {}
        if self._name not in kept:
            given = {"group.id": "trident", **self.options, **_READING}
            kept[self._name] = Consumer(given, logger=client_log)
        return kept[self._name]

    def _batch(self, records: Sequence[Message]) -> pa.RecordBatch:
        told = [self._told(each) for each in records]
        given = [(each, *more) for each, more in zip(records, told, strict=True) if more is not None]
        column, kept = self.values.array(
            [each.value() for each, _, _ in given], lambda number: _named(given[number][0])
        )
        rows = [given[number] for number in kept] if len(kept) < len(given) else given
        schema = arrow_schema(fields_of(self.values))
        columns = [
            pa.array([each.key() for each, _, _ in rows], pa.binary()),
            column,
            pa.array([each.topic() for each, _, _ in rows], pa.string()),
            pa.array([each.partition() for each, _, _ in rows], pa.int32()),
            pa.array([each.offset() for each, _, _ in rows], pa.int64()),
            pa.array([micros for _, micros, _ in rows], pa.int64()).cast(schema.field("timestamp").type),
            pa.array([headers for _, _, headers in rows], schema.field("headers").type),
        ]
        if self.values.quarantines:
            columns.append(self.values.undecoded([each.value() for each, _, _ in rows], column))
        return pa.RecordBatch.from_arrays([a.cast(f.type) for a, f in zip(columns, schema, strict=True)], schema=schema)

    def _told(self, record: Message) -> tuple[int | None, list[dict[str, Any]] | None] | None:
        """Return the time and the headers of a record; None: it is left out, because they can't be read.

        Raises:
            SpoutError: they can't be read, and ``on_decode_error`` is ``"fail"`` or ``"quarantine"``.
        """
        try:
            return _micros(record), _headers(record)
        except Exception as error:
            if self.values.on_error in ("fail", "quarantine"):
                raise SpoutError(
                    f"{_named(record)}: its timestamp or headers can't be read: {type(error).__name__}: {error}; to "
                    f"fix this: set on_decode_error='null' or 'skip' to continue without them"
                ) from error
            return (None, None) if self.values.on_error == "null" else None


def _read(consumer: Consumer, given: OffsetRange) -> Iterator[list[Message]]:
    heard, at = time.monotonic(), given.start
    while at < given.end:
        found = consumer.consume(min(ROWS_MAX, given.end - at), POLL_SECONDS)
        records: list[Message] = []
        for message in found:
            if (error := message.error()) is not None:
                at = max(at, _ended(message, error, given))
            elif (message.offset() or 0) >= given.end:
                at = given.end
            else:
                records.append(message)
                at = (message.offset() or 0) + 1
        if records:
            yield records
        if found:
            heard = time.monotonic()
        elif time.monotonic() - heard > SILENCE_SECONDS:
            raise FailedException(f"{given}: the cluster has returned no record of it for {SILENCE_SECONDS:.0f} s")


def _ended(message: Message, error: KafkaError, given: OffsetRange) -> int:
    """Return the offset up to which the range was read, from a message that is not a record.

    Raises:
        SpoutError: the records are gone.
        FailedException: the error is temporary.
    """
    from confluent_kafka import KafkaError as Codes

    if error.code() == Codes._PARTITION_EOF:  # noqa: SLF001 - librdkafka's name for it
        return message.offset() or 0
    raise _failure(given, error)


def _failure(given: OffsetRange, error: KafkaError) -> SpoutError | FailedException:
    """Return the error that follows from an error of Kafka's while a range is read."""
    from confluent_kafka import KafkaError as Codes

    from trident_py.interfaces.verdict import Verdict
    from trident_py.sinks.kafka.verdicts import Call, shown_error, verdict_of

    if error.code() in {Codes._AUTO_OFFSET_RESET, Codes.OFFSET_OUT_OF_RANGE}:  # noqa: SLF001
        return SpoutError(
            f"{given}: Kafka does not have these records any more ({error}): they have expired, or the topic was cut "
            f"or made again; to fix this: restore them, or `trident reset` the topology"
        )
    if verdict_of(Call.READ, error) is Verdict.NEVER:
        return SpoutError(f"{given}: Kafka refuses to return these records: {shown_error(error)}")
    return FailedException(f"{given}: {error}")


def _named(record: Message) -> str:
    return f"record {record.topic()}/{record.partition()} at {record.offset()}"


def _micros(record: Message) -> int | None:
    kind, millis = record.timestamp()
    if not kind:
        return None
    if not _MILLIS_MIN <= millis <= _MILLIS_MAX:
        raise ValueError(f"{millis} ms since 1970 is not in the years 1 to 9999")
    return millis * 1000


def _headers(record: Message) -> list[dict[str, Any]] | None:
    given: Any = record.headers()
    return [{"key": key, "value": value} for key, value in given] if given else None
