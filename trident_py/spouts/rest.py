"""Throttles polling: after each look at a source, no look for four times as long as it took, at most 0.25 s."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attrs import define, field

REST_RATIO, REST_SECONDS_MAX = 4, 0.25


@define
class Rest:
    """Pauses after each look, for four times its duration, at most a quarter of a second."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    _until: float = field(default=0.0, init=False)

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Run the block after the pause of the last look."""
        self.sleep(max(0.0, self._until - self.clock()))
        began = self.clock()
        try:
            yield
        finally:
            ended = self.clock()
            self._until = ended + min(REST_SECONDS_MAX, REST_RATIO * (ended - began))
