"""What a page is about: a topology that runs here, or one that is known from what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from coordinators.record.wishes import Wish
from coordinators.status.candidate import Leader
from coordinators.values.canonical import Json
from trident_py.engine.ports.requests import RequestAnswer
from trident_py.history.transactions import TransactionHistory
from trident_py.web.facts import Snapshot
from trident_py.wishing import WishAnswer

TRANSACTIONS_SHOWN = 200
"""By a page at once, the last ones."""


class ShownTopology(Protocol):
    """A topology as its page sees it. Every method may wait for a database or a server, and raise `TridentError`."""

    @property
    def name(self) -> str:
        """The topology's."""
        ...

    @property
    def epoch(self) -> int | None:
        """The number of the leadership that this process has; None: it doesn't lead."""
        ...

    def snapshot(self) -> Snapshot:
        """Return how it is now, with the transactions that a page shows. Called on one thread, as are the next two."""
        ...

    def last(self, transactions_max: int, *, failed: bool) -> Sequence[TransactionHistory]:
        """Return the last transactions, lowest first; with ``failed`` those only of which an attempt has failed."""
        ...

    def transaction(self, txid: int) -> TransactionHistory:
        """Return one.

        Raises:
            NoHistoryError: nothing is known of it.
        """
        ...

    def plan(self) -> Sequence[Json]:
        """Return the nodes of its graph, as `diagram` has them; none: they are not known."""
        ...

    def wish(self, wish: Wish, seconds: float) -> WishAnswer:
        """Leave a wish, and wait for its outcome up to so many seconds."""
        ...

    def elsewhere(self) -> Leader | None:
        """Return another process that leads the topology; None: this one does, or nobody."""
        ...

    def answer(self, function: str, args: str, seconds: float) -> RequestAnswer:
        """Answer a request.

        Raises:
            UnknownFunction: the topology has no such function.
            RequestError: its code raised.
            TimeoutError: it took longer.
            TridentError: it may be asked again, here or elsewhere.
        """
        ...

    def metrics(self) -> bytes | None:
        """Return what Prometheus reads; None: nothing is measured here."""
        ...
