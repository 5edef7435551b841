"""Listeners of users', each on a thread of its own: one that raises, or is slow, hurts nobody."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence

from attrs import define, field

from coordinators.listener import TopologyEvent, TridentListener
from trident_py.engine.progress import Progress
from trident_py.errors import ConfigError
from trident_py.rows.schema import shown

log = logging.getLogger(__name__)

WAITING_MAX = 10_000
"""Events that wait for one listener; of more, the oldest are dropped."""

DELIVER_SECONDS = 5.0
"""For listeners to take what waits for them when a topology ends."""


@define(eq=False)
class ListenerThread:
    """One listener, and the events that wait for it.

    Attributes:
        dropped: how many events it was too slow for.
    """

    topology: str
    listener: TridentListener
    waiting_max: int = WAITING_MAX
    dropped: int = field(default=0, init=False)
    _waiting: deque[TopologyEvent] = field(factory=deque, init=False)
    _changed: threading.Condition = field(factory=threading.Condition, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)
    _is_closing: bool = field(default=False, init=False)
    _logged: set[tuple[str, type[BaseException]]] = field(factory=set, init=False)

    def tell(self, event: TopologyEvent) -> None:
        """Have the listener's thread hand over ``event``, after those before it; never waits."""
        with self._changed:
            is_full = len(self._waiting) == self.waiting_max
            if is_full:
                self._waiting.popleft()
                self.dropped += 1
            self._waiting.append(event)
            self._changed.notify()
        if is_full and self.dropped == 1:
            log.warning("topology %s: %s is too slow for its events; the oldest are dropped", *self._names)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"trident-{self.topology}-listener", daemon=True)
            self._thread.start()

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
        return self.topology, f"the listener {type(self.listener).__name__}"

    def _run(self) -> None:
        while (event := self._next()) is not None:
            try:
                told(self.listener, event)
            except BaseException as error:  # noqa: BLE001 - user code: the topology goes on, whatever it raises
                self._log(event, error)

    def _next(self) -> TopologyEvent | None:
        with self._changed:
            while not self._waiting and not self._is_closing:
                self._changed.wait()
            return self._waiting.popleft() if self._waiting else None

    def _log(self, event: TopologyEvent, error: BaseException) -> None:
        kind = (event.method, type(error))
        if kind in self._logged:
            return
        self._logged.add(kind)
        log.error(
            "topology %s: %s raised in %s; the topology goes on, and more of this kind is not logged",
            *self._names,
            event.method,
            exc_info=error,
        )


@define(eq=False)
class Listeners:
    """Everybody who listens.

    Attributes:
        progress: the first; it is told on the thread that tells.
        others: users'; they are told on threads of their own.
    """

    progress: Progress = field(factory=Progress)
    others: Sequence[ListenerThread] = ()

    def tell(self, event: TopologyEvent) -> None:
        """Tell all; never waits."""
        told(self.progress, event)
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
    others = [ListenerThread(topology, other) for other in listeners if not isinstance(other, Progress)]
    given = (other for other in listeners if isinstance(other, Progress))
    return Listeners(progress=next(given, None) or Progress(), others=others)


def told(listener: TridentListener, event: TopologyEvent) -> None:
    """Call the method of ``listener`` that is for such an event."""
    getattr(listener, event.method)(event)
