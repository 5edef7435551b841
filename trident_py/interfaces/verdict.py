"""The meaning of an error of an external system: it is temporary, concerns this batch, or is permanent."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable
from enum import Enum

from attrs import define, field

WARNING_SECONDS = 60.0
"""Seconds for which an unknown error must repeat before a warning, and between two warnings."""

log = logging.getLogger(__name__)


class Verdict(Enum):
    """The consequence of an error."""

    COMES_AGAIN = "comes again"
    """The same call may succeed later: it is retried at growing intervals, and is no failure of the batch."""

    THIS_BATCH = "this batch"
    """The system refuses the rows of this batch: it counts as a failure of the batch."""

    NEVER = "never"
    """A retry can't succeed, with any batch: the topology stops and names the error."""


@define
class UnknownErrors:
    """Warns of errors that are in none of our tables and repeat for longer than a minute.

    Attributes:
        clock: returns monotonic seconds.
    """

    clock: Callable[[], float] = time.monotonic
    _first: dict[Hashable, float] = field(factory=dict, init=False)
    _last: dict[Hashable, float] = field(factory=dict, init=False)  # the last time
    _warned: dict[Hashable, float] = field(factory=dict, init=False)

    def came(self, kind: Hashable, text: str) -> None:
        """Record an error; after a minute without it, it counts as new."""
        now = self.clock()
        if now - self._last.get(kind, now) > WARNING_SECONDS:
            self._first.pop(kind, None)
        self._last[kind] = now
        since = self._first.setdefault(kind, now)
        if now - max(since, self._warned.get(kind, since)) >= WARNING_SECONDS:
            self._warned[kind] = now
            log.warning(
                "an error that trident_py doesn't know has repeated for %.0f s, and is retried until store_patience is "
                "over, by default forever: %s; to fix this: if it doesn't pass, stop the topology and report the error",
                now - since, text,
            )  # fmt: skip


unknown_errors = UnknownErrors()
"""The unknown errors of this process."""
