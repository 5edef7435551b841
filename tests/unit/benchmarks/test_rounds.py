"""How competitors take turns, and what becomes of their times."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from benchmarks.rounds import Measured, quantile, race, turned


def test_everybody_comes_first_and_last_in_turn() -> None:
    orders = [turned(["a", "b", "c"], number) for number in range(6)]
    assert {frozenset(order) for order in orders} == {frozenset("abc")}
    assert len(Counter(order[0] for order in orders)) == 3
    assert len(Counter(order[-1] for order in orders)) == 3


def test_two_alternate() -> None:
    """Were it the same order each time, whatever one leaves behind would always hit the other."""
    assert [turned(["a", "b"], number) for number in range(2)] == [["a", "b"], ["b", "a"]]


def test_the_first_round_does_not_count() -> None:
    times = {"slow": iter([90.0, 4.0, 6.0]), "fast": iter([50.0, 2.0, 2.0])}
    results = race({name: partial(next, took) for name, took in times.items()}, 2, "slow")
    assert results["fast"] == Measured((2.0, 2.0), (2.0, 3.0))
    assert results["slow"].relative == (1.0, 1.0)


def test_a_ratio_is_taken_within_each_round() -> None:
    """The machine was three times as slow in the second round; that says nothing of either competitor."""
    base, mine = Measured((2.0, 6.0, 2.0), (1.0, 1.0, 1.0)), Measured((1.0, 3.0, 1.0), (2.0, 2.0, 2.0))
    assert (mine.over(base).ratio, mine.over(base).ratio_spread) == (2.0, 1.0)
    assert (mine.median, mine.spread) == (1.0, 3.0)


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.5, 3), (0.95, 5), (1.0, 5)])
def test_quantiles_are_values_that_were_measured(share: float, value: float) -> None:
    assert quantile([5, 1, 4, 2, 3], share) == value
