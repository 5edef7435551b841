"""The list of parked transactions, as a value."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinators.record.parking import (
    NOTHING_PARKED,
    Parked,
    ParkedList,
    Parking,
    Runs,
    Split,
    StoredRows,
    beginning,
    runs_of,
    selected,
    size_of,
    without,
)
from coordinators.values.canonical import Fingerprint


def entry(txid: int, **facts: object) -> Parked:
    return Parked(txid=txid, number=txid, definition={"lines": [txid]}, **facts)  # type: ignore[arg-type]


def test_a_transaction_is_on_the_list_once_it_is_closed() -> None:
    parking = NOTHING_PARKED.park(Parking(5, 2, entry(5)))
    assert (parking.is_parking(5), parking.is_parking(4), parking.entries) == (True, False, ())
    assert parking.close(4) == parking
    assert parking.close(5) == ParkedList(None, (entry(5),))


def test_a_release_takes_the_first_that_waits_and_its_close_takes_it_off_the_list() -> None:
    wanted = ParkedList(None, (entry(3), entry(5), entry(8))).want([5, 8])
    assert wanted.waiting == entry(5, is_wanted=True)
    begun = wanted.bind(9)
    assert (begun.released_in(9), begun.waiting) == (entry(5, is_wanted=True, released_as=9), entry(8, is_wanted=True))
    assert [each.txid for each in begun.close(9).entries] == [3, 8]
    assert begun.bind(10).bind(11).waiting is None


def test_a_release_that_is_parked_again_takes_its_old_place() -> None:
    begun = ParkedList(None, (entry(3), entry(5))).want(()).bind(9)
    again = begun.park(Parking(9, 1, entry(3, attempts=6)))
    assert again.close(9).entries == (entry(3, attempts=6), entry(5, is_wanted=True))


def test_skipping_takes_off_the_list() -> None:
    assert ParkedList(None, (entry(3), entry(5))).drop([3]).entries == (entry(5),)


@pytest.mark.parametrize("facts", [{}, {"fingerprints": {"lines": Fingerprint(3, 7)}, "error": "x", "is_wanted": True}])
def test_what_is_stored_is_read_again(facts: dict[str, object]) -> None:
    parking = Parking(7, 1, entry(5, **facts))
    assert Parking.from_json(parking.to_json()) == parking


ROWS = st.frozensets(st.integers(0, 30)).map(sorted)


def rows_in(runs: Runs) -> list[int]:
    return [row for first, stop in runs for row in range(first, stop)]


@given(ROWS, ROWS)
def test_runs_are_the_rows_that_they_name(rows: list[int], others: list[int]) -> None:
    runs = runs_of(rows)
    assert (rows_in(runs), size_of(runs)) == (rows, len(rows))
    assert rows_in(without(runs, others)) == [row for row in rows if row not in others]
    assert rows_in(selected(runs, runs_of(others))) == [row for number, row in enumerate(rows) if number in others]
    assert rows_in(beginning(runs, len(others))) == rows[: len(others)]
    assert all(before[1] < after[0] for before, after in pairwise(without(runs, others))), "as few as possible"


def stored(rows: int, kept: Runs | None = None) -> StoredRows:
    return StoredRows(file="f", host="h", bytes=1, hash="x", rows=rows, kept=kept)


def test_a_split_leaves_the_rows_that_fail_and_releases_the_others_under_the_same_id() -> None:
    whole = entry(5, stored={"lines": stored(9, ((2, 9),))}, fingerprints={"lines": Fingerprint(7, 1)})
    parked = ParkedList(None, (entry(3), entry(5), entry(8))).split(Split(whole, {"lines": (2, 6)}))
    first, failing, rest, last = parked.entries
    assert (first, last) == (entry(3), entry(8))
    assert (failing.part, failing.stored["lines"].kept, failing.is_wanted) == (0, ((2, 3), (6, 7)), False)
    assert (rest.part, rest.stored["lines"].kept, rest.is_wanted) == (1, ((3, 6), (7, 9)), True)
    assert not failing.fingerprints, "those were of all rows"
    assert [each.part for each in parked.bind(9).close(9).entries if each.txid == 5] == [0]
    again = parked.split(Split(failing, {"lines": (6,)}))
    assert [(each.part, each.rows) for each in again.entries if each.txid == 5] == [(0, 1), (1, 5), (2, 1)]
    assert Parked.from_json(rest.to_json()) == rest


def test_a_split_without_other_rows_leaves_one_entry() -> None:
    whole = entry(5, stored={"lines": stored(2)})
    (left,) = ParkedList(None, (entry(5),)).split(Split(whole, {"lines": (0, 1)})).entries
    assert (left.part, left.rows) == (0, 2)
