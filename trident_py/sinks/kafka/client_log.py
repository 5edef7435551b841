"""What Kafka's client library has to say, by Python's logging instead of on standard error, and not over and over.

Of `KafkaSpout` and `KafkaSink`: where a broker is away, all clients of a process would say so, every second.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable

from attrs import define, field

SILENCE_SECONDS = 60.0
"""How long the same thing isn't said again."""

_VARIES = re.compile(r" \(after \d+ms.*|^\[thrd:[^ ]*\]: ")

log = logging.getLogger("trident_py.kafka")


@define
class ClientLog:
    """The ``logger`` of clients: they hand over what they have to say when they are polled.

    Nothing is worse than a warning: what ends something is an exception, too.
    """

    clock: Callable[[], float] = time.monotonic
    _said: dict[str, float] = field(factory=dict, init=False)

    def log(self, level: int, form: str, facility: str, client: str, text: str) -> None:
        """Log a line, unless it was logged a short while ago, by whichever client."""
        what, now = _VARIES.sub("", text), self.clock()
        self._said = {each: at for each, at in self._said.items() if now - at < SILENCE_SECONDS}
        if what not in self._said:
            self._said[what] = now
            log.log(min(level, logging.WARNING), "Kafka's client: %s", what)


client_log = ClientLog()
"""That of all clients of this process."""
