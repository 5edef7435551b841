"""What is read of ranges, from the broker that librdkafka has inside; it knows no transactions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import confluent_kafka as kafka
import pyarrow as pa
import pytest
from attrs import define, field

from coordinators.values.attempt import TransactionAttempt
from trident_py.errors import FailedException, SpoutError
from trident_py.interfaces.collector import TridentCollector
from trident_py.spouts.kafka.cluster import Cluster, TopicIds
from trident_py.spouts.kafka.kafka import KafkaEmitter
from trident_py.spouts.kafka.ranges import OffsetRange, shared_out
from trident_py.spouts.kafka.reader import KafkaReader
from trident_py.spouts.kafka.values import ValueFormat

RECORDS = 100
PARTITIONS = 2


@pytest.fixture(scope="module")
def reader() -> Iterator[KafkaReader]:
    """Two partitions of a hundred records each; their values are ``partition:offset``."""
    producer = kafka.Producer({"bootstrap.servers": "", "test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = producer.list_topics(timeout=30).brokers.values()
    for partition in range(PARTITIONS):
        for offset in range(RECORDS):
            producer.produce("t", f"{partition}:{offset}", partition=partition)
    assert producer.flush(30) == 0
    options = {"bootstrap.servers": f"{broker.host}:{broker.port}", "log_level": 0}
    yield KafkaReader(options, ValueFormat.of("string", None, "fail"))
    producer.close()


def given(partition: int, start: int, end: int) -> OffsetRange:
    return OffsetRange("t", partition, start, end, "id")


def values_of(batches: Iterator[pa.RecordBatch]) -> list[str]:
    return [value for batch in batches for value in batch.column("value").to_pylist()]


def expected(*ranges: OffsetRange) -> list[str]:
    return [f"{each.partition}:{offset}" for each in ranges for offset in range(each.start, each.end)]


@define
class Emitted(TridentCollector):
    """What an emitter has read."""

    values: list[str] = field(factory=list)

    def emit(self, values: Any) -> None:
        raise AssertionError

    def report_error(self, error: BaseException) -> None:
        raise AssertionError

    def emit_splits(
        self, splits: Sequence[Any], read: Callable[[Any], Iterator[pa.RecordBatch]], **options: Any
    ) -> None:
        for split in splits:
            self.values += values_of(read(split))


def emitted(reader: KafkaReader, *ranges: OffsetRange) -> list[str]:
    collector = Emitted()
    emitter = KafkaEmitter(reader, TopicIds("records", Cluster(reader.options)), 2)
    emitter.emit_batch(TransactionAttempt(10, 1), [each.stored for each in ranges], collector)
    return collector.values


def test_a_batch_that_comes_again_has_exactly_its_records_though_the_topic_has_more(reader: KafkaReader) -> None:
    for _ in range(2):
        assert emitted(reader, given(0, 50, 60)) == expected(given(0, 50, 60))


@pytest.mark.parametrize("offset", [0, 60, RECORDS])
def test_an_empty_batch_that_comes_again_has_no_record(reader: KafkaReader, offset: int) -> None:
    assert emitted(reader, given(0, offset, offset)) == []
    beside = given(1, 7, 9)
    assert emitted(reader, given(0, offset, offset), beside) == expected(beside)


def test_pieces_of_a_batch_may_be_read_by_anybody_in_any_order_and_again(reader: KafkaReader) -> None:
    batch = [given(0, 10, 60), given(1, 0, 75)]
    pieces = shared_out(batch, 3)
    read: dict[int, list[str]] = {}

    def task(numbers: Sequence[int]) -> None:
        for number in numbers:
            read[number] = values_of(reader(pieces[number]))

    for given_out in ([0, 1, 2], [2, 1]):  # a task that was lost: others read its pieces
        thread = threading.Thread(target=task, args=(given_out,))
        thread.start()
        thread.join()
    task([1, 0])
    assert [value for number in sorted(read) for value in read[number]] == expected(*batch)


def test_a_range_whose_records_are_gone_is_an_error_and_not_what_comes_next(reader: KafkaReader) -> None:
    beyond = given(0, RECORDS + 5, RECORDS + 6)
    with pytest.raises(SpoutError, match="Kafka does not have these records any more"):
        list(reader([beyond]))
    assert values_of(reader([given(0, 0, 1)])) == expected(given(0, 0, 1))


def test_records_have_a_size(reader: KafkaReader) -> None:
    assert 3 <= reader.mean_bytes(given(0, 0, 10)) < 200
    assert reader.mean_bytes(given(0, 5, 5)) == 0


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        (kafka.KafkaError._TRANSPORT, FailedException),
        (kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED, SpoutError),
        (kafka.KafkaError.OFFSET_OUT_OF_RANGE, SpoutError),
        (9999, FailedException),
    ],
)
def test_what_kafka_raises_is_waited_for_or_stops_by_name(
    reader: KafkaReader, code: int, raised: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise kafka.KafkaException(kafka.KafkaError(code))

    with monkeypatch.context() as patched:
        patched.setattr("trident_py.spouts.kafka.reader._read", fail)
        with pytest.raises(raised, match=r"t/0 \[0, 5\)"):
            list(reader([given(0, 0, 5)]))
    assert values_of(reader([given(0, 0, 5)])) == expected(given(0, 0, 5))
