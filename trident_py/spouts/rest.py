"""How often a source is looked at: as often as it likes, but for a share of the time only."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attrs import define, field

REST_RATIO, REST_SECONDS_MAX = 4, 0.25


@define
class Rest:
    """Rests after each look, four times as long as that took, or a quarter of a second."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    _until: float = field(default=0.0, init=False)

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Begin the block when the rest after the last one is over."""
        self.sleep(max(0.0, self._until - self.clock()))
        began = self.clock()
        try:
            yield
        finally:
            ended = self.clock()
            self._until = ended + min(REST_SECONDS_MAX, REST_RATIO * (ended - began))
