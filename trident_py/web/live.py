"""The page's view of a topology that this process runs, as leader or standby.

Recent transactions are kept in memory; older ones are read from the history.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from operator import attrgetter

from attrs import define, evolve, field

from coordinators.record.wishes import Hold, Wish
from coordinators.status.candidate import Leader
from coordinators.status.listener import EndedEvent, TopologyEvent
from coordinators.status.status import TopologyStatus
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Json
from trident_py.engine.monitoring.listeners import EventThread, ListenerCalls, Listeners
from trident_py.engine.ports.requests import RequestAnswer
from trident_py.errors import HistoryError, TridentError
from trident_py.history.entries import AttemptEntry, Entries, LeadershipEntry, Program
from trident_py.history.topology import TopologyHistory
from trident_py.history.transactions import TransactionHistory, transactions
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.ingest import RETRY_SECONDS, IngestAnswer, Ingesting, IngestRequest
from trident_py.query import TridentQuery
from trident_py.telemetry.prometheus import PrometheusListener
from trident_py.web.facts import Snapshot, status_facts
from trident_py.web.shown import TRANSACTIONS_SHOWN
from trident_py.wishing import WishAnswer, answer_to

ATTEMPTS_KEPT = 1_000
"""The limit of attempts of all transactions; above it, those of the lowest transactions are deleted."""


@define(eq=False)
class RecentTransactions:
    """Keeps recent attempts from events. Any thread may read; one thread adds events.

    Attributes:
        program: the program that runs the topology.
        at_end: called when the topology has ended, after everything else.
        ended: the event of the end; None: it hasn't ended.
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
        """Add events."""
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
        """Return one transaction; None if it isn't kept."""
        with self._lock:
            return next(iter(self._of({txid})), None)

    def _of(self, txids: Collection[int]) -> list[TransactionHistory]:
        leaderships = [self._leadership] if self._leadership else []
        return transactions(leaderships, [each for each in self._attempts.values() if each.txid in txids])


GATHER_SECONDS = 0.25
"""Seconds for which events are collected before the page shows them."""

EVENTS_AT_ONCE_MAX = 10_000


@define(eq=False)
class LiveTopology:
    """Collects events as a listener, and reads the query.

    Attributes:
        name: the name of the topology.
        config: names the history, which has the time before this start.
        program: the program that runs the topology, with its plan.
        at_end: called when it has ended, after everything else.
        ingesting: by stream, the spouts that receive requests.
        query: the running topology; None during its start.
    """

    name: str
    config: TridentConfig
    program: Program
    at_end: Callable[[], None]
    ingesting: Mapping[str, Ingesting] = field(factory=dict)
    query: TridentQuery | None = field(default=None, init=False)
    _recent: RecentTransactions = field(init=False)
    _prometheus: PrometheusListener = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._recent = RecentTransactions(self.program, self.at_end)
        self._prometheus = PrometheusListener(self.name)

    def listening(self, listeners: Listeners) -> Listeners:
        """Return ``listeners``, with those of the page."""
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
        """The epoch of its leadership."""
        return self.query.status.epoch if self.query else None

    def snapshot(self) -> Snapshot:
        """Return the topology as it is now."""
        if self.query is None:
            status = {"state": "starting", "message": "starting", "waits_for": []}
        else:
            status = status_facts(self._status(self.query), self.query.rival)
        return Snapshot(self.name, time.time(), True, status, self._recent.last(TRANSACTIONS_SHOWN))

    def _status(self, query: TridentQuery) -> TopologyStatus:
        """Return the published status, or the end, which listeners receive earlier."""
        status, ended = query.status, self._recent.ended
        return status if ended is None else evolve(status, is_active=False, is_leading=False, error=ended.error)

    def last(self, transactions_max: int, *, failed: bool) -> Sequence[TransactionHistory]:
        """Return the last transactions from the history; without a history, from memory."""
        try:
            with closing(TopologyHistory.of(self.name, self.config.history_place)) as history:
                return history.last(transactions_max, failed=failed)
        except HistoryError:
            found = self._recent.last(transactions_max)
            return [each for each in found if each.has_failed] if failed else found

    def transaction(self, txid: int) -> TransactionHistory:
        """Return one transaction, from memory or from the history."""
        if recent := self._recent.transaction(txid):
            return recent
        with closing(TopologyHistory.of(self.name, self.config.history_place)) as history:
            return history.transaction(txid)

    def plan(self) -> Sequence[Json]:
        """Return the nodes of its graph."""
        return self.program.plan

    def wish(self, wish: Wish, seconds: float) -> WishAnswer:
        """Store a wish for the leader, and wait for its outcome."""
        return answer_to(wish, self.name, self._started.coordination, seconds)

    def elsewhere(self) -> Leader | None:
        """Return the process that leads while this one is a standby."""
        return self.query.rival if self.query else None

    def ingest(self, stream: str, request: IngestRequest) -> IngestAnswer:
        """Let the spout of ``stream`` store rows, unless the topology is paused."""
        spout = self.ingesting.get(stream)
        if spout is None:
            known = ", ".join(map(repr, self.ingesting)) or "none"
            return IngestAnswer(404, {"error": f"no spout receives the stream {stream!r}; there are: {known}"})
        status = self._started.status
        if status.is_paused or status.standing.hold is not Hold.NOTHING:
            return IngestAnswer(429, {"error": f"topology {self.name!r} is paused"}, RETRY_SECONDS)
        return spout.ingest(request)

    def answer(self, function: str, args: str, seconds: float) -> RequestAnswer:
        """Answer a request, which reads the states between two commits."""
        return self._started.answer(function, args, seconds)

    def metrics(self) -> bytes:
        """Return the metrics for Prometheus."""
        return self._prometheus.text()

    @property
    def _started(self) -> TridentQuery:
        if self.query is None:
            raise TridentError(f"topology {self.name!r} is just starting; try again", topology=self.name)
        return self.query
