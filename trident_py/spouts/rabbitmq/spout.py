"""`RabbitMQSpout`: the messages of a queue, each spooled before it is acknowledged."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from attrs import define

from coordinators.values.canonical import Json
from coordinators.values.secret import as_secret
from trident_py.errors import ConfigError, TopologyError
from trident_py.interfaces.config import TridentConfig, seconds
from trident_py.interfaces.context import TopologyContext
from trident_py.interfaces.spouts import ITridentSpout
from trident_py.rows.schema import schema_of
from trident_py.sinks.files.local_path import local_path
from trident_py.spouts.rabbitmq.messages import FIELDS, MessageRows
from trident_py.spouts.spool.batches import (
    SpoolBatch,
    SpoolCoordinator,
    SpoolEmitter,
    ensure_same_spool,
    spool_directory,
)
from trident_py.spouts.spool.files import SpoolDirectory
from trident_py.spouts.spool.spool import Spool, SpoolLimits

if TYPE_CHECKING:
    from trident_py.spouts.rabbitmq.consumer import QueueConsumer

PREFETCH = 1_000


class RabbitMQSpout(ITridentSpout[SpoolBatch]):
    """Emits the messages of a queue. Other consumers of the queue receive other messages.

    A message is acknowledged once it is on the disk, in files that every later leader reads. So each message counts
    once, if its publisher has given it a ``message_id``. After a crash or a lost connection, the server may send a
    message again: without an id, it counts again.

    Fields: ``message_id string, routing_key string, timestamp timestamp, headers map<string,string>, body string``.

    Args:
        url: ``"amqp://user:password@host:5672/vhost"``, or ``amqps``; never printed.
        queue: the name of the queue, which must exist.
        directory: for the files, on a file system that all machines share on which the topology may run. None: in the
            ``state_dir``.
        dedup: for this time, a message with the same ``message_id`` counts once.
        value: ``"string"``: bodies are texts in UTF-8; ``"binary"``: bytes.
        max_held_bytes: while so many bytes are not processed, messages stay in the queue.
        max_bytes_per_batch: the most bytes of a batch, unless one message has more.

    Raises:
        ConfigError: pika is not installed.
        TopologyError: an argument can't work.
    """

    def __init__(
        self,
        url: str,
        queue: str,
        *,
        directory: str | Path | None = None,
        dedup: timedelta | float = timedelta(hours=24),
        value: str = "string",
        max_held_bytes: int = 1 << 30,
        max_bytes_per_batch: int = 8 << 20,
    ) -> None:
        try:
            import trident_py.spouts.rabbitmq.consumer  # noqa: F401 - it needs pika
        except ImportError as error:
            raise ConfigError(f"RabbitMQSpout needs pika ({error}): pip install 'trident-py[rabbitmq]'") from error
        if not url.startswith(("amqp://", "amqps://")):
            raise TopologyError("the url of a RabbitMQSpout begins with amqp:// or amqps://")
        if not queue:
            raise TopologyError("a RabbitMQSpout needs the name of a queue")
        if value not in ("string", "binary"):
            raise TopologyError(f"value is 'string' or 'binary', not {value!r}")
        for name, given in (("max_held_bytes", max_held_bytes), ("max_bytes_per_batch", max_bytes_per_batch)):
            if given < 1:
                raise TopologyError(f"{name} is at least 1, not {given}")
        self._url, self._queue, self._value = as_secret(url), queue, value
        self._directory = None if directory is None else local_path(directory)
        self._limits = SpoolLimits(held_bytes=max_held_bytes, dedup_seconds=seconds(dedup))
        self._batch_bytes = max_bytes_per_batch
        self._spool: Spool | None = None
        self.output_schema = schema_of(FIELDS.format(value))

    def __repr__(self) -> str:
        return f"RabbitMQSpout(url=***, queue={self._queue!r})"

    @property
    def caveat(self) -> str:
        """The limit of its guarantee."""
        return "a message without message_id may count again after a crash or a lost connection"

    def details(self) -> Mapping[str, Json]:
        """Return the queue and the form of bodies."""
        return {"queue": self._queue, "value": self._value}

    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> QueueCoordinator:
        from trident_py.spouts.rabbitmq.consumer import QueueConsumer

        where = f"topology {context.topology!r}, spout {tx_state_id!r}"
        self._spool = Spool(where=where, files=self._files(conf, context), epoch=context.epoch, limits=self._limits)
        consumer = QueueConsumer(where=where, url=self._url, queue=self._queue, spool=self._spool, prefetch=PREFETCH)
        return QueueCoordinator(spool=self._spool, lag_name=self._queue, bytes_max=self._batch_bytes, consumer=consumer)

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> SpoolEmitter:
        if self._spool is None:
            raise AssertionError("the coordinator is made first")
        read = MessageRows(self._spool.where, schema_of(self.output_schema), self._value == "string")
        return SpoolEmitter(spool=self._spool, read=read)

    def ensure_recoverable(self, cursors: Mapping[str, Json], conf: TridentConfig, context: TopologyContext) -> None:
        """Check that the spool of the leader is here."""
        ensure_same_spool(self._files(conf, context), cursors, context)

    def _files(self, conf: TridentConfig, context: TopologyContext) -> SpoolDirectory:
        return spool_directory(self._directory, f"queue={quote(self._queue, safe='')}", conf, context.topology)


@define(kw_only=True)
class QueueCoordinator(SpoolCoordinator):
    """Defines batches of the messages that a consumer has stored.

    Attributes:
        consumer: of this leadership.
    """

    consumer: QueueConsumer

    def is_ready(self, txid: int) -> bool:
        """Return whether there are messages.

        Raises:
            SpoutError: the topology can't continue.
            ConnectionError: the queue can't be reached, and no stored message is left.
        """
        is_ready = super().is_ready(txid)
        if self.spool.is_accepting:
            self.consumer.start()
        if self.consumer.failure is not None:
            raise self.consumer.failure
        if not is_ready and self.consumer.problem is not None:
            raise ConnectionError(f"queue {self.consumer.queue!r} can't be read: {self.consumer.problem!r}")
        return is_ready

    def lag(self) -> Mapping[str, int]:
        """Return the number of messages that no batch has, in the spool and in the queue, as last counted."""
        return {self.lag_name: self.spool.unread_rows + self.consumer.waiting}

    def has_pending_input(self) -> bool:
        """Return whether the queue may have messages."""
        return not self.consumer.is_idle

    def close(self) -> None:
        self.consumer.close()
        super().close()
