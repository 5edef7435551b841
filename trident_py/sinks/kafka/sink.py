"""`KafkaSink`: sends each transaction in one transaction of Kafka's."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as t

from coordinators.values.canonical import Json
from trident_py.errors import ConfigError, TopologyError
from trident_py.interfaces.sinks import CommitToken, RowsSink, SinkTransaction, TopologyKey
from trident_py.rows.schema import shown
from trident_py.sinks.kafka.avro_values import AvroValues
from trident_py.sinks.kafka.records import TOPIC_RULE, check_fields, check_rows, is_topic_name
from trident_py.sinks.kafka.staging import StagedRows
from trident_py.spark.frames import rows_of_frame

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_OURS = ("transactional.id", "bootstrap.servers", "enable.idempotence")


class KafkaSink(RowsSink[StagedRows]):
    """Sends each transaction to Kafka, in a transaction of Kafka's that also contains the commit token.

    Small transactions that are ready at the same time are sent together. Consumers with
    ``isolation.level=read_committed`` see whole transactions, each once; the rows of a batch keep their order in each
    partition. The leader's process sends; its last commit is in a small topic of the sink. The page
    `docs/how-to/kafka.md` says how to maintain it.

    The stream must return the same rows when a transaction is replayed, so no spout of it may be opaque.

    Rows have a field ``value`` (binary, or string as UTF-8; with a ``schema``, of that type). They may have ``key``
    (binary or string), ``topic``, ``partition``, ``headers`` (``array<struct<key string, value binary>>``) and
    ``timestamp``, but no other fields.

    Args:
        bootstrap_servers: ``"host:port,…"``, or several of them.
        topic: the topic of rows without a ``topic``. It names the sink: a topology has at most one sink for each topic,
            and one for None.
        schema: the Avro schema of values, as JSON text, if they are written in Avro for a schema registry. They begin
            with the id of the schema, as Confluent's serializers write them. NULL is a tombstone.
        registry: the URL of that registry, where the schema is registered for the subject ``<topic>-value``; never
            printed.
        options: librdkafka's options, such as ``security.protocol``; never printed.

    Raises:
        TopologyError: an argument can't work.
        ConfigError: confluent-kafka is not installed.
    """

    needs_exact_replays = True
    takes_groups = True

    def __init__(
        self,
        bootstrap_servers: str | Collection[str],
        topic: str | None = None,
        *,
        schema: str | None = None,
        registry: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        try:
            from trident_py.sinks.kafka.transactions import KafkaTransactions
        except ImportError as error:
            raise ConfigError(f"KafkaSink needs confluent-kafka ({error}): pip install 'trident-py[kafka]'") from error
        servers = bootstrap_servers if isinstance(bootstrap_servers, str) else ",".join(bootstrap_servers)
        if not servers:
            raise TopologyError("bootstrap_servers are 'host:port', or several of them, not none")
        if topic is not None and (not isinstance(topic, str) or not is_topic_name(topic)):
            raise TopologyError(f"a topic is a name, not {shown(topic)}; {TOPIC_RULE}")
        if taken := [name for name in _OURS if name in (options or {})]:
            raise TopologyError(f"options can't have {taken[0]!r}: the sink sets it")
        self._servers, self._topic = servers, topic
        self._avro = AvroValues.of(topic, schema, registry) if schema is not None or registry is not None else None
        self._transactions = KafkaTransactions({**(options or {}), "bootstrap.servers": servers}, topic)

    def __repr__(self) -> str:
        return f"KafkaSink({self._servers!r}, {self._topic!r})"

    def details(self) -> Mapping[str, Json]:
        """Return the topic; whether the transactions were moved there, too, is checked at the start."""
        return {"topic": self._topic or "that of each row"}

    def check_fields(self, fields: t.StructType) -> None:
        """Check that rows of these fields can be records."""
        check_fields(self._avro.encoded_fields(fields) if self._avro else fields, self._topic)

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        """Let Kafka fence older leaders and end their open transactions; then return the last commit."""
        return self._transactions.recover(topology, epoch)

    def prepare(self, tx: SinkTransaction, frame: DataFrame) -> StagedRows:
        """Compute the rows by Spark, and keep them."""
        return self.keep(tx, rows_of_frame(frame))

    def keep(self, tx: SinkTransaction, rows: pa.Table) -> StagedRows:
        """Check the rows, and keep them in memory or in a file."""
        if self._avro:
            rows = self._avro.encoded(rows)
        check_rows(rows, self._topic)
        return StagedRows.of(rows)

    def receipt_rows(self, receipt: StagedRows) -> int:
        """Return the number of rows."""
        return receipt.count

    def commit(self, tx: SinkTransaction, receipt: StagedRows) -> None:
        """Send the rows with the token, in one transaction; skip a transaction that is already committed."""
        self.commit_group([(tx, receipt)])

    def commit_group(self, group: Sequence[tuple[SinkTransaction, StagedRows]]) -> None:
        """Send the rows of several transactions in one transaction of Kafka's, with the token of the last one."""
        self._transactions.commit(group)
        for _, receipt in group:
            receipt.discard()

    def can_park(self, tx: SinkTransaction) -> bool:
        """Return whether the topic has no row of ``tx.txid`` and later ones: records can't be taken back."""
        return tx.leaves_nothing(self._transactions.last())

    def abort(self, tx: SinkTransaction, receipt: StagedRows | None) -> None:
        """Discard the rows."""
        if receipt is not None:
            receipt.discard()

    def close(self) -> None:
        """Close the producer: its threads and connections would stay until the sink is garbage-collected."""
        self._transactions.close()
