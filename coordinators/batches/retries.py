"""How long a failing transaction waits, and when it has failed too often."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from attrs import define, evolve, field

from coordinators.record.record import Failure
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.error_text import error_text

V = TypeVar("V")


@define
class Retries:
    """Failures by txid. Pure: time is an argument.

    Attributes:
        attempts: failures by the batch's own code after which it is given up. Others back off for ever.
        backoff: seconds before the first replay; doubles with each further one.
        backoff_max: the longest wait in seconds.
        known: the failures of transactions that are not committed, as the record keeps them.
    """

    attempts: int = 5
    backoff: float = 0.1
    backoff_max: float = 30.0
    known: dict[int, Failure] = field(factory=dict, init=False)
    _here: dict[int, int] = field(factory=dict, init=False)  # failures in this leadership, by txid
    _held_until: dict[int, float] = field(factory=dict, init=False)

    def restore(self, failures: Mapping[int, Failure]) -> None:
        """Go on from what an earlier leader has counted; a transaction that was given up gets one more try."""
        self.known = {
            txid: evolve(failure, count=min(failure.count, self.attempts - 1)) for txid, failure in failures.items()
        }

    def failed(
        self, attempt: TransactionAttempt, cause: BaseException, *, counts: bool, now: float, wall: float
    ) -> float | None:
        """Note a failure; returns the seconds to wait, or None if the transaction has failed too often."""
        txid, before = attempt.txid, self.known.get(attempt.txid)
        self._here[txid] = self._here.get(txid, 0) + 1
        count = (before.count if before else 0) + counts
        self.known[txid] = Failure(
            count=count,
            attempt_id=attempt.attempt_id,
            cause=error_text(cause),
            since=before.since if before else wall,
            last=wall,
            tries=(before.tries if before else 0) + 1,
        )
        if count >= self.attempts:
            return None
        wait = float(min(self.backoff_max, self.backoff * 2.0 ** min(self._here[txid] - 1, 60)))
        self._held_until[txid] = now + wait
        return wait

    @property
    def causes(self) -> dict[int, str]:
        """Why transactions have failed that are not committed, by txid; any thread may ask."""
        return {txid: failure.cause for txid, failure in dict(self.known).items()}

    def held_until(self, txid: int) -> float:
        """Return the moment before which ``txid`` is not tried again."""
        return self._held_until.get(txid, 0.0)

    def failures(self, txid: int) -> int:
        """Return how often ``txid`` has failed."""
        failure = self.known.get(txid)
        return failure.tries if failure else 0

    def make_room(self, txid: int) -> None:
        """Make room for an empty transaction ``txid``.

        What is known as that, and each later one, is the one after it.
        """
        self.known = _shifted(self.known, txid)
        self._here = _shifted(self._here, txid)
        self._held_until = _shifted(self._held_until, txid)

    def forget(self, txid: int) -> None:
        """Forget ``txid``, which is committed."""
        self.known.pop(txid, None)
        self._here.pop(txid, None)
        self._held_until.pop(txid, None)


def _shifted(by_txid: Mapping[int, V], first: int) -> dict[int, V]:
    return {txid + (txid >= first): each for txid, each in by_txid.items()}
