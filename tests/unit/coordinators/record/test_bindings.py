"""Numbers of transactions: dense, whichever of them are empty."""

from __future__ import annotations

import pytest

from coordinators.record.record import Bindings, Empty

NUMBERS = Bindings((4, 5, 8), forgotten=2)


def test_until_the_first_empty_one_a_number_is_a_txid() -> None:
    assert [Bindings().number(txid) for txid in (1, 2, 7)] == [1, 2, 7]


def test_numbers_go_on_without_a_gap() -> None:
    assert {txid: NUMBERS.number(txid) for txid in range(3, 11)} == {
        3: 1, 4: None, 5: None, 6: 2, 7: 3, 8: None, 9: 4, 10: 5,
    }  # fmt: skip
    assert [NUMBERS.txid(number) for number in range(1, 6)] == [3, 6, 7, 9, 10]
    assert [NUMBERS.upto(txid) for txid in range(3, 11)] == [1, 1, 1, 2, 3, 3, 4, 5]


@pytest.mark.parametrize("first", range(3, 12))
def test_what_is_forgotten_changes_no_number_of_the_others(first: int) -> None:
    kept = NUMBERS.kept_from(first)
    assert [kept.number(txid) for txid in range(first, 14)] == [NUMBERS.number(txid) for txid in range(first, 14)]
    assert all(kept.txid(number) == NUMBERS.txid(number) for number in range(NUMBERS.upto(first) + 1, 14))


def test_one_more_moves_the_numbers_behind_it() -> None:
    assert [NUMBERS.bind(10, Empty()).number(txid) for txid in (9, 10, 11)] == [4, None, 5]
