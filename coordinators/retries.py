"""How long a failing transaction waits, and when it has failed too often."""

from __future__ import annotations

from attrs import define, field


@define
class Retries:
    """Failures by txid. Pure: time is an argument.

    Attributes:
        attempts: failures by the batch's own code after which it is given up. Others back off for ever.
        backoff: seconds before the first replay; doubles with each further one.
        backoff_max: the longest wait in seconds.
    """

    attempts: int = 5
    backoff: float = 0.1
    backoff_max: float = 30.0
    _own: dict[int, int] = field(factory=dict, init=False)
    _all: dict[int, int] = field(factory=dict, init=False)
    _held_until: dict[int, float] = field(factory=dict, init=False)
    causes: dict[int, str] = field(factory=dict, init=False)

    def failed(self, txid: int, cause: BaseException, counts: bool, now: float) -> float | None:
        """Note a failure; returns the seconds to wait, or None if the transaction has failed too often."""
        self._all[txid] = self._all.get(txid, 0) + 1
        self._own[txid] = self._own.get(txid, 0) + counts
        self.causes[txid] = str(cause)
        if self._own[txid] >= self.attempts:
            return None
        wait = float(min(self.backoff_max, self.backoff * 2.0 ** min(self._all[txid] - 1, 60)))
        self._held_until[txid] = now + wait
        return wait

    def held_until(self, txid: int) -> float:
        """The moment before which ``txid`` is not tried again."""
        return self._held_until.get(txid, 0.0)

    def failures(self, txid: int) -> int:
        """How often ``txid`` has failed."""
        return self._all.get(txid, 0)

    def forget(self, txid: int) -> None:
        """``txid`` is committed."""
        for book in (self._own, self._all, self._held_until, self.causes):
            book.pop(txid, None)
