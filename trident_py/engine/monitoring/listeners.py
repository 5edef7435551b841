"""Delivery of events to listeners, and the detection of standstills.

Each listener has its own thread (`EventThread`). So one that raises or is slow affects no other component.
`StandstillWatch` finds out why no transaction makes progress. `Listeners` combines both with `Progress`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from typing import Any

from attrs import define, field

from coordinators.record.wishes import Hold
from coordinators.status.listener import (
    Counts,
    EndedEvent,
    StandstillEvent,
    Tell,
    TopologyEvent,
    TransactionEvent,
    TridentListener,
    tell_nobody,
)
from coordinators.status.status import TopologyStatus, Wait
from coordinators.values.error_text import quoted
from coordinators.values.log_fields import log_about, logging_about
from trident_py.engine.threads.threads import ThreadWork
from trident_py.errors import ConfigError
from trident_py.rows.schema import shown
from trident_py.worker.places import place_of

log = logging.getLogger(__name__)


RECENT = 100
"""How many transactions ``recent_progress`` remembers, so that the memory of a run does not grow with its length."""


class TransactionProgress(dict[str, Any]):
    """The progress of a committed transaction: a dict with its values also as attributes, as in PySpark's progress."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no {name!r}; there are {', '.join(self)}") from None


@define(eq=False)
class Progress(TridentListener):
    """The first listener: keeps an entry for each committed transaction.

    It is called on the driver's thread, before any component is notified of a success. So the receiver of a success
    finds its entry.

    Attributes:
        recent_max: how many entries it keeps; None: all.
    """

    recent_max: int | None = RECENT
    _committed: int = field(default=0, init=False)
    _totals: Counts = field(factory=Counts, init=False)
    _writes: Callable[[], int] = field(default=int, init=False)
    _metrics: Callable[[], Any] = field(default=dict, init=False)
    _recent: deque[TransactionProgress] = field(init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        self._recent = deque(maxlen=self.recent_max)

    def follow(self, writes: Callable[[], int], metrics: Callable[[], Any]) -> None:
        """Set the sources of values, from the takeover on.

        Args:
            writes: returns the synchronous ZooKeeper rounds so far.
            metrics: returns the metrics of user code.
        """
        self._writes, self._metrics = writes, metrics

    def on_committed(self, event: TransactionEvent) -> None:
        self._committed += 1
        self._totals += Counts(event.rows, event.counts)
        entry = TransactionProgress(
            name=event.topology,
            timestamp=datetime.fromtimestamp(event.at, UTC).isoformat(timespec="milliseconds"),
            txid=event.attempt.txid,
            attempt_id=event.attempt.attempt_id,
            num_input_rows=event.rows,
            counts=dict(event.counts),
            duration_ms={
                "processing": _millis(event.processing),
                "committing": _millis(event.committing),
                "total": _millis(event.processing + event.committing),
            },
            committed_transactions=self._committed,
            total_input_rows=self._totals.rows,
            total_counts=dict(self._totals.by_name),
            zookeeper_writes=self._writes(),
            metrics=self._metrics(),
        )
        with self._lock:
            self._recent.append(entry)

    def recent(self) -> list[TransactionProgress]:
        """Return the last transactions, oldest first."""
        with self._lock:
            return list(self._recent)


def _millis(seconds: float) -> float:
    return round(seconds * 1000, 1)


LOOK_SECONDS = 1.0
QUIET_SECONDS = 5.0
"""A standstill begins after this time without progress; a living driver takes a turn once a second."""

LOG_SECONDS = 30.0
"""After this time of a standstill, its reasons are logged."""


def waits(status: TopologyStatus, works: Sequence[ThreadWork], driver_place: str, now: float) -> Iterator[Wait]:
    """Yield the reasons for a standstill, the one that blocks everything first. Pure.

    Args:
        status: as the driver last published it.
        works: the current work of all threads.
        driver_place: the position of the driver's thread in the code.
        now: in seconds since 1970.
    """
    if now - status.at >= QUIET_SECONDS:
        yield Wait(f"the driver's thread {driver_place}".rstrip(), status.at)
    yield from _holds(status)
    for transaction in status.transactions[:1]:
        yield Wait(f"transaction {transaction.attempt} is {transaction.phase}", transaction.since)
    for work in sorted(works, key=lambda each: each.since):
        if now - work.since >= LOOK_SECONDS:
            yield Wait(f"{work.doing}, on thread {work.thread!r} {work.place}".rstrip(), work.since)
    for busy in status.busy_tasks:
        yield Wait(f"resident task {busy.task} processes a batch {busy.place}".rstrip(), status.at - busy.seconds)
    if not status.transactions and not status.is_paused:
        for spout in status.unready:
            yield Wait(f"spout {spout!r} has no input")


def _holds(status: TopologyStatus) -> Iterator[Wait]:
    """Yield the reasons why no batch starts."""
    if status.standing.hold is not Hold.NOTHING:
        yield Wait(f"an operator has it {status.standing.hold}; `trident resume {status.topology}` lifts that")
    elif status.is_paused:
        yield Wait("query.pause() was called, and query.resume() was not")
    for source in status.sources:
        yield Wait(f"the source of spout {source.spout!r} is unavailable: {source.cause}", source.since)
    if status.held_until is not None and not status.sources:
        at = time.strftime("%H:%M:%S", time.localtime(status.held_until))
        failure = status.failures.get(status.current_txid or 0)
        why = f"; tries so far: {failure.tries}, the last failed by {failure.cause}" if failure else ""
        yield Wait(f"the next try of transaction {status.current_txid} at {at}{why}")


@define(eq=False)
class StandstillWatch:
    """Checks once a second, from `follow` on, and publishes changes to listeners.

    Attributes:
        topology: its name.
        tell: called with each change.
        waits_for: the current reasons for a standstill; empty: there was progress lately. Any thread may read it.
    """

    topology: str
    tell: Tell = tell_nobody
    waits_for: tuple[Wait, ...] = field(default=(), init=False)
    _status: Callable[[], TopologyStatus] = field(init=False)
    _works: Callable[[], Sequence[ThreadWork]] = field(init=False)
    _beyond: Sequence[Callable[[], Mapping[str, str]]] = field(init=False)
    _seen: Mapping[str, float] = field(factory=dict, init=False)  # when each outside cause was first seen
    _closed: threading.Event = field(factory=threading.Event, init=False)
    _telling: threading.Lock = field(factory=threading.Lock, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)
    _is_logged: bool = field(default=False, init=False)

    def follow(
        self,
        status: Callable[[], TopologyStatus],
        works: Callable[[], Sequence[ThreadWork]],
        *beyond: Callable[[], Mapping[str, str]],
    ) -> None:
        """Set the sources to check: the driver's status, the threads, and causes outside of this process.

        Each source in ``beyond`` returns sentences by name. The name of a cause is constant, its sentence may change.
        """
        self._status, self._works, self._beyond = status, works, beyond
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"trident-{self.topology}-standstill", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Publish no more changes; returns at once."""
        self._closed.set()
        with self._telling:
            self.waits_for = ()

    def join(self, until: float) -> None:
        """Wait until the thread has ended, at most until this monotonic moment."""
        if self._thread is not None:
            self._thread.join(max(0.0, until - time.monotonic()))

    def _run(self) -> None:
        log_about(topology=self.topology)
        while not self._closed.wait(LOOK_SECONDS):
            try:
                self.look(time.time())
            except Exception as error:
                log.error(
                    "topology %s: the reason for its standstill could not be determined; it continues",
                    self.topology,
                    exc_info=quoted(error),
                )

    def look(self, now: float) -> None:
        """Determine the reasons for a standstill, if there is one, and publish them if they have changed."""
        status = self._status()
        is_quiet = 0.0 < status.moved <= now - QUIET_SECONDS  # 0.0: its driver has not begun
        found = self._found(status, now) if is_quiet else ()
        if not is_quiet:
            self._seen = {}
        with self._telling:
            if self._closed.is_set():
                return
            is_news = [each.what for each in found] != [each.what for each in self.waits_for]
            self.waits_for = found
            if is_news:
                self.tell(StandstillEvent(topology=self.topology, at=now, waits_for=found))
        self._log(found, now - status.moved, now)

    def _found(self, status: TopologyStatus, now: float) -> tuple[Wait, ...]:
        works = self._works()
        driver = next((each for each in threading.enumerate() if each.name == f"trident-{self.topology}-driver"), None)
        found = [*waits(status, works, place_of(driver.ident) if driver else "", now)]
        told = {name: text for ask in self._beyond for name, text in ask().items()} if status.transactions else {}
        self._seen = {name: self._seen.get(name, now) for name in told}
        return (*found, *(Wait(text, self._seen[name]) for name, text in told.items()))

    def _log(self, found: Sequence[Wait], quiet_seconds: float, now: float) -> None:
        if found and quiet_seconds >= LOG_SECONDS and not self._is_logged:
            said = "; ".join(each.message(now) for each in found)
            log.info("topology %s: nothing has happened for %.0f s: %s", self.topology, quiet_seconds, said)
        self._is_logged = bool(found) and quiet_seconds >= LOG_SECONDS


WAITING_MAX = 10_000
"""The most events that wait for one receiver; beyond that, the oldest are dropped."""

AT_ONCE_MAX = 100
"""The most events that a receiver is called with, if so many wait."""

DELIVER_SECONDS = 5.0
"""The time for listeners to process waiting events when a topology ends."""


@define(eq=False)
class EventThread:
    """Delivers events in order on its own thread; the sender never waits.

    Attributes:
        receiver: its name, for people.
        receive: called with the events; never raises.
        waiting_max: how many may wait; beyond that, the oldest are dropped.
        at_once_max: how many are delivered in one call.
        gather_seconds: how long the first of them waits for others, so that one call delivers many.
        dropped: how many events were dropped because the receiver was too slow.
    """

    topology: str
    receiver: str
    receive: Callable[[Sequence[TopologyEvent]], None]
    waiting_max: int = field(default=WAITING_MAX, kw_only=True)
    at_once_max: int = field(default=AT_ONCE_MAX, kw_only=True)
    gather_seconds: float = field(default=0.0, kw_only=True)
    dropped: int = field(default=0, init=False)
    _waiting: SimpleQueue[TopologyEvent | None] = field(factory=SimpleQueue, init=False)  # None: the end
    _thread: threading.Thread | None = field(default=None, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)  # for what seldom happens
    _closing: threading.Event = field(factory=threading.Event, init=False)

    def tell(self, event: TopologyEvent) -> None:
        """Queue ``event`` for delivery after the earlier ones; never waits."""
        if self._waiting.qsize() >= self.waiting_max:
            self._drop_oldest()
        self._waiting.put(event)
        if self._thread is None:
            self._start()

    def _drop_oldest(self) -> None:
        with self._lock, suppress(Empty):
            self._waiting.get_nowait()
            self.dropped += 1
            if self.dropped == 1:
                log.warning("topology %s: %s is too slow for its events; the oldest are dropped", *self._names)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name=f"trident-{self.topology}-listener", daemon=True)
                thread.start()
                self._thread = thread

    def close(self) -> None:
        """Accept the end: no events follow, and the thread ends after it has delivered the waiting ones."""
        self._closing.set()
        self._waiting.put(None)

    def join(self, until: float) -> None:
        """Wait until the thread has ended, at most until this monotonic moment."""
        if self._thread is None or self._thread is threading.current_thread():
            return
        self._thread.join(max(0.0, until - time.monotonic()))
        if self._thread.is_alive():
            left = self._waiting.qsize() - 1  # without the end
            log.warning(
                "topology %s: %s is too slow and is not waited for any longer; %d events are left", *self._names, left
            )

    @property
    def _names(self) -> tuple[str, str]:
        return self.topology, self.receiver

    def _run(self) -> None:
        log_about(topology=self.topology)
        while events := self._next():
            self.receive(events)

    def _next(self) -> list[TopologyEvent]:
        """Return the next events; wait for the first of them. Nothing: it is the end."""
        events: list[TopologyEvent] = []
        event = self._waiting.get()
        if event is not None and self.gather_seconds:
            self._closing.wait(self.gather_seconds)
        with suppress(Empty):
            while event is not None:
                events.append(event)
                if len(events) == self.at_once_max:
                    return events
                event = self._waiting.get_nowait()
            self._waiting.put(None)  # for the next call
        return events


@define(eq=False)
class ListenerCalls:
    """Calls one listener; its exceptions are logged, once for each kind."""

    topology: str
    listener: TridentListener
    _logged: set[tuple[str, type[BaseException]]] = field(factory=set, init=False)

    def __call__(self, events: Sequence[TopologyEvent]) -> None:
        """Call the listener for each event."""
        for event in events:
            try:
                with logging_about(attempt=event.attempt):
                    self.listener.on_event(event)
            except BaseException as error:  # noqa: BLE001 - user code: the topology continues after any exception
                with logging_about(attempt=event.attempt):
                    self._log(event, error)

    def _log(self, event: TopologyEvent, error: BaseException) -> None:
        kind = (event.method, type(error))
        if kind in self._logged:
            return
        self._logged.add(kind)
        log.error(
            "topology %s: %s raised in %s; the topology continues, and further errors of this kind are not logged",
            self.topology,
            shown_listener(self.listener),
            event.method,
            exc_info=quoted(error),
        )


@define(eq=False)
class Listeners:
    """All listeners of a topology.

    Attributes:
        progress: the first; it is called on the sender's thread.
        others: the users' listeners, and the history; each is called on its own thread.
        standstill: finds out the reasons for a standstill.
        history_error: returns why the history can't be written just now; empty: it can, or none is kept.
    """

    topology: str = ""
    progress: Progress = field(factory=Progress)
    others: Sequence[EventThread] = ()
    history_error: Callable[[], str] = str

    standstill: StandstillWatch = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.standstill = StandstillWatch(self.topology, self.tell)

    def tell(self, event: TopologyEvent) -> None:
        """Send ``event`` to all listeners; never waits."""
        if isinstance(event, EndedEvent):
            self.standstill.close()  # it is the last event
        self.progress.on_event(event)
        for other in self.others:
            other.tell(event)

    @property
    def dropped(self) -> int:
        """How many events were dropped because listeners were too slow."""
        return sum(each.dropped for each in self.others)

    def close(self) -> None:
        """Return when all events are delivered and all threads have ended, or after some seconds; no event follows."""
        until = time.monotonic() + DELIVER_SECONDS
        for other in self.others:
            other.close()
        for other in self.others:
            other.join(until)
        self.standstill.join(until)


def listening(topology: str, listeners: Sequence[TridentListener]) -> Listeners:
    """Return `Progress` and ``listeners``, each of these on its own thread, which starts with its first event.

    One of them may be the `Progress` to use, instead of one that keeps the last hundred.

    Raises:
        ConfigError: one is no listener.
    """
    for other in listeners:
        if not isinstance(other, TridentListener):
            raise ConfigError(
                f"topology {topology!r}: a listener is an instance of TridentListener, not {shown(other)}"
            )
    others = [
        EventThread(topology, shown_listener(other), ListenerCalls(topology, other))
        for other in listeners
        if not isinstance(other, Progress)
    ]
    given = (other for other in listeners if isinstance(other, Progress))
    return Listeners(topology, next(given, None) or Progress(), others)


def shown_listener(listener: TridentListener) -> str:
    """Return its name for people."""
    return f"the listener {type(listener).__name__}"
