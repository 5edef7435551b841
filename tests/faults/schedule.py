"""What befalls a topology at random, drawn ahead of time, so that the same seed gives the same."""

from __future__ import annotations

import random

from attrs import frozen

NOISE_SECONDS = (15.0, 40.0)
"""How long a noisy phase lasts; a quiet one lasts until it goes on, and a little longer."""

BETWEEN_SECONDS = (0.5, 8.0)
KINDS = (
    "kill leader",
    "kill standby",
    "pause leader",
    "pause tree",
    "cut zookeeper",
    "cut zookeeper one way",
    "cut postgres",
    "kill zookeeper",
    "kill two zookeepers",
    "pause zookeeper",
    "restart postgres",
    "hang up postgres",
    "fail over postgres",
    "lock postgres",
    "kill workers",
    "wish pause",
    "wish drain",
    "wish rate",
)


@frozen
class Blow:
    """One fault.

    Attributes:
        wait: seconds after the one before it.
        lasts: seconds until it is healed, where it can be.
        which: chooses among several servers or drivers.
    """

    kind: str
    wait: float
    lasts: float
    which: int


@frozen
class Schedule:
    """Noisy phases, each a list of blows; after each there is quiet."""

    seed: int
    phases: tuple[tuple[Blow, ...], ...]

    @classmethod
    def drawn(cls, seed: int, phases: int) -> Schedule:
        """The one of this seed; a longer one begins as a shorter one does."""
        chance = random.Random(seed)
        return cls(seed, tuple(tuple(_phase(chance)) for _ in range(phases)))


def _phase(chance: random.Random) -> list[Blow]:
    # Not all kinds in each: what is rare together would otherwise never be alone.
    kinds = chance.sample(KINDS, chance.randint(1, 5))
    length, blows = chance.uniform(*NOISE_SECONDS), list[Blow]()
    while sum(blow.wait for blow in blows) < length:
        blows.append(
            Blow(chance.choice(kinds), chance.uniform(*BETWEEN_SECONDS), chance.uniform(0.5, 8.0), chance.randrange(60))
        )
    return blows
