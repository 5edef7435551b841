"""Positions in the log, the changes after one, and the batches that they make."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.trident_py.spouts.postgres import messages
from trident_py.errors import SpoutError
from trident_py.spouts.postgres.changes import Change, Cutter, Position, changes_after

SIZES = st.lists(st.integers(0, 7), max_size=8)
"""The numbers of changes of transactions."""


def log(sizes: list[int]) -> list[bytes]:
    written = []
    for number, size in enumerate(sizes, 1):
        changes = [messages.insert(1, (f"{number}.{n}",)) for n in range(1, size + 1)]
        described = [messages.relation(1, "orders", [("id", 25, -1, True)])]
        written += [messages.begin(number * 10), *described, *changes, messages.commit(number * 10, number * 10 + 8)]
    return written


def batches(sizes: list[int], most: int, position: Position, bytes_max: int = 10**9) -> Iterator[list[Change]]:
    cutter = Cutter(changes_after(position, log(sizes)), bytes_max)
    while found := cutter.next_batch(most):
        yield found


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**40))
def test_a_position_is_written_and_read(lsn: int, n: int) -> None:
    assert Position.of(str(Position(lsn, n))) == Position(lsn, n)


@pytest.mark.parametrize("text", ["", "16", "16/B374D848+", "g/0", "16/b374", "123456789/0"])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(SpoutError, match="is not a position in PostgreSQL's log"):
        Position.of(text)


@given(SIZES, st.integers(1, 5))
def test_batches_have_each_change_once_and_whole_transactions_where_they_fit(sizes: list[int], most: int) -> None:
    found = list(batches(sizes, most, Position(0)))
    places = [(each.at.lsn // 10, each.at.n) for batch in found for each in batch]
    assert places == [(number, n) for number, size in enumerate(sizes, 1) for n in range(1, size + 1)]
    for batch in found:
        assert len(batch) <= most
        if batch[-1].after.n:
            assert {each.at.lsn for each in batch} == {batch[-1].at.lsn}, "a part of a transaction is alone"
            assert len(batch) == most


@given(SIZES, st.integers(1, 5), st.data())
def test_the_log_can_be_read_again_from_the_end_of_each_batch(sizes: list[int], most: int, data: st.DataObject) -> None:
    found = list(batches(sizes, most, Position(0)))
    number = data.draw(st.integers(0, len(found)))
    begin = found[number - 1][-1].after if number else Position(0)
    again = list(changes_after(begin, log(sizes)))
    assert [each.at for each in again] == [each.at for batch in found[number:] for each in batch]


def test_a_batch_ends_with_the_change_that_reaches_the_bytes() -> None:
    size = len(messages.insert(1, ("1.1",)))
    found = list(batches([1, 1, 1, 5], 10, Position(0), bytes_max=2 * size))
    assert [*accumulate(map(len, found))] == [2, 3, 5, 7, 8]


def test_the_end_of_the_last_transaction_must_be_there() -> None:
    with pytest.raises(SpoutError, match=r"the transaction that commits at 0/A was sent without its end"):
        list(changes_after(Position(0), log([2])[:-1]))
