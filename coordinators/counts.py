"""`Counts`: how much there was of one transaction, or of several."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from attrs import field, frozen

from coordinators.attempt import TransactionAttempt


@frozen
class Counts:
    """How many rows were read, as far as anybody has counted, and what user functions have counted, by name."""

    rows: int = 0
    by_name: Mapping[str, int] = field(factory=dict)

    def __add__(self, other: Counts) -> Counts:
        by_name = dict(self.by_name)
        for name, count in other.by_name.items():
            by_name[name] = by_name.get(name, 0) + count
        return Counts(self.rows + other.rows, by_name)


CountsOf: TypeAlias = Callable[[TransactionAttempt], Counts]
"""What a live attempt has read and counted so far."""


def no_counts(_: TransactionAttempt) -> Counts:
    """Count nothing."""
    return Counts()
