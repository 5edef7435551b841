"""Whoever is told of events, each on a thread of its own: one that raises, or is slow, hurts nobody."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from attrs import define, field

from coordinators.status.listener import EndedEvent, TopologyEvent, TridentListener
from coordinators.values.error_text import quoted
from coordinators.values.log_fields import log_about, logging_about
from trident_py.engine.monitoring.progress import Progress
from trident_py.engine.monitoring.standstill import StandstillWatch
from trident_py.errors import ConfigError
from trident_py.rows.schema import shown

log = logging.getLogger(__name__)

WAITING_MAX = 10_000
"""Events that wait for one receiver; of more, the oldest are dropped."""

DELIVER_SECONDS = 5.0
"""For listeners to take what waits for them when a topology ends."""


@define(eq=False)
class EventThread:
    """Hands events over on a thread of its own, in order; whoever tells it never waits.

    Attributes:
        receiver: whom to, for people.
        receive: is called with them, and never raises.
        waiting_max: how many may wait; of more, the oldest are dropped.
        at_once_max: how many are handed over at once.
        gather_seconds: how long the first of them waits for others, so that many are handed over at once.
        dropped: how many events it was too slow for.
    """

    topology: str
    receiver: str
    receive: Callable[[Sequence[TopologyEvent]], None]
    waiting_max: int = field(default=WAITING_MAX, kw_only=True)
    at_once_max: int = field(default=1, kw_only=True)
    gather_seconds: float = field(default=0.0, kw_only=True)
    dropped: int = field(default=0, init=False)
    _waiting: deque[TopologyEvent] = field(factory=deque, init=False)
    _changed: threading.Condition = field(factory=threading.Condition, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)
    _is_closing: bool = field(default=False, init=False)

    def tell(self, event: TopologyEvent) -> None:
        """Have the thread hand over ``event``, after those before it; never waits."""
        with self._changed:
            is_full = len(self._waiting) == self.waiting_max
            if is_full:
                self._waiting.popleft()
                self.dropped += 1
            self._waiting.append(event)
            if len(self._waiting) == 1:  # with more, the thread is awake, or gathers them
                self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"trident-{self.topology}-listener", daemon=True)
                self._thread.start()
        if is_full and self.dropped == 1:
            log.warning("topology %s: %s is too slow for its events; the oldest are dropped", *self._names)

    def close(self) -> None:
        """Close: nothing follows, and the thread ends when everything was taken."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()

    def join(self, until: float) -> None:
        """Wait until the thread has ended, or for that monotonic moment."""
        if self._thread is None or self._thread is threading.current_thread():
            return
        self._thread.join(max(0.0, until - time.monotonic()))
        if self._thread.is_alive():
            left = len(self._waiting)
            log.warning("topology %s: %s is waited for no longer; %d events wait for it", *self._names, left)

    @property
    def _names(self) -> tuple[str, str]:
        return self.topology, self.receiver

    def _run(self) -> None:
        log_about(topology=self.topology)
        while events := self._next():
            self.receive(events)

    def _next(self) -> list[TopologyEvent]:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closing)
            if self.gather_seconds:
                self._changed.wait_for(lambda: self._is_closing, self.gather_seconds)
            return [self._waiting.popleft() for _ in range(min(self.at_once_max, len(self._waiting)))]


@define(eq=False)
class ListenerCalls:
    """Calls one listener; what it raises is logged, once for each kind."""

    topology: str
    listener: TridentListener
    _logged: set[tuple[str, type[BaseException]]] = field(factory=set, init=False)

    def __call__(self, events: Sequence[TopologyEvent]) -> None:
        """Call it for each event."""
        for event in events:
            try:
                with logging_about(attempt=event.attempt):
                    self.listener.on_event(event)
            except BaseException as error:  # noqa: BLE001 - user code: the topology goes on, whatever it raises
                with logging_about(attempt=event.attempt):
                    self._log(event, error)

    def _log(self, event: TopologyEvent, error: BaseException) -> None:
        kind = (event.method, type(error))
        if kind in self._logged:
            return
        self._logged.add(kind)
        log.error(
            "topology %s: %s raised in %s; the topology goes on, and more of this kind is not logged",
            self.topology,
            shown_listener(self.listener),
            event.method,
            exc_info=quoted(error),
        )


@define(eq=False)
class Listeners:
    """Everybody who listens.

    Attributes:
        progress: the first; it is told on the thread that tells.
        others: users', and the history; they are told on threads of their own.
        standstill: finds out what is waited for where nothing happens.
        history_error: why the history can't be written just now; empty: it can, or none is kept.
    """

    topology: str = ""
    progress: Progress = field(factory=Progress)
    others: Sequence[EventThread] = ()
    history_error: Callable[[], str] = str

    standstill: StandstillWatch = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.standstill = StandstillWatch(self.topology, self.tell)

    def tell(self, event: TopologyEvent) -> None:
        """Tell all; never waits."""
        if isinstance(event, EndedEvent):
            self.standstill.close()  # it is the last event
        self.progress.on_event(event)
        for other in self.others:
            other.tell(event)

    @property
    def dropped(self) -> int:
        """How many events listeners were too slow for."""
        return sum(each.dropped for each in self.others)

    def close(self) -> None:
        """Return when all have heard everything, or after some seconds; nothing follows."""
        until = time.monotonic() + DELIVER_SECONDS
        for other in self.others:
            other.close()
        for other in self.others:
            other.join(until)


def listening(topology: str, listeners: Sequence[TridentListener]) -> Listeners:
    """Return `Progress`, and each of ``listeners`` on a thread of its own, which begins to run with its first event.

    One of them may be the `Progress` to keep, instead of one that keeps the last hundred.

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
    """Name it to people."""
    return f"the listener {type(listener).__name__}"
