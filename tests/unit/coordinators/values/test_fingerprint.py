"""Fingerprints: what tells whether two emissions may have had the same rows."""

from __future__ import annotations

from functools import reduce
from operator import add

from hypothesis import given
from hypothesis import strategies as st

from coordinators.values.canonical import NO_ROWS, Fingerprint

hashes = st.lists(st.integers(0, 2**64 - 1), max_size=8)


def of(rows: list[int], kind: str = "rows") -> Fingerprint:
    return reduce(add, [Fingerprint(1, each, kind) for each in rows], NO_ROWS)


@given(hashes, hashes)
def test_it_depends_neither_on_the_order_of_rows_nor_on_where_they_are_cut(one: list[int], other: list[int]) -> None:
    assert of(one) + of(other) == of([*reversed(other), *one]) or not (one or other)
    assert (of(one) + of(other)).agrees(of([*other, *one]))
    assert 0 <= of(one).sum < 2**64


@given(hashes)
def test_two_equal_rows_are_two(rows: list[int]) -> None:
    assert not of([*rows, 5, 5]).agrees(of(rows))


def test_of_rows_that_were_hashed_in_another_way_only_their_number_tells() -> None:
    assert of([1, 2]).agrees(of([3, 4], "read"))
    assert not of([1, 2]).agrees(of([3], "read"))
    assert not of([1, 2]).agrees(of([3, 4]))
