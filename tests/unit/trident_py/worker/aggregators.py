"""Aggregators as users write them, for several tests."""

from __future__ import annotations

from typing import Any

from coordinators.values.attempt import TransactionAttempt
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.operations import Aggregator, CombinerAggregator, ReducerAggregator


class Longest(CombinerAggregator[str]):
    """The longest word; of equally long ones the last in the dictionary."""

    in_fields = ("word",)

    def init(self, row: Any) -> str:
        return str(row.word or "")

    def combine(self, left: str, right: str) -> str:
        return max(left, right, key=lambda word: (len(word), word))

    def zero(self) -> str:
        return ""


class Total(ReducerAggregator[int]):
    """The sum of ``n``, as a left fold."""

    def init(self) -> int:
        return 0

    def reduce(self, curr: int, row: Any) -> int:
        return curr + (row.n or 0)


class Sorted(Aggregator[list[Any]]):
    """Emits the number of rows and the words in order; counts where there are none, too."""

    in_fields = ("word",)

    def init(self, batch_id: Any, collector: TridentCollector) -> list[Any]:
        assert batch_id is None or isinstance(batch_id, TransactionAttempt)
        return []

    def aggregate(self, value: list[Any], row: Any, collector: TridentCollector) -> list[Any] | None:
        (word,) = row
        if word == "twice":
            collector.emit((-1, [word]))
        return [*value, word] if len(value) % 2 else value.append(word)  # type: ignore[func-returns-value]

    def complete(self, value: list[Any], collector: TridentCollector) -> None:
        collector.emit((len(value), sorted(value, key=str)))
