"""What grew while a topology ran, and whether that is a leak. Pure: nothing is measured here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from attrs import frozen

MINUTE_SECONDS = 60.0
MINUTES_MIN = 3
"""Two minutes are compared, and the first, in which everything is loaded, is neither of them."""


@frozen(kw_only=True)
class Sample:
    """What there is at one moment at which the topology waits for data.

    Attributes:
        at: seconds since the first round.
        objects: those of Python that its garbage collector knows.
        threads: of the driver's process.
        descriptors: that the driver's process has open.
        znodes: of the topology.
        blocks: in Spark's storage.
        driver_bytes: the driver's resident memory.
        heap_bytes: what is used of the JVM's heap after a full collection.
        jvm_bytes: the JVM's resident memory.
        jvm_threads: of the JVM's process.
        jvm_descriptors: that the JVM's process has open.
    """

    at: float
    objects: int
    threads: int
    descriptors: int
    znodes: int
    blocks: int
    driver_bytes: int
    heap_bytes: int
    jvm_bytes: int
    jvm_threads: int
    jvm_descriptors: int


@frozen
class Limit:
    """How much something may grow.

    Attributes:
        share: of what it was.
        number: what it may grow by in any case.
    """

    share: float
    number: float

    def is_exceeded(self, before: float, after: float) -> bool:
        """Whether growing from ``before`` to ``after`` is more than both."""
        return after - before > max(self.share * before, self.number)


COUNTED = Limit(0.01, 3)
BYTES = Limit(0.05, 0)
TOLD = Limit(math.inf, math.inf)
"""Of what is shown to people, and judged by them."""

LIMITS = {
    "objects": COUNTED,
    "threads": COUNTED,
    "descriptors": COUNTED,
    "znodes": COUNTED,
    "blocks": COUNTED,
    "driver_bytes": BYTES,
    "heap_bytes": BYTES,
    "jvm_bytes": TOLD,
    "jvm_threads": TOLD,
    "jvm_descriptors": TOLD,
}
"""By the name of the field of `Sample`."""


@frozen
class Growth:
    """One measure.

    Attributes:
        measure: the name of the field of `Sample`.
        before: the median in the second minute.
        after: the median in the last minute.
    """

    measure: str
    before: float
    after: float

    @property
    def limit(self) -> Limit:
        """How much it may grow."""
        return LIMITS[self.measure]

    @property
    def is_leak(self) -> bool:
        """Whether it grew by more."""
        return self.limit.is_exceeded(self.before, self.after)


def growths(samples: Sequence[Sample], minutes: float) -> list[Growth]:
    """Compare the second minute with the last one of so many.

    Raises:
        ValueError: nothing was measured in one of them.
    """
    until = minutes * MINUTE_SECONDS
    second = [each for each in samples if MINUTE_SECONDS <= each.at < 2 * MINUTE_SECONDS]
    last = [each for each in samples if until - MINUTE_SECONDS <= each.at < until]
    if not second or not last:
        raise ValueError(
            f"{len(second)} samples in minute 2 and {len(last)} in the last one of {minutes:g}: the machine is too slow"
        )
    return [
        Growth(measure, *(median(getattr(each, measure) for each in some) for some in (second, last)))
        for measure in LIMITS
    ]
