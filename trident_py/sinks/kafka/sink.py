"""`KafkaSink`: each transaction one of Kafka's."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as t

from coordinators.values.canonical import Json
from trident_py.errors import ConfigError, TopologyError
from trident_py.interfaces.sinks import CommitToken, RowsSink, SinkTransaction, TopologyKey
from trident_py.rows.schema import shown
from trident_py.sinks.kafka.records import TOPIC_RULE, check_fields, check_rows, is_topic_name
from trident_py.sinks.kafka.staging import StagedRows
from trident_py.spark.frames import rows_of_frame

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_OURS = ("transactional.id", "bootstrap.servers", "enable.idempotence")


class KafkaSink(RowsSink[StagedRows]):
    """Sends each transaction to Kafka, in one transaction of Kafka's in which the commit token is, too.

    Consumers with ``isolation.level=read_committed`` see whole transactions, each once; the rows of a batch keep their
    order in each partition. The process that leads sends; what it has committed is in a small topic of the sink's own.
    The page `docs/how-to/kafka.md` says how to look after it.

    The stream must give the same rows again when a transaction is replayed, so no spout of it may be opaque.

    Rows have a field ``value`` (binary, or string as UTF-8), and where there are any ``key`` (the same), ``topic``,
    ``partition``, ``headers`` (``array<struct<key string, value binary>>``) and ``timestamp``; no others.

    Args:
        bootstrap_servers: ``"host:port,…"``, or several of them.
        topic: of rows without a ``topic``. It names the sink: a topology has one for each topic, and one for None.
        options: librdkafka's, such as ``security.protocol``; never printed.

    Raises:
        TopologyError: an argument that can't work.
        ConfigError: confluent-kafka is not installed.
    """

    needs_exact_replays = True

    def __init__(
        self,
        bootstrap_servers: str | Collection[str],
        topic: str | None = None,
        *,
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
        self._transactions = KafkaTransactions({**(options or {}), "bootstrap.servers": servers}, topic)

    def __repr__(self) -> str:
        return f"KafkaSink({self._servers!r}, {self._topic!r})"

    def details(self) -> Mapping[str, Json]:
        """Return where it writes; that the transactions have moved there, too, is seen at the start."""
        return {"topic": self._topic or "that of each row"}

    def check_fields(self, fields: t.StructType) -> None:
        """See whether rows of these fields can be records."""
        check_fields(fields, self._topic)

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        """Have Kafka fence older leaders and settle what they had open; then see what is committed."""
        return self._transactions.recover(topology, epoch)

    def prepare(self, tx: SinkTransaction, frame: DataFrame) -> StagedRows:
        """Have Spark compute the rows, and keep them."""
        return self.keep(tx, rows_of_frame(frame))

    def keep(self, tx: SinkTransaction, rows: pa.Table) -> StagedRows:
        """Look at them, and keep them in memory or in a file."""
        check_rows(rows, self._topic)
        return StagedRows.of(rows)

    def receipt_rows(self, receipt: StagedRows) -> int:
        """Count the rows."""
        return receipt.count

    def commit(self, tx: SinkTransaction, receipt: StagedRows) -> None:
        """Send them with the token, in one transaction; one that is there already stays."""
        self._transactions.commit(tx, receipt)
        receipt.discard()

    def abort(self, tx: SinkTransaction, receipt: StagedRows | None) -> None:
        """Let the rows go."""
        if receipt is not None:
            receipt.discard()

    def close(self) -> None:
        """End the producer: its threads and connections would stay until the sink is collected as garbage."""
        self._transactions.close()
