"""The topic in which a sink keeps its token: made, checked, and read from its end."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Self

import confluent_kafka as kafka
from attrs import define, field, frozen
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
)

from trident_py.errors import SinkError, StoreBusyException
from trident_py.sinks.kafka.client_log import client_log
from trident_py.sinks.token import LeaderToken

KEY = b"token"
"""The key of each record, so that a compacted topic keeps the last one."""
_NAME_CHARS_MAX = 100


@frozen(kw_only=True)
class KafkaToken(LeaderToken):
    """One record of the token topic."""

    @property
    def leadership(self) -> tuple[int, int]:
        """A pair that is greater for a newer leader: incarnation and epoch."""
        return self.incarnation, self.fence

    @classmethod
    def parse(cls, stored: bytes) -> Self:
        """Return the token in the value of a record.

        Raises:
            SinkError: the value is not a token of this library.
        """
        try:
            return cls.of(json.loads(stored))
        except (ValueError, KeyError, TypeError) as error:
            raise SinkError(f"the token {stored!r} is not a token of this library ({error!r})") from error

    def stored(self) -> bytes:
        """Return the token as the value of a record."""
        return json.dumps(self.numbers()).encode()


def transactional_id(uuid: str, topic: str | None) -> str:
    """Return the id by which Kafka fences a sink's producers: the same for all leaders, even after a reset."""
    return f"trident-{uuid}-{topic or ''}"


def token_topic(topology: str, uuid: str, topic: str | None) -> str:
    """Return the name of the token topic of a sink."""
    readable = re.sub(r"[^a-zA-Z0-9_-]", "-", f"{topology}-{topic or 'rows'}")[:_NAME_CHARS_MAX]
    return f"_trident-{readable}-{hashlib.sha256(transactional_id(uuid, topic).encode()).hexdigest()[:12]}"


TIMEOUT_SECONDS = 20.0
"""The timeout for an answer of the cluster."""
FIRST_REACH = 64
"""The number of offsets at the end of the topic to read first; more are needed only before a compaction."""
_CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "segment.ms": str(60 * 60 * 1000),
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": "60000",
}
_BROKERS_REPLICATION = -1
_LEADER_COMES = {
    kafka.KafkaError.NOT_LEADER_FOR_PARTITION,
    kafka.KafkaError.LEADER_NOT_AVAILABLE,
    kafka.KafkaError.UNKNOWN_LEADER_EPOCH,
}
"""The controller may name the leader of a new topic before that broker knows it."""
_PAUSE_SECONDS = 0.05
_READING = {
    "group.id": "trident",
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",
    "fetch.wait.max.ms": 10,
}


@define(eq=False)
class TokenTopic:
    """A topic of one partition, to which only one sink writes.

    Use an object for one look only: librdkafka's client for offsets does not notice that a broker was restarted.

    Attributes:
        options: librdkafka's options, including ``bootstrap.servers``.
        name: the topic's name.
    """

    options: Mapping[str, Any] = field(repr=False)
    name: str
    _admin: AdminClient | None = field(default=None, init=False)

    @property
    def client(self) -> AdminClient:
        """The client for queries."""
        if self._admin is None:
            self._admin = AdminClient(dict(self.options), logger=client_log)
        return self._admin

    def ensure(self) -> None:
        """Make the topic if it does not exist.

        Raises:
            SinkError: the topic would lose the token in time.
        """
        try:
            there = self._is_there()
        finally:
            self.client.poll(0)  # it logs then
        if not there:
            new = NewTopic(self.name, 1, _BROKERS_REPLICATION, config=_CONFIG)
            try:
                self.client.create_topics([new], request_timeout=TIMEOUT_SECONDS)[self.name].result()
            except kafka.KafkaException as error:
                if error.args[0].code() != kafka.KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
            self._await(self._is_there, "it was made, and has no leader yet")
        asked = ConfigResource(ConfigResource.Type.TOPIC, self.name)
        told = self.client.describe_configs([asked], request_timeout=TIMEOUT_SECONDS)[asked].result()
        if (policy := told["cleanup.policy"].value) != "compact":
            raise SinkError(
                f"topic {self.name!r} has cleanup.policy={policy}, by which Kafka will remove the token in it; to fix "
                f"this: set cleanup.policy=compact"
            )

    def await_settled(self) -> None:
        """Wait until no transaction holds back records of the topic: its markers follow after its acknowledgement.

        Raises:
            StoreBusyException: a transaction still holds records back.
        """
        self._await(
            lambda: self._offset(stable=True) == self._offset(stable=False),
            "a transaction that was ended holds it back, as its marker isn't there yet; if it never comes (a broker "
            "was killed right after a commit), see 'Hanging transactions' in docs/how-to/kafka.md",
        )

    def read(self) -> bytes | None:
        """Return the value of the last committed record; None: the topic has no record.

        Raises:
            StoreBusyException: the cluster doesn't return it.
        """
        begin, end, reach = self._offset(OffsetSpec.earliest()), self._offset(), FIRST_REACH  # type: ignore[no-untyped-call]
        if begin >= end:
            return None
        consumer = kafka.Consumer({**self.options, **_READING}, logger=client_log)
        try:
            while True:
                start = max(begin, end - reach)
                found = self._last(consumer, start, end)
                if found is not None or start == begin:
                    return found
                reach *= 16
        finally:
            consumer.close()

    def _last(self, consumer: kafka.Consumer, start: int, end: int) -> bytes | None:
        consumer.assign([kafka.TopicPartition(self.name, 0, start)])
        found, deadline = None, time.monotonic() + TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            error = message.error() if message else None
            is_end = error is not None and error.code() == kafka.KafkaError._PARTITION_EOF  # noqa: SLF001 - its name
            if message is None or (error and not is_end):
                continue  # the client tries again by itself
            if not is_end and message.key() == KEY:
                found = message.value()
            if (message.offset() or 0) + (not is_end) >= end:
                return found
        raise StoreBusyException(f"the cluster doesn't return topic {self.name!r} from {start} to {end}")

    def _is_there(self) -> bool:
        asked = kafka.TopicCollection([self.name])
        try:
            told = self.client.describe_topics(asked, request_timeout=TIMEOUT_SECONDS)[self.name].result()
        except kafka.KafkaException as error:
            if error.args[0].code() != kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            return False
        return all(each.leader is not None for each in told.partitions)

    def _await(self, is_so: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not is_so():
            if time.monotonic() > deadline:
                raise StoreBusyException(f"topic {self.name!r}: {otherwise}")
            time.sleep(_PAUSE_SECONDS)

    def _offset(self, spec: OffsetSpec | None = None, *, stable: bool = True) -> int:
        level = kafka.IsolationLevel.READ_COMMITTED if stable else kafka.IsolationLevel.READ_UNCOMMITTED
        partition = kafka.TopicPartition(self.name, 0)
        wanted = spec or OffsetSpec.latest()  # type: ignore[no-untyped-call]
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            limits = {"isolation_level": level, "request_timeout": TIMEOUT_SECONDS}
            asked = self.client.list_offsets({partition: wanted}, **limits)
            try:
                return int(asked[partition].result().offset)
            except kafka.KafkaException as error:
                if error.args[0].code() not in _LEADER_COMES or time.monotonic() > deadline:
                    raise
            self._admin = None  # a client may keep the leader that it knows
            time.sleep(_PAUSE_SECONDS)
