"""A log for messages of Kafka's client library: Python's logging, not standard error, without repetitions.

It is for `KafkaSpout` and `KafkaSink`. If a broker is unavailable, each client of a process would log it every second.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable

from attrs import define, field

SILENCE_SECONDS = 60.0
"""The time within which the same message is not logged again."""

_VARIES = re.compile(r" \(after \d+ms.*|^\[thrd:[^ ]*\]: ")

log = logging.getLogger("trident_py.kafka")


@define
class ClientLog:
    """The ``logger`` of clients, which log their messages to it when they are polled.

    No message is logged above the level of a warning: if a client fails, an exception is raised, too.
    """

    clock: Callable[[], float] = time.monotonic
    _said: dict[str, float] = field(factory=dict, init=False)

    def log(self, level: int, form: str, facility: str, client: str, text: str) -> None:
        """Log a message, unless any client has logged it a short while ago."""
        what, now = _VARIES.sub("", text), self.clock()
        self._said = {each: at for each, at in self._said.items() if now - at < SILENCE_SECONDS}
        if what not in self._said:
            self._said[what] = now
            log.log(min(level, logging.WARNING), "Kafka's client: %s", what)


client_log = ClientLog()
"""The log of all clients of this process."""
