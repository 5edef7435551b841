"""The topology of a page: it runs in this process, or is read from its stored data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from coordinators.record.wishes import Wish
from coordinators.status.candidate import Leader
from coordinators.values.canonical import Json
from trident_py.engine.ports.requests import RequestAnswer
from trident_py.history.transactions import TransactionHistory
from trident_py.interfaces.ingest import IngestAnswer, IngestRequest
from trident_py.web.facts import Snapshot
from trident_py.wishing import WishAnswer

TRANSACTIONS_SHOWN = 200
"""The number of transactions on a page, which are the last ones."""


class ShownTopology(Protocol):
    """A topology as its page sees it. Every method may wait for a database or a server, and raise `TridentError`."""

    @property
    def name(self) -> str:
        """The name of the topology."""
        ...

    @property
    def epoch(self) -> int | None:
        """The epoch of this process's leadership; None if it doesn't lead."""
        ...

    def snapshot(self) -> Snapshot:
        """Return the present status, and the transactions of a page. One thread calls this and the next two methods."""
        ...

    def last(self, transactions_max: int, *, failed: bool) -> Sequence[TransactionHistory]:
        """Return the last transactions, lowest first; with ``failed`` only those with a failed attempt."""
        ...

    def transaction(self, txid: int) -> TransactionHistory:
        """Return one transaction.

        Raises:
            NoHistoryError: it is unknown.
        """
        ...

    def plan(self) -> Sequence[Json]:
        """Return the nodes of its graph, as from `diagram`; empty if unknown."""
        ...

    def wish(self, wish: Wish, seconds: float) -> WishAnswer:
        """Store a wish, and wait for its outcome up to this many seconds."""
        ...

    def elsewhere(self) -> Leader | None:
        """Return another process that leads the topology; None if this one leads, or no process does."""
        ...

    def ingest(self, stream: str, request: IngestRequest) -> IngestAnswer:
        """Store rows that were sent to a stream; return the answer."""
        ...

    def answer(self, function: str, args: str, seconds: float) -> RequestAnswer:
        """Answer a request.

        Raises:
            UnknownFunction: the topology has no such function.
            RequestError: its code raised an exception.
            TimeoutError: the time has passed.
            TridentError: a retry may succeed, here or in another process.
        """
        ...

    def metrics(self) -> bytes | None:
        """Return the metrics for Prometheus; None if this process measures nothing."""
        ...
