"""The last transactions of a topology that runs here, kept in memory for its page."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from operator import attrgetter

from attrs import define, field

from coordinators.status.listener import EndedEvent, TopologyEvent
from coordinators.values.attempt import TransactionAttempt
from trident_py.history.entries import AttemptEntry, Entries, LeadershipEntry, Program
from trident_py.history.transactions import TransactionHistory, transactions

ATTEMPTS_KEPT = 1_000
"""Of all transactions together; of more, those of the lowest are forgotten."""


@define(eq=False)
class RecentTransactions:
    """Keeps what is told of attempts. Any thread may ask; one tells.

    Attributes:
        program: who runs it.
        at_end: called when the topology has ended, behind everything else.
        ended: says so; None: it hasn't.
    """

    program: Program
    at_end: Callable[[], None]
    ended: EndedEvent | None = field(default=None, init=False)
    _entries: Entries = field(init=False)
    _leadership: LeadershipEntry | None = field(default=None, init=False)
    _attempts: dict[TransactionAttempt, AttemptEntry] = field(factory=dict, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        self._entries = Entries(self.program)

    def receive(self, events: Sequence[TopologyEvent]) -> None:
        """Take what has happened."""
        change = self._entries.take(events)
        with self._lock:
            self._leadership = change.leadership or self._leadership
            self._attempts |= {each.attempt: each for each in change.attempts}
            if len(self._attempts) > ATTEMPTS_KEPT:
                for attempt in sorted(self._attempts, key=attrgetter("txid", "attempt_id"))[:-ATTEMPTS_KEPT]:
                    del self._attempts[attempt]
        self.ended = next((event for event in events if isinstance(event, EndedEvent)), None)
        if self.ended:
            self.at_end()

    def last(self, transactions_max: int) -> list[TransactionHistory]:
        """Return the last transactions, lowest first."""
        with self._lock:
            txids = {attempt.txid for attempt in self._attempts}
            return self._of(set(sorted(txids)[-transactions_max:]))

    def transaction(self, txid: int) -> TransactionHistory | None:
        """Return one; None: it isn't kept."""
        with self._lock:
            return next(iter(self._of({txid})), None)

    def _of(self, txids: Collection[int]) -> list[TransactionHistory]:
        leaderships = [self._leadership] if self._leadership else []
        return transactions(leaderships, [each for each in self._attempts.values() if each.txid in txids])
