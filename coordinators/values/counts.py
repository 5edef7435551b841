"""`Counts`: the numbers of rows of one transaction, or of several."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from attrs import field, frozen

from coordinators.values.attempt import TransactionAttempt


@frozen
class Counts:
    """Numbers of rows and user counts, as far as they were counted.

    Attributes:
        rows: that were read.
        by_name: the counts by user functions, by name.
        written: rows that a commit adds or changes, by state or sink.
    """

    rows: int = 0
    by_name: Mapping[str, int] = field(factory=dict)
    written: Mapping[str, int] = field(factory=dict)

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.rows + other.rows, _sum(self.by_name, other.by_name), _sum(self.written, other.written))


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {**one, **{name: one.get(name, 0) + count for name, count in other.items()}}


CountsOf: TypeAlias = Callable[[TransactionAttempt], Counts]
"""Returns the counts of a live attempt so far."""


def no_counts(_: TransactionAttempt) -> Counts:
    """Return empty counts."""
    return Counts()
