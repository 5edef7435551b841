"""How often a source is asked for its end: a driver would ask every 50 ms."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attrs import define, field

PAUSES = 10
"""The factor between the duration of a question and the pause before the next one."""


@define
class Pace:
    """The pauses between questions that may be slow.

    Attributes:
        is_asking: whether the question was due when `is_due` was called last.
    """

    clock: Callable[[], float] = time.monotonic
    is_asking: bool = field(default=True, init=False)
    _ask_at: float = field(default=0.0, init=False)

    def is_due(self) -> bool:
        """Return whether to ask now."""
        self.is_asking = self.clock() >= self._ask_at
        return self.is_asking

    def ask_at_once(self) -> None:
        """Let the next question be due at once, because the last one had a result."""
        self._ask_at = 0.0

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Measure a question; the next one is due after ten times as long."""
        begun = self.clock()
        yield
        done = self.clock()
        self._ask_at = done + PAUSES * (done - begun)
