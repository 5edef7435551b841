"""The bad rows of attempts: from the first commit of a transaction on, each attempt leaves out the same rows.

A function may raise for a row in one attempt and pass in the next. If one output has committed the row and another
one not, they would never agree. So the write that stores the intent to commit also stores which rows are left out. It
stores it too if none are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from attrs import define

from coordinators.protocol.messages import BadRowsFound
from coordinators.record.bad_rows import BadRow
from coordinators.record.record import CoordinatorRecord
from coordinators.values.attempt import TransactionAttempt


@define
class BadRowsOfAttempts:
    """The rows that each attempt leaves out, as far as they are known."""

    _found: dict[TransactionAttempt, tuple[BadRow, ...]]

    @classmethod
    def restored(cls, record: CoordinatorRecord) -> Self:
        """Return the rows of each attempt that has a stored intent to commit."""
        return cls({pin.attempt: record.bad_rows.get(pin.attempt.txid, ()) for pin in record.committing})

    def take(self, found: BadRowsFound) -> None:
        """Add the rows of one spout that an attempt leaves out."""
        self._found[found.attempt] = (*self._found.get(found.attempt, ()), *found.rows)

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
