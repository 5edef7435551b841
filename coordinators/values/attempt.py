"""The identity of a batch: which transaction, which try of it, and under whose lead it was committed."""

from __future__ import annotations

from attrs import frozen

INITIAL_TXID = 1
"""The first transaction of a topology. Storm's ``INIT_TXID``."""

FIRST_ATTEMPT_ID = 0


@frozen(order=True)
class TransactionAttempt:
    """One try of one transaction; ``str()`` gives Storm's ``txid:attempt``.

    A transaction keeps its txid for ever. Each replay of it gets the next attempt id, also after a restart, so whatever
    an older try still does somewhere can be told apart from the live one.
    """

    txid: int
    attempt_id: int

    def __str__(self) -> str:
        return f"{self.txid}:{self.attempt_id}"


@frozen(order=True)
class CommitToken:
    """Who committed what; compared in this order. A sink stores it in the same atomic step as the data."""

    txid: int
    epoch: int
    attempt_id: int

    def __str__(self) -> str:
        return f"{self.txid}:{self.attempt_id} of epoch {self.epoch}"
