"""Successes that are owed: of transactions that are committed, while not every spout has taken theirs."""

from __future__ import annotations

from typing import Self

from attrs import define

from coordinators.record.record import CoordinatorRecord
from coordinators.values.attempt import TransactionAttempt


@define
class OwedSuccesses:
    """Which successes were announced, or will be, and are not delivered.

    Attributes:
        attempt_ids: by txid, of the attempt that was committed.
        upto: the last txid up to which every success is delivered.
    """

    attempt_ids: dict[int, int]
    upto: int

    @classmethod
    def restored(cls, record: CoordinatorRecord) -> Self:
        """Go on from what earlier leaders have left undelivered."""
        owed = {txid: each for txid, each in record.attempt_ids.items() if txid < record.current_txid}
        return cls(owed, record.success_upto)

    @property
    def attempts(self) -> list[TransactionAttempt]:
        """The attempts whose success is owed, lowest first."""
        return [TransactionAttempt(txid, attempt_id) for txid, attempt_id in sorted(self.attempt_ids.items())]

    @property
    def durable(self) -> dict[int, int]:
        """The attempt ids that a record has to keep, by txid: a later leader delivers their successes again."""
        return {txid: attempt_id for txid, attempt_id in self.attempt_ids.items() if txid > self.upto}

    def owe(self, attempt: TransactionAttempt) -> None:
        """Owe the success of ``attempt``, which is committed."""
        self.attempt_ids[attempt.txid] = attempt.attempt_id

    def deliver(self, txid: int, last_committed: int) -> TransactionAttempt | None:
        """Owe the success of ``txid`` no more; returns the attempt, None if it was delivered before.

        Args:
            txid: the transaction.
            last_committed: the last txid that the stored record has as committed. The machine may have closed another
                one in this very turn, whose success is owed only from the next write on.
        """
        attempt_id = self.attempt_ids.pop(txid, None)
        self.upto = min(self.attempt_ids, default=last_committed + 1) - 1
        return None if attempt_id is None else TransactionAttempt(txid, attempt_id)
