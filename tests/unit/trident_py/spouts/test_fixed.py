from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinators.values.attempt import TransactionAttempt
from tests.unit.trident_py.spouts.collecting import emitted, halves
from trident_py.errors import SpoutError, TopologyError
from trident_py.interfaces.spouts import Replay
from trident_py.spouts.fixed import FixedBatchSpout


def batches(spout: FixedBatchSpout, txids: range) -> list[list[Any]]:
    coordinator, emitter = halves(spout)
    given, previous = [], None
    for txid in txids:
        previous = coordinator.initialize_transaction(txid, previous, None)
        given.append([row[0] for row in emitted(emitter, TransactionAttempt(txid, 0), previous)])
    return given


def numbers(count: int, size: int, *, cycle: bool = False) -> FixedBatchSpout:
    return FixedBatchSpout("n int", size, *((number,) for number in range(count)), cycle=cycle)


def test_batches_follow_each_other_until_the_rows_end() -> None:
    assert batches(numbers(5, 2), range(1, 5)) == [[0, 1], [2, 3], [4], []]
    coordinator, _ = halves(numbers(5, 2))
    assert [coordinator.is_ready(txid) for txid in range(1, 6)] == [True, True, True, False, False]


def test_with_cycle_the_rows_start_over_after_a_batch_that_ends_with_the_last() -> None:
    spout = numbers(5, 2, cycle=True)
    assert batches(spout, range(1, 8)) == [[0, 1], [2, 3], [4], [0, 1], [2, 3], [4], [0, 1]]
    assert batches(numbers(4, 2, cycle=True), range(1, 5)) == [[0, 1], [2, 3], [0, 1], [2, 3]]
    assert halves(spout)[0].is_ready(10**12)


@pytest.mark.parametrize("cycle", [False, True])
def test_without_rows_nothing_is_ever_ready(cycle: bool) -> None:
    coordinator, _ = halves(numbers(0, 3, cycle=cycle))
    assert not any(coordinator.is_ready(txid) for txid in range(1, 5))


@given(st.integers(1, 20), st.integers(1, 7), st.integers(1, 40), st.booleans())
def test_a_batch_depends_on_its_txid_alone(count: int, size: int, txid: int, cycle: bool) -> None:
    spout = numbers(count, size, cycle=cycle)
    assert batches(spout, range(1, txid + 1))[-1] == batches(spout, range(txid, txid + 1))[0]


def test_a_replay_gives_what_was_stored() -> None:
    coordinator, emitter = halves(numbers(5, 2))
    assert coordinator.initialize_transaction(2, [0, 2], [1, 4]) == [1, 4]
    assert emitted(emitter, TransactionAttempt(2, 1), [1, 4]) == [(1,), (2,), (3,)]


@pytest.mark.parametrize("spout", [numbers(5, 3), numbers(7, 2)])
def test_rows_or_size_changed_between_runs_is_an_error(spout: FixedBatchSpout) -> None:
    coordinator, _ = halves(spout)
    with pytest.raises(SpoutError, match=r"'lines': transaction 3 had the rows \[4, 5\].* change them back"):
        coordinator.initialize_transaction(4, [4, 5], None)


def test_rows_that_are_gone_are_an_error() -> None:
    _, emitter = halves(numbers(3, 2))
    with pytest.raises(SpoutError, match="attempt 3:1: was defined as the rows 4 to 5, there are only 3 now"):
        emitted(emitter, TransactionAttempt(3, 1), [4, 5])


@pytest.mark.parametrize("row", ["ab", ("a",), ("a", 1, 2), None, ("a", "b"), (1, 1), {"word": "a", "n": 1}])
def test_a_row_that_does_not_fit_is_shown_where_it_is_given(row: Any) -> None:
    with pytest.raises(TopologyError) as raised:
        FixedBatchSpout("word string, n int", 2, ("ok", 1), row)
    assert repr(row[1] if row == ("a", "b") else row[0] if row == (1, 1) else row) in str(raised.value)


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "2"])
def test_a_size_that_is_none_is_refused(size: Any) -> None:
    with pytest.raises(TopologyError, match="max_batch_size must be a whole number of at least 1"):
        FixedBatchSpout("n int", size, (1,))


def test_it_promises_exact_replays() -> None:
    assert numbers(1, 1).replay is Replay.EXACT
