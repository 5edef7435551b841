"""The list of parked transactions, as a value."""

from __future__ import annotations

import pytest

from coordinators.record.parking import NOTHING_PARKED, Parked, ParkedList, Parking
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
