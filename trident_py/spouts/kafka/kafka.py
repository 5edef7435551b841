"""Records of Kafka topics; confluent-kafka is imported only when it is needed."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql.types import StructType

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Json
from trident_py.errors import ConfigError, TopologyError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import TopologyContext
from trident_py.interfaces.spouts import Emitter, ITridentSpout, Replay
from trident_py.rows.schema import shown
from trident_py.spouts.kafka.ranges import OffsetRange, StoredRange, shared_out
from trident_py.spouts.kafka.reader import KafkaReader, fields_of
from trident_py.spouts.kafka.values import ValueFormat, decoder_of

if TYPE_CHECKING:
    from trident_py.spouts.kafka.cluster import Cluster, TopicIds, Topics
    from trident_py.spouts.kafka.coordinator import KafkaCoordinator, Start

BATCH_RECORDS_MAX = 500_000
BATCH_BYTES_MAX = 64 * 1024 * 1024
SMALL_RECORDS = 2_000
"""The maximum number of records in a batch that the driver reads itself; then it can share a Spark job with others."""


class KafkaSpout(ITridentSpout[list[StoredRange]]):
    """Emits the records of Kafka topics: ``[from, to)`` of each partition, up to the last stable offset.

    Records of aborted transactions are left out, and records that an open transaction holds back are read later. A
    batch is exact as long as Kafka keeps its records. If a topic is compacted (`cleanup.policy`), it isn't, and the
    spout is opaque. The spout queries the cluster for this when it is needed. If a topic is compacted later, the
    topology stops with an error that names it. The same happens if records expire before they were read, or if a topic
    was cut, or deleted and made again.

    Rows have the fields of Spark's own source: ``key binary, value binary, topic string, partition int, offset bigint,
    timestamp timestamp, headers array<struct<key string, value binary>>``.

    Args:
        bootstrap_servers: ``"host:port,…"``, or several of them.
        topics: a name, a list of names, or a compiled pattern that a whole name must match. Partitions and topics that
            appear later are read from their first record on.
        start: the beginning of the first batch of all: ``"earliest"``, ``"latest"``, ``"committed"`` (the offsets that
            ``group_id`` has committed), a `datetime`, or offsets by ``(topic, partition)``. Partitions without an
            offset begin at the earliest.
        max_records_per_batch: of all partitions together.
        max_bytes_per_batch: the same in bytes, as estimated from some of the records.
        group_id: the group for which the offsets of each batch are committed once it has succeeded, for Kafka's tools.
        value: the format of ``value``: ``"binary"``, ``"string"`` (UTF-8), ``"json"`` or ``"avro"``. JSON is an object
            with the fields of ``schema``. Avro is one value of the Avro schema ``schema``, with nothing before or after
            it, unless there is a ``registry``.
        schema: for JSON the fields, as DDL or a StructType; JSON has dates, timestamps and decimals as text. For Avro
            the schema's own JSON text.
        on_decode_error: the treatment of a value that is not in this format. With ``"fail"``, the topology ends, and
            names it. With ``"null"``, it is NULL. With ``"skip"``, its record is left out. With ``"quarantine"``, the
            record is a dead letter.
        registry: the URL of a schema registry, if Avro values begin with the id of the schema with which they were
            written, as Confluent's serializers write them. They are converted to ``schema``. The URL is never printed.
        options: librdkafka's options, such as ``security.protocol``; never printed.

    Raises:
        TopologyError: an argument can't work.
        ConfigError: confluent-kafka, or fastavro for Avro, is not installed.
    """

    gives_again: ClassVar[bool] = True
    partition_fields: ClassVar[Sequence[str]] = ("topic", "partition")

    in_order: ClassVar[bool] = False  # but those of a partition

    def __init__(
        self,
        bootstrap_servers: str | Collection[str],
        topics: str | Collection[str] | re.Pattern[str],
        *,
        start: str | datetime | Mapping[tuple[str, int], int] = "earliest",
        max_records_per_batch: int = BATCH_RECORDS_MAX,
        max_bytes_per_batch: int = BATCH_BYTES_MAX,
        group_id: str | None = None,
        value: str = "binary",
        schema: str | StructType | None = None,
        on_decode_error: str = "fail",
        registry: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        servers = bootstrap_servers if isinstance(bootstrap_servers, str) else ",".join(bootstrap_servers)
        self._servers = servers
        self._topics: Topics = topics if isinstance(topics, re.Pattern) else _names(topics)
        self._start: Start = _checked_start(start, group_id)
        for name, limit in (("records", max_records_per_batch), ("bytes", max_bytes_per_batch)):
            if type(limit) is not int or limit < 1:
                raise TopologyError(f"max_{name}_per_batch must be a whole number of at least 1, not {shown(limit)}")
        self._records_max, self._bytes_max = max_records_per_batch, max_bytes_per_batch
        self._group = group_id
        self._values = ValueFormat.of(value, schema, on_decode_error, registry)
        self.decoder = decoder_of(self._values, fields_of)
        group = {"group.id": group_id} if group_id else {}
        self._options = {**(options or {}), **group, "bootstrap.servers": servers}
        self._replay: Replay | None = None
        self._cluster()

    def __repr__(self) -> str:
        return f"KafkaSpout({self._servers!r}, {self._shown_topics!r})"

    @property
    def output_schema(self) -> StructType:  # type: ignore[override]
        """The fields of Spark's own source, except for the type of the value."""
        return fields_of(self._values)

    @property
    def replay(self) -> Replay:  # type: ignore[override]
        """Opaque if a topic is compacted, else exact.

        It is exact, too, if the cluster doesn't answer. Then a compacted topic stops the topology by name.
        """
        if self._replay is None:
            with closing(self._cluster()) as cluster:
                compacted = cluster.has_compacted(self._topics)
            self._replay = Replay.OPAQUE if compacted else Replay.EXACT
        return self._replay

    def details(self) -> Mapping[str, Json]:
        """Return the topics; if they change, a removed one is ignored, and a new one is read from its beginning."""
        return {"topics": self._shown_topics}

    @property
    def _shown_topics(self) -> str:
        return self._topics.pattern if isinstance(self._topics, re.Pattern) else ", ".join(self._topics)

    def find_topic_ids(self, tx_id: str) -> Mapping[str, str]:
        """Return the ids of the topics that it reads, by name.

        Raises:
            SpoutError: the cluster doesn't answer, or refuses; names ``tx_id``.
        """
        with closing(self._cluster()) as cluster:
            return cluster.find_topic_ids(self._topics, tx_id)

    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> KafkaCoordinator:
        """Return a coordinator that looks for records."""
        from trident_py.spouts.kafka.coordinator import KafkaCoordinator, Limits

        return KafkaCoordinator(
            name=tx_state_id,
            cluster=self._cluster(),
            topics=self._topics,
            start=self._start,
            is_exact=self.replay is Replay.EXACT,
            limits=Limits(records=self._records_max, bytes=self._bytes_max),
            commits=self._group is not None,
            mean_bytes=self._reader.mean_bytes,
        )

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> KafkaEmitter:
        """Return an emitter that reads in Spark tasks."""
        from trident_py.spouts.kafka.cluster import TopicIds

        return KafkaEmitter(self._reader, TopicIds(tx_state_id, self._cluster()), context.parallelism)

    @property
    def _reader(self) -> KafkaReader:
        return KafkaReader(self._options, self._values)

    def _cluster(self) -> Cluster:
        try:
            from trident_py.spouts.kafka.cluster import Cluster
        except ImportError as error:
            raise ConfigError(f"KafkaSpout needs confluent-kafka ({error}): pip install 'trident-py[kafka]'") from error
        return Cluster(self._options)


class KafkaEmitter(Emitter[list[StoredRange]]):
    """Divides a batch into about as many pieces as there are parallel tasks."""

    def __init__(self, reader: KafkaReader, ids: TopicIds, tasks: int) -> None:
        self._reader, self._ids, self._tasks = reader, ids, tasks

    def emit_batch(self, attempt: TransactionAttempt, metadata: list[StoredRange], collector: TridentCollector) -> None:
        """Emit the records of the ranges, if their topics are still the same after they were read.

        Raises:
            SpoutError: a topic was deleted, or replaced by another topic of its name.
        """
        ranges = [OffsetRange.parse(stored) for stored in metadata]
        is_small = sum(each.size for each in ranges) <= SMALL_RECORDS
        splits = shared_out(ranges, 1 if is_small else self._tasks)
        collector.emit_splits(splits, self._reader, on_driver=is_small, verify=partial(self._ids.verify, ranges))

    def close(self) -> None:
        """Close the cluster's clients."""
        self._ids.cluster.close()


def _names(topics: str | Collection[str]) -> tuple[str, ...]:
    names = (topics,) if isinstance(topics, str) else tuple(topics)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise TopologyError(f"topics are a name, a list of names or a compiled pattern, not {shown(topics)}")
    return names


def _checked_start(start: object, group_id: str | None) -> Start:
    if start == "committed" and group_id is None:
        raise TopologyError("start='committed' needs group_id=, the group of the offsets")
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise TopologyError(f"start={start!r} has no time zone; to fix this: give it one, such as datetime.UTC")
        return start
    if isinstance(start, Mapping):
        return {(str(topic), int(partition)): int(offset) for (topic, partition), offset in start.items()}
    if isinstance(start, str) and start in {"earliest", "latest", "committed"}:
        return start
    raise TopologyError(
        f"start is 'earliest', 'latest', 'committed', a datetime, or offsets by (topic, partition), not {shown(start)}"
    )
