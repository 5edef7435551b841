"""Queries of a Kafka cluster about topics; the coordinator uses no other connection."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

import confluent_kafka as kafka
from attrs import define, field, frozen
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec  # type: ignore[attr-defined]

from trident_py.errors import FailedException, SpoutError
from trident_py.interfaces.verdict import Verdict
from trident_py.sinks.kafka.client_log import client_log
from trident_py.sinks.kafka.verdicts import Call, shown_error, verdict_of
from trident_py.spouts.kafka.ranges import OffsetRange, Partition

log = logging.getLogger(__name__)


GONE_SECONDS = 10.0
"""How long a topic may be missing before it counts as deleted: a broker that has just started may not know it yet."""


@define
class TopicIds:
    """Checks that the topics of one spout are still the same.

    Kafka gives each topic an id, and never the same id twice. So if a topic has the id of a batch after the records of
    the batch were read, the records are those that the batch was defined for.

    Attributes:
        spout: its name, for messages.
        cluster: the cluster of the topics.
        clock: returns monotonic seconds.
    """

    spout: str
    cluster: Cluster
    clock: Callable[[], float] = time.monotonic
    _missing: dict[str, float] = field(factory=dict, init=False)  # since when

    def verify(self, ranges: Collection[OffsetRange]) -> None:
        """Check that the topics of a batch are the same as in its definition, by a query of the cluster.

        Raises:
            SpoutError: a topic was deleted, or replaced by another topic of its name.
            FailedException: a topic is missing, or the cluster doesn't answer.
        """
        wanted = {(each.topic, each.topic_id) for each in ranges}
        try:
            with errors_of_spout(self.spout):
                found = self.cluster.described({name for name, _ in wanted})
        except KafkaException as error:
            self.cluster.close()  # after a disconnect, a client may not notice changes
            raise FailedException(
                f"spout {self.spout!r}: Kafka doesn't answer whether its topics are the same as when they were read: "
                f"{error}"
            ) from error
        self.check(wanted, found)

    def check(self, wanted: Iterable[tuple[str, str]], found: Mapping[str, Topic]) -> None:
        """Compare the topics that were read, by name and id, with the existing ones.

        Raises:
            SpoutError: a topic was deleted, or replaced by another topic of its name.
            FailedException: a topic is missing, perhaps only for a moment.
        """
        for name, topic_id in sorted(set(wanted)):
            if name in found:
                self._missing.pop(name, None)
                self._compare(name, topic_id, found[name].id)
            else:
                self._miss(name)

    def _compare(self, name: str, before: str, now: str) -> None:
        if before != now:
            raise SpoutError(
                f"spout {self.spout!r}: topic {name!r} was deleted and made again since it was read (its id was "
                f"{before}, and is {now}), so records of the first one can't be read any more; to fix this: `trident "
                f"reset` the topology to read the new topic"
            )

    def _miss(self, name: str) -> None:
        since = self._missing.setdefault(name, self.clock())
        what = f"spout {self.spout!r}: topic {name!r}, which was read before, is not there"
        if self.clock() - since < GONE_SECONDS:
            raise FailedException(f"{what} just now; if it stays missing, the topology stops")
        raise SpoutError(
            f"{what} any more: it was deleted, with any records that were not read, or the user that options= names "
            f"may not describe it any more; to fix this: give that user the right to describe the topic; or leave it "
            f"out of topics=, to continue without it; or `trident reset` the topology"
        )


TIMEOUT_SECONDS = 10.0
"""The timeout for an answer of the cluster."""

_GROUP = "group.id"


@frozen
class Topic:
    """One topic.

    Attributes:
        id: differs from the id of another topic of this name.
        partitions: their numbers.
    """

    name: str
    id: str
    partitions: tuple[int, ...]


Topics: TypeAlias = Collection[str] | re.Pattern[str]
"""Names of topics, or a pattern of them."""

K = TypeVar("K")

Answers: TypeAlias = Mapping[K, Future[Any]]
"""The answers of the cluster to a query that was sent, by what it is about."""


@frozen
class Look:
    """The state of the topics of a spout.

    Attributes:
        topics: by name.
        beginnings: the first available offset of each partition.
        ends: the last stable offset of each partition.
    """

    topics: Mapping[str, Topic]
    beginnings: Mapping[Partition, int]
    ends: Mapping[Partition, int]


@define
class Cluster:
    """A cluster with its own clients, which are made at their first use.

    Attributes:
        options: librdkafka's options, including ``bootstrap.servers``.
    """

    options: Mapping[str, Any]
    _admin: AdminClient | None = field(default=None, init=False)
    _consumer: kafka.Consumer | None = field(default=None, init=False)

    @property
    def client(self) -> AdminClient:
        """The client for queries."""
        if self._admin is None:
            given = {name: value for name, value in self.options.items() if name != _GROUP}
            self._admin = AdminClient(given, logger=client_log)
        return self._admin

    @property
    def consumer(self) -> kafka.Consumer:
        """The client that commits offsets and finds committed ones; it reads no records, and joins no group."""
        if self._consumer is None:
            given = {_GROUP: "trident", **self.options, "enable.auto.commit": False}
            self._consumer = kafka.Consumer(given, logger=client_log)
        return self._consumer

    def look(self, wanted: Topics, expected: Collection[Partition]) -> Look:
        """Return the existing topics of ``wanted``, and the offsets of their partitions.

        All queries are sent at once, and those of offsets again if the partitions are not the ``expected`` ones.
        """
        described = self._described(self._names(wanted))
        first, last = self._asked(expected, OffsetSpec.earliest()), self._asked(expected, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        topics = _topics(described)
        found = {(topic.name, number) for topic in topics.values() for number in topic.partitions}
        if found == set(expected):
            return Look(topics, _offsets(first), _offsets(last))
        return Look(topics, self.beginnings(found), self.ends(found))

    def topics(self, wanted: Topics) -> dict[str, Topic]:
        """Return the existing topics of ``wanted``."""
        return self.described(self._names(wanted))

    def find_topic_ids(self, wanted: Topics, spout: str) -> dict[str, str]:
        """Return the ids of the existing topics of ``wanted``, by name.

        Raises:
            SpoutError: the cluster doesn't answer, or refuses; names ``spout``.
        """
        try:
            with errors_of_spout(spout):
                return {topic.name: topic.id for topic in self.topics(wanted).values()}
        except KafkaException as error:
            raise SpoutError(f"spout {spout!r}: Kafka doesn't answer: {error}", spout=spout) from error

    def described(self, names: Collection[str]) -> dict[str, Topic]:
        """Return the existing topics with these names."""
        return _topics(self._described(names))

    def _names(self, wanted: Topics) -> Collection[str]:
        self.client.poll(0)  # it logs then
        if not isinstance(wanted, re.Pattern):
            return wanted  # one that may not be described isn't listed, and is an error by its name
        listed = self.client.list_topics(timeout=TIMEOUT_SECONDS).topics
        return [name for name in listed if wanted.fullmatch(name)]

    def _described(self, names: Collection[str]) -> Answers[str]:
        if not names:
            return {}
        return self.client.describe_topics(kafka.TopicCollection(list(names)), request_timeout=TIMEOUT_SECONDS)

    def compacted(self, topics: Collection[str]) -> list[str]:
        """Return the compacted topics: Kafka may remove single records of them, so that a range changes."""
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in topics]
        if not resources:
            return []
        answers = self.client.describe_configs(resources, request_timeout=TIMEOUT_SECONDS)
        told = {resource.name: answer.result()["cleanup.policy"].value for resource, answer in answers.items()}
        return sorted(name for name, policy in told.items() if "compact" in policy)

    def has_compacted(self, wanted: Topics) -> bool | None:
        """Return whether one of the ``wanted`` topics is compacted; None: the cluster doesn't answer."""
        try:
            return bool(self.compacted(self.topics(wanted)))
        except kafka.KafkaException as error:
            log.warning("Kafka doesn't tell whether topics are compacted: %s", error)
            return None

    def ends(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the last stable offset of each partition: the end of records that no open transaction holds back."""
        return self._offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def beginnings(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the first available offset of each partition."""
        return self._offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def at(self, moment: datetime, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the offset of each partition's first record at or after ``moment``; without one, its end."""
        found = self._offsets(partitions, OffsetSpec.for_timestamp(int(moment.timestamp() * 1000)))
        missing = [each for each, offset in found.items() if offset < 0]
        return {**found, **self.ends(missing)}

    def committed(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the offsets that the group of the options has committed; partitions without one are left out."""
        asked = [kafka.TopicPartition(*each) for each in partitions]
        told = self.consumer.committed(asked, timeout=TIMEOUT_SECONDS)
        return {(each.topic, each.partition): each.offset for each in told if each.offset >= 0}

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit offsets for the group of the options. Only Kafka's own tools use them."""
        given = [kafka.TopicPartition(*partition, offset) for partition, offset in offsets.items()]
        try:
            self.consumer.commit(offsets=given, asynchronous=False)
        except kafka.KafkaException as error:
            log.warning("offsets could not be committed for group %r: %s", self.options.get(_GROUP), error)
        self.consumer.poll(0)  # it logs then; there is nothing that it reads

    def close(self) -> None:
        """Close the clients."""
        if self._admin is not None:
            self._admin.poll(0)  # it logs then
        if self._consumer is not None:
            self._consumer.poll(0)
            self._consumer.close()
        self._admin = self._consumer = None

    def _offsets(self, partitions: Collection[Partition], spec: OffsetSpec) -> dict[Partition, int]:
        return _offsets(self._asked(partitions, spec))

    def _asked(self, partitions: Collection[Partition], spec: OffsetSpec) -> Answers[kafka.TopicPartition]:
        if not partitions:
            return {}
        return self.client.list_offsets(
            {kafka.TopicPartition(*each): spec for each in partitions},
            isolation_level=kafka.IsolationLevel.READ_COMMITTED,
            request_timeout=TIMEOUT_SECONDS,
        )


def _topics(answers: Answers[str]) -> dict[str, Topic]:
    found: dict[str, Topic] = {}
    for name, answer in answers.items():
        try:
            told = answer.result()
        except kafka.KafkaException as error:
            if error.args[0].code() == kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
                continue  # it was deleted just now
            raise
        found[name] = Topic(name, str(told.topic_id), tuple(sorted(each.id for each in told.partitions)))
    return found


def _offsets(answers: Answers[kafka.TopicPartition]) -> dict[Partition, int]:
    return {(each.topic, each.partition): answer.result().offset for each, answer in answers.items()}


def is_wanted(name: str, wanted: Topics) -> bool:
    """Return whether ``wanted`` includes or matches the name of a topic."""
    return bool(wanted.fullmatch(name)) if isinstance(wanted, re.Pattern) else name in wanted


@contextmanager
def errors_of_spout(spout: str) -> Iterator[None]:
    """Convert errors of the block: raise SpoutError for permanent ones, and KafkaException for temporary ones."""
    try:
        yield
    except kafka.KafkaException as error:
        if verdict_of(Call.READ, error.args[0]) is Verdict.NEVER:
            raise SpoutError(f"spout {spout!r}: Kafka refuses: {shown_error(error.args[0])}") from error
        raise
