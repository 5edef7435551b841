"""Where every choice of a simulated world is made: by dice of a seed, or one after the other by the explorer."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from attrs import define, field

T = TypeVar("T")


class Chance(Protocol):
    """What is left open in a world."""

    def happens(self, fault: str) -> bool:
        """Whether ``fault`` happens here."""
        ...

    def pick(self, what: str, options: Sequence[T]) -> T:
        """One of ``options``."""
        ...

    def delay(self, mean: float) -> float:
        """How long something takes, in virtual seconds."""
        ...


FAULTS = {
    # fault: the highest rate at which it happens each time it could
    "crash at a step": 0.01,
    "write lost": 0.06,
    "reply lost": 0.06,
    "stale read": 0.1,
    "report lost": 0.03,
    "report twice": 0.1,
    "report late": 0.1,
    "user code fails": 0.05,
    "job fails": 0.08,
    "job goes on": 0.3,
    "commit lost": 0.08,
    "commit lands late": 0.5,
    "commit reply lost": 0.08,
    "pause before commit": 0.04,
    "coordinator fails": 0.03,
    "store restarts": 0.03,
    "source away": 0.03,
    "commit at once": 0.3,
    "executor lost": 0.3,
    "late write first": 0.3,
    "corrected": 0.5,
    "a row raises": 0.3,
    "task lost": 0.2,
    "answer late": 0.2,
    "answer twice": 0.3,
}
"""Faults of single steps; those of whole processes are the nemesis's."""

APART = (
    *("source away", "commit at once", "executor lost", "late write first", "corrected", "a row raises"),
    *("task lost", "answer late", "answer twice"),
)
"""Drawn by themselves, so that what they do to a world leaves its other faults as they are."""


DELAY_SECONDS_MAX = 20.0


@define
class Dice:
    """Draws from a seed. Per seed it first chooses which faults exist at all, and how often each happens."""

    seed: int
    random: random.Random = field(init=False)
    rates: Mapping[str, float] = field(init=False)
    quiet: bool = False

    def __attrs_post_init__(self) -> None:
        """Draw the faults of this world."""
        self.random = random.Random(self.seed)
        # So that seeds stay the worlds that they were.
        apart = {fault: random.Random(f"{self.seed} {fault}") for fault in APART}
        self.rates = {fault: _rate(highest, apart.get(fault, self.random)) for fault, highest in FAULTS.items()}

    def happens(self, fault: str) -> bool:
        """Whether ``fault`` happens here; none does in the quiet phase."""
        rate = self.rates[fault]
        return rate > 0 and not self.quiet and self.random.random() < rate

    def pick(self, what: str, options: Sequence[T]) -> T:
        """Any of ``options``, all alike."""
        return options[int(self.random.random() * len(options))]

    def delay(self, mean: float) -> float:
        """Mostly about ``mean``, sometimes far from it; nothing hangs for ever, as connections have time-outs."""
        stretch = 10.0 if self.random.random() < 0.02 and not self.quiet else 1.0
        return min(DELAY_SECONDS_MAX, self.random.expovariate(1.0) * mean * stretch)


def _rate(highest: float, chance: random.Random) -> float:
    return highest * chance.random() ** 2 if chance.random() < 0.5 else 0.0
