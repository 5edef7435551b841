"""Attempts and tokens: how they are shown, and in which order they are."""

from __future__ import annotations

from itertools import product

from coordinators.values.attempt import CommitToken, TransactionAttempt


def test_an_attempt_is_shown_as_storm_shows_it() -> None:
    assert str(TransactionAttempt(7, 1)) == "7:1"
    assert str(CommitToken(7, 3, 1)) == "7:1 of epoch 3"


def test_tokens_are_in_order_of_transaction_then_epoch_then_attempt() -> None:
    numbers = list(product(range(3), repeat=3))
    assert sorted(CommitToken(*each) for each in reversed(numbers)) == [CommitToken(*each) for each in numbers]
