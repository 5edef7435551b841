"""Topics of a benchmark's own on one broker: records that become visible at one moment, and what readers see."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import count, islice

import confluent_kafka as kafka
from attrs import define, field, frozen
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

CHUNK_RECORDS = 10_000
SECONDS_MAX = 60.0
POLL_SECONDS = 0.002

_numbers = count()


@frozen
class Topics:
    """A broker's.

    Attributes:
        servers: its address.
        admin: who makes topics.
    """

    servers: str
    admin: AdminClient

    def new(self, partitions: int) -> Topic:
        """Make an empty one."""
        name = f"benchmark-{next(_numbers)}"
        self.admin.create_topics([NewTopic(name, partitions, 1)])[name].result()
        return Topic(self, name, partitions)


@define(eq=False)
class Topic:
    """One topic."""

    topics: Topics
    name: str
    partitions: int
    _producer: kafka.Producer | None = field(default=None, init=False)

    @property
    def _transactional(self) -> kafka.Producer:
        if self._producer is None:
            given = {"bootstrap.servers": self.topics.servers, "transactional.id": self.name, "log_level": 0}
            more = {"linger.ms": 20, "queue.buffering.max.messages": 2_000_000}
            self._producer = kafka.Producer({**given, **more, "queue.buffering.max.kbytes": 1_000_000})
            self._producer.init_transactions(SECONDS_MAX)
        return self._producer

    def load(self, values: Iterable[bytes]) -> None:
        """Send values to all partitions, in a transaction that stays open: nobody sees them yet."""
        producer, left, numbers = self._transactional, iter(values), count()
        producer.begin_transaction()
        while chunk := [{"value": value} for value in islice(left, CHUNK_RECORDS)]:
            for partition in range(self.partitions):
                part = chunk[partition :: self.partitions]
                sent = producer.produce_batch(self.name, part, partition=partition) if part else 0
                assert sent == len(part), f"{sent} of {len(part)}"
            producer.poll(0)
            if next(numbers) % 10 == 9:
                producer.flush(SECONDS_MAX)
        assert producer.flush(SECONDS_MAX) == 0

    def show(self) -> None:
        """Commit what was loaded; it is stable when this returns."""
        self._transactional.commit_transaction(SECONDS_MAX)
        deadline = time.monotonic() + SECONDS_MAX
        while self.ends(kafka.IsolationLevel.READ_COMMITTED) != self.ends(kafka.IsolationLevel.READ_UNCOMMITTED):
            assert time.monotonic() < deadline
            time.sleep(POLL_SECONDS)

    def ends(self, isolation: kafka.IsolationLevel = kafka.IsolationLevel.READ_COMMITTED) -> dict[int, int]:
        """Return the last offsets, by partition."""
        asked = {kafka.TopicPartition(self.name, each): OffsetSpec.latest() for each in range(self.partitions)}  # type: ignore[no-untyped-call]
        answers = self.topics.admin.list_offsets(asked, isolation_level=isolation)
        return {each.partition: answer.result().offset for each, answer in answers.items()}

    def latest_by_key(self) -> Mapping[bytes, bytes]:
        """Read all that is committed: the last value of each key."""
        given = {"bootstrap.servers": self.topics.servers, "group.id": self.name, "enable.partition.eof": True}
        found: dict[bytes, bytes] = {}
        ended = 0
        with closing(kafka.Consumer({**given, "log_level": 0})) as consumer:
            consumer.assign([kafka.TopicPartition(self.name, each, 0) for each in range(self.partitions)])
            while ended < self.partitions:
                for message in consumer.consume(CHUNK_RECORDS, 1.0):
                    if message.error() is None:
                        found[message.key() or b""] = message.value() or b""
                    else:
                        ended += 1
        return found


@contextmanager
def topics_of(servers: str) -> Iterator[Topics]:
    """Give the topics of a broker."""
    yield Topics(servers, AdminClient({"bootstrap.servers": servers, "log_level": 0}))
