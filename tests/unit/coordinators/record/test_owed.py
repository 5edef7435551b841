"""Successes that are owed: what a record keeps of them, and how far all are delivered."""

from __future__ import annotations

from itertools import permutations

from coordinators.driver.record_writer import OwedSuccesses
from coordinators.values.attempt import TransactionAttempt


def test_in_whatever_order_successes_are_delivered_a_record_keeps_those_behind_the_first_that_is_owed() -> None:
    for order in permutations((4, 5, 6)):
        owed, left = OwedSuccesses({4: 0, 5: 1, 6: 0}, upto=3), {4, 5, 6}
        for txid in order:
            assert owed.deliver(txid, last_committed=6) == TransactionAttempt(txid, txid % 2)
            left.remove(txid)
            assert owed.upto == min(left, default=7) - 1
            assert owed.durable.keys() == left
        assert owed.deliver(4, last_committed=6) is None, "it was delivered before"


def test_a_transaction_that_no_record_has_as_committed_is_not_counted_as_delivered() -> None:
    owed = OwedSuccesses({4: 0}, upto=3)
    owed.deliver(4, last_committed=4)
    assert owed.upto == 4
    owed.owe(TransactionAttempt(5, 2))
    assert owed.attempts == [TransactionAttempt(5, 2)]
    assert owed.durable == {5: 2}
