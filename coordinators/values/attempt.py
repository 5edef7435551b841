"""The identity of a batch: its transaction, its attempt, and the epoch under which it was committed."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

INITIAL_TXID = 1
"""The first transaction of a topology. Storm's ``INIT_TXID``."""

FIRST_ATTEMPT_ID = 0

TRIAL_TXID = 10**15
"""The txid of all trials: attempts that never commit. No topology gets there: with 1,000 transactions a second it takes
30,000 years. It is above those of all transactions, so that an output can try it after its last commit."""


@frozen(order=True)
class TransactionAttempt:
    """One attempt of one transaction; ``str()`` returns Storm's ``txid:attempt``.

    A transaction keeps its txid for ever. Each replay gets the next attempt id, also after a restart. So late effects
    of an older attempt can be distinguished from those of the live one.
    """

    txid: int
    attempt_id: int

    @property
    def is_trial(self) -> bool:
        """Whether it is only tried, and never commits."""
        return self.txid == TRIAL_TXID

    def __str__(self) -> str:
        return f"trial-{self.attempt_id}" if self.is_trial else f"{self.txid}:{self.attempt_id}"


@frozen(order=True)
class CommitToken:
    """The identity of a commit; compared in this order. A sink stores it in the same atomic step as the data."""

    txid: int
    epoch: int
    attempt_id: int

    def __str__(self) -> str:
        return f"{self.txid}:{self.attempt_id} of epoch {self.epoch}"


def shown_attempts(attempts: Sequence[TransactionAttempt]) -> str:
    """Format one attempt, or a range of them, for people."""
    return str(attempts[0]) if len(attempts) == 1 else f"{attempts[0]} to {attempts[-1]}"
