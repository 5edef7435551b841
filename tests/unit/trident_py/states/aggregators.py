"""Aggregators for the tests of states."""

from __future__ import annotations

from typing import Any, Literal

from trident_py.interfaces.operations import CombinerAggregator


class Adding(CombinerAggregator[Any]):
    """A sum; SQL may do it, or not."""

    def __init__(self, merge: Literal["sum"] | None = "sum") -> None:
        self.merge = merge

    def init(self, row: Any) -> Any:
        return row[0]

    def combine(self, left: Any, right: Any) -> Any:
        return left if right is None else left + right

    def zero(self) -> Any:
        return 0


class Extreme(CombinerAggregator[Any]):
    """The least or the greatest value; SQL may find it, or not."""

    def __init__(self, which: Literal["min", "max"], *, hint: bool = True) -> None:
        self.which = which
        self.merge = which if hint else None

    def init(self, row: Any) -> Any:
        return row[0]

    def combine(self, left: Any, right: Any) -> Any:
        if right is None:
            return left
        return min(left, right) if self.which == "min" else max(left, right)

    def zero(self) -> Any:
        return None
