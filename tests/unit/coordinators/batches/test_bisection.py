"""The search for the rows that fail: what it finds, and in how many trials."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinators.batches.bisection import Bisection

Causes = Sequence[frozenset[int]]


def searched(rows: int, causes: Causes) -> Bisection:
    """Search where a trial fails if it has all rows of some cause."""
    search = Bisection(rows)
    while search.trial is not None:
        tried = [row for first, stop in search.trial for row in range(first, stop)]
        assert tried == sorted(set(tried))
        search.take(fails=any(cause <= set(tried) for cause in causes))
    return search


def alone(*rows: int) -> Causes:
    return [frozenset({row}) for row in rows]


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8, 9, 33])
def test_one_bad_row_is_found_wherever_it_is(rows: int) -> None:
    for bad in range(rows):
        search = searched(rows, alone(bad))
        assert search.found == (bad,)
        assert search.trials <= ceil(log2(rows)) + 2
    assert searched(rows, []).found == ()


def test_many_rows_take_few_trials() -> None:
    rows = 2**16
    assert searched(rows, alone(55_555)).trials <= 18
    bad = (0, 5, 77, 4_000, rows - 1)
    search = searched(rows, alone(*bad))
    assert search.found == bad
    assert search.trials <= 2 * len(bad) * log2(rows)


@given(
    st.integers(1, 40).flatmap(
        lambda rows: st.tuples(
            st.just(rows),
            st.lists(st.frozensets(st.integers(0, rows - 1), min_size=1, max_size=3), max_size=4),
        )
    )
)
def test_what_is_found_is_needed_and_all_others_pass(case: tuple[int, Causes]) -> None:
    rows, causes = case
    found = frozenset(searched(rows, causes).found)
    assert not any(cause.isdisjoint(found) for cause in causes), "the others pass"
    within = [cause for cause in causes if cause <= found]
    assert found == frozenset().union(*within), "each row is needed"


def test_rows_that_are_known_to_fail_are_tried_no_more() -> None:
    search = Bisection(10, (2, 5))
    assert search.trial == ((0, 2), (3, 5), (6, 10))
    search.take(fails=False)
    assert (search.found, search.trials) == ((2, 5), 1)
    assert not search.trial
    assert Bisection(2, (0, 1)).trial is None


def test_rows_that_fail_only_together_are_found_together() -> None:
    assert searched(100, [frozenset({3, 50, 98})]).found == (3, 50, 98)
    assert searched(9, [frozenset({0, 8}), frozenset({4})]).found == (0, 4, 8)
