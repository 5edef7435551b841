"""The bad rows of attempts: which attempts look for them, and which rows are left out.

To look for them takes one more job. So the first attempt of a transaction doesn't look: if a row function raises,
the attempt fails, and the next one looks. For some transactions after one with bad rows, the first attempt looks, too.

From the first commit of a transaction on, each attempt leaves out the same rows.

A function may raise for a row in one attempt and pass in the next. If one output has committed the row and another
one not, they would never agree. So the write that stores the intent to commit also stores which rows are left out. It
stores it too if none are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from attrs import define, field

from coordinators.protocol.messages import BadRowsFound
from coordinators.record.bad_rows import BadRow
from coordinators.record.record import CoordinatorRecord
from coordinators.values.attempt import TransactionAttempt

LOOKS_FOR = 8
"""For so many transactions after one with bad rows, the first attempt looks for them."""


@define
class BadRowsOfAttempts:
    """The rows that each attempt leaves out, as far as they are known."""

    _found: dict[TransactionAttempt, tuple[BadRow, ...]]
    _last_bad: int = field(default=-LOOKS_FOR, init=False)

    @classmethod
    def restored(cls, record: CoordinatorRecord) -> Self:
        """Return the rows of each attempt that has a stored intent to commit."""
        return cls({pin.attempt: record.bad_rows.get(pin.attempt.txid, ()) for pin in record.committing})

    def take(self, found: BadRowsFound) -> None:
        """Add the rows of one spout that an attempt leaves out."""
        if found.rows:
            self._last_bad = max(found.attempt.txid, self._last_bad)
        self._found[found.attempt] = (*self._found.get(found.attempt, ()), *found.rows)

    def are_looked_for(self, txid: int, *, has_failed: bool) -> bool:
        """Return true if the next attempt of ``txid`` looks for bad rows; ``has_failed`` as in `Retries`."""
        return has_failed or txid <= self._last_bad + LOOKS_FOR

    def fixed(self, txid: int, committing: Iterable[TransactionAttempt]) -> tuple[BadRow, ...] | None:
        """Return the rows that every attempt of ``txid`` leaves out from now on; None: its commit has not begun."""
        begun = next((attempt for attempt in committing if attempt.txid == txid), None)
        return None if begun is None else self._found.get(begun, ())

    def durable(self, committing: Iterable[TransactionAttempt]) -> dict[int, tuple[BadRow, ...]]:
        """Return the rows to store with these intents to commit, by txid; those without bad rows are left out."""
        return {attempt.txid: found for attempt in committing if (found := self._found.get(attempt, ()))}

    def forget_before(self, txid: int) -> None:
        """Forget the transactions below ``txid``, which are closed."""
        self._found = {attempt: found for attempt, found in self._found.items() if attempt.txid >= txid}
