"""The consumer of a queue: a thread that stores messages in a spool, and then acknowledges them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from attrs import define, field
from pika import BlockingConnection, URLParameters
from pika.exceptions import AMQPError

from coordinators.values.secret import Secret
from trident_py.errors import SpoutError
from trident_py.spouts.rabbitmq.messages import Message
from trident_py.spouts.spool.records import Received
from trident_py.spouts.spool.spool import OtherContentError, Spool, SpoolClosedError, SpoolFullError

log = logging.getLogger(__name__)
logging.getLogger("pika").setLevel(logging.CRITICAL)  # it logs several stack traces for each lost connection

IDLE_SECONDS = 0.2
"""The time without a message after which the queue counts as empty."""

AGAIN_SECONDS = 1.0
COUNT_SECONDS = 1.0
"""The least time between two questions to the server how many messages wait."""

HOLD_SECONDS = 300.0
"""How long messages are held that can't be stored; the server's ``consumer_timeout`` is 30 minutes by default."""

CLOSE_SECONDS = 5.0


@define(eq=False, kw_only=True)
class QueueConsumer:
    """Consumes a queue from `start` until `close`.

    Attributes:
        where: names topology and spout in errors.
        url: of the server.
        prefetch: the most messages that are stored with one flush.
        problem: why no message can be received now; None: nothing is known.
        failure: why the topology can't continue; None: it can.
        is_idle: whether the queue was empty at the last look.
        waiting: the number of messages that are not stored, as last counted.
    """

    where: str
    url: Secret
    queue: str
    spool: Spool
    prefetch: int
    problem: Exception | None = field(default=None, init=False)
    failure: SpoutError | None = field(default=None, init=False)
    is_idle: bool = field(default=False, init=False)
    waiting: int = field(default=0, init=False)
    _next_count: float = field(default=0.0, init=False)
    _ends: threading.Event = field(factory=threading.Event, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    def start(self) -> None:
        """Start the thread, unless it runs."""
        if self._thread is None:
            name = f"trident-rabbitmq-{self.queue}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop; the server gives messages that are not acknowledged to the next consumer."""
        self._ends.set()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        while not self._ends.is_set() and self.failure is None:
            self._try_to_consume()
            self._ends.wait(AGAIN_SECONDS)

    def _try_to_consume(self) -> None:
        try:
            connection = BlockingConnection(URLParameters(self.url.reveal()))
            try:
                self._consume(connection.channel())
            finally:
                self.is_idle = False
                with suppress(AMQPError):
                    connection.close()
        except OtherContentError as error:
            self.failure = SpoutError(
                f"{self.where}: two messages of queue {self.queue!r} have the same message_id and different bodies: "
                f"{error}; to fix this: remove the second one, and let its publisher give each message its own id"
            )
        except SpoolFullError:
            log.info("%s: queue %r waits until the topology has processed more", self.where, self.queue)
        except (AMQPError, OSError, SpoolClosedError) as error:
            if type(error) is not type(self.problem):
                log.warning("%s: queue %r can't be read, and is tried again: %r", self.where, self.queue, error)
            self.problem = error

    def _consume(self, channel: Any) -> None:
        while not (self.spool.has_room or self._ends.is_set()):
            self._hold(channel, 0)
        channel.basic_qos(prefetch_count=self.prefetch)
        group: list[Received] = []
        for method, properties, body in channel.consume(self.queue, inactivity_timeout=IDLE_SECONDS):
            self.problem, self.is_idle = None, method is None
            if method is not None:
                group.append(_message_of(method, properties).received(body))
                if len(group) >= self.prefetch or not channel.get_waiting_message_count():
                    self._store(channel, group)
                    channel.basic_ack(method.delivery_tag, multiple=True)
                    group = []
            self._count(channel, len(group))
            if self._ends.is_set():
                return

    def _store(self, channel: Any, group: Sequence[Received]) -> None:
        """Store messages; if the topology is behind, hold them for a while."""
        until = time.monotonic() + HOLD_SECONDS
        while True:
            try:
                self.spool.offer(*group)
            except SpoolFullError:
                if self._ends.is_set() or time.monotonic() >= until:
                    raise
                self._hold(channel, len(group))
            else:
                self.waiting = max(0, self.waiting - len(group))
                return

    def _hold(self, channel: Any, taken: int) -> None:
        """Answer the server for a moment, while ``taken`` messages can't be stored."""
        channel.connection.process_data_events(time_limit=AGAIN_SECONDS)
        self._count(channel, taken)

    def _count(self, channel: Any, taken: int) -> None:
        """Count the messages that wait here, ``taken`` ones among them, and at the server; not too often."""
        if time.monotonic() >= self._next_count:
            there = channel.queue_declare(self.queue, passive=True).method.message_count
            self.waiting = there + channel.get_waiting_message_count() + taken
            self._next_count = time.monotonic() + COUNT_SECONDS


def _message_of(method: Any, properties: Any) -> Message:
    return Message(
        message_id=properties.message_id,
        routing_key=method.routing_key,
        timestamp=properties.timestamp,
        headers={
            name: value if isinstance(value, str) else str(value) for name, value in (properties.headers or {}).items()
        },
    )
