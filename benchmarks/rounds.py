"""Competitors side by side: several rounds, each competitor once in every round, in an order that turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from attrs import frozen


@frozen
class Measured:
    """What one competitor took, a value for each round.

    Attributes:
        seconds: what its turns took.
        relative: how many times as fast as the baseline it was in each round.
    """

    seconds: tuple[float, ...]
    relative: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of the seconds."""
        return median(self.seconds)

    @property
    def spread(self) -> float:
        """The slowest turn over the fastest."""
        return max(self.seconds) / min(self.seconds)

    @property
    def ratio(self) -> float:
        """The median of the rounds' ratios: what disturbs the machine for longer than a turn hits both."""
        return median(self.relative)

    @property
    def ratio_spread(self) -> float:
        """The highest ratio over the lowest."""
        return max(self.relative) / min(self.relative)

    def over(self, other: Measured) -> Measured:
        """The same turns, with ``other`` as the baseline."""
        return Measured(self.seconds, relative(self.seconds, other.seconds))


def relative(seconds: Sequence[float], baseline: Sequence[float]) -> tuple[float, ...]:
    """How many times as fast as the baseline, round by round."""
    return tuple(base / mine for mine, base in zip(seconds, baseline, strict=True))


def turned(names: Sequence[str], number: int) -> list[str]:
    """The order of round ``number``: every second one runs backwards, and then another name is the first."""
    start = number // 2 % len(names)
    order = [*names[start:], *names[:start]]
    return order[::-1] if number % 2 else order


def race(competitors: Mapping[str, Callable[[], float]], rounds: int, baseline: str) -> dict[str, Measured]:
    """Give every competitor its turn in each round, after one round that doesn't count: Spark compiles its code there.

    Args:
        competitors: by name; each does its work and returns the seconds that the timed part of it took.
        rounds: how many.
        baseline: the name of the one that the others are compared with.
    """
    seconds: dict[str, list[float]] = {name: [] for name in competitors}
    for number in range(rounds + 1):
        for name in turned(list(competitors), number):
            seconds[name].append(competitors[name]())
    base = seconds[baseline][1:]
    return {name: Measured(tuple(took[1:]), relative(took[1:], base)) for name, took in seconds.items()}


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` of all values don't exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
