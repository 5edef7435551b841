"""A topology that runs in this process, or stands by to, as its page shows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing

from attrs import define, evolve, field

from coordinators.record.wishes import Wish
from coordinators.status.candidate import Leader
from coordinators.status.listener import TopologyEvent
from coordinators.status.status import TopologyStatus
from coordinators.values.canonical import Json
from trident_py.engine.monitoring.listeners import EventThread, ListenerCalls, Listeners
from trident_py.engine.ports.requests import RequestAnswer
from trident_py.errors import HistoryError, TridentError
from trident_py.history.entries import Program
from trident_py.history.topology import TopologyHistory
from trident_py.history.transactions import TransactionHistory
from trident_py.interfaces.config import TridentConfig
from trident_py.query import TridentQuery
from trident_py.telemetry.prometheus import PrometheusListener
from trident_py.web.facts import Snapshot, status_facts
from trident_py.web.recent import RecentTransactions
from trident_py.web.shown import TRANSACTIONS_SHOWN
from trident_py.wishing import WishAnswer, answer_to

GATHER_SECONDS = 0.25
"""For which events are collected before the page has them."""

EVENTS_AT_ONCE_MAX = 10_000


@define(eq=False)
class LiveTopology:
    """Knows what listeners are told, and asks the query.

    Attributes:
        name: the topology's.
        config: where the history is, of what was before this start.
        program: who runs it, and its plan.
        at_end: called when it has ended, behind everything else.
        query: None while it starts.
    """

    name: str
    config: TridentConfig
    program: Program
    at_end: Callable[[], None]
    query: TridentQuery | None = field(default=None, init=False)
    _recent: RecentTransactions = field(init=False)
    _prometheus: PrometheusListener = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._recent = RecentTransactions(self.program, self.at_end)
        self._prometheus = PrometheusListener(self.name)

    def listening(self, listeners: Listeners) -> Listeners:
        """Return ``listeners``, and those of the page."""
        receivers: dict[str, Callable[[Sequence[TopologyEvent]], None]] = {
            "the metrics of the page": ListenerCalls(self.name, self._prometheus),
            "the page": self._recent.receive,
        }
        threads = [
            EventThread(self.name, who, receive, at_once_max=EVENTS_AT_ONCE_MAX, gather_seconds=GATHER_SECONDS)
            for who, receive in receivers.items()
        ]
        return evolve(listeners, others=[*listeners.others, *threads])

    @property
    def epoch(self) -> int | None:
        """The number of its leadership."""
        return self.query.status.epoch if self.query else None

    def snapshot(self) -> Snapshot:
        """Return how it is now."""
        if self.query is None:
            status = {"state": "starting", "message": "starting", "waits_for": []}
        else:
            status = status_facts(self._status(self.query), self.query.rival)
        return Snapshot(self.name, time.time(), True, status, self._recent.last(TRANSACTIONS_SHOWN))

    def _status(self, query: TridentQuery) -> TopologyStatus:
        """Return what is published, or the end, which listeners hear of before it is."""
        status, ended = query.status, self._recent.ended
        return status if ended is None else evolve(status, is_active=False, is_leading=False, error=ended.error)

    def last(self, transactions_max: int, *, failed: bool) -> Sequence[TransactionHistory]:
        """Return the last transactions by the history, or without one those that are in memory."""
        try:
            with closing(TopologyHistory.of(self.name, self.config.history_place)) as history:
                return history.last(transactions_max, failed=failed)
        except HistoryError:
            found = self._recent.last(transactions_max)
            return [each for each in found if each.has_failed] if failed else found

    def transaction(self, txid: int) -> TransactionHistory:
        """Return one that is in memory, or in the history."""
        if recent := self._recent.transaction(txid):
            return recent
        with closing(TopologyHistory.of(self.name, self.config.history_place)) as history:
            return history.transaction(txid)

    def plan(self) -> Sequence[Json]:
        """Return the nodes of its graph."""
        return self.program.plan

    def wish(self, wish: Wish, seconds: float) -> WishAnswer:
        """Leave a wish for whoever leads, and wait for its outcome."""
        return answer_to(wish, self.name, self._started.coordination, seconds)

    def elsewhere(self) -> Leader | None:
        """Return whom it waits for while it stands by."""
        return self.query.rival if self.query else None

    def answer(self, function: str, args: str, seconds: float) -> RequestAnswer:
        """Answer a request, which sees the states between two commits."""
        return self._started.answer(function, args, seconds)

    def metrics(self) -> bytes:
        """Return what Prometheus reads."""
        return self._prometheus.text()

    @property
    def _started(self) -> TridentQuery:
        if self.query is None:
            raise TridentError(f"topology {self.name!r} is just starting; ask again", topology=self.name)
        return self.query
