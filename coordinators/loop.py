"""The thread that runs a `CoordinatorDriver`: an inbox, a clock, and turns until the end."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable

from attrs import define, field

from coordinators.driver import CoordinatorDriver
from coordinators.errors import TridentError
from coordinators.notices import Notice

log = logging.getLogger(__name__)


@define(eq=False)
class Inbox:
    """Notices on their way to the driver; posted from any thread, taken by one."""

    _queue: queue.SimpleQueue[Notice] = field(factory=queue.SimpleQueue, init=False)
    _open: bool = field(default=True, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def post(self, notice: Notice) -> bool:
        """Leave ``notice`` for the driver's next turn; False if there will be none."""
        with self._lock:
            if self._open:
                self._queue.put(notice)
            return self._open

    def take(self, timeout: float) -> list[Notice]:
        """All that is there; waits up to ``timeout`` seconds for the first."""
        notices: list[Notice] = []
        try:
            notices.append(self._queue.get(timeout=timeout) if timeout > 0 else self._queue.get_nowait())
            while True:
                notices.append(self._queue.get_nowait())
        except queue.Empty:
            return notices

    def close(self) -> list[Notice]:
        """Take no more; returns what nobody will look at."""
        with self._lock:
            self._open = False
        return self.take(0)


@define(eq=False)
class DriverLoop:
    """Runs ``driver`` on a thread of its own until it has finished or failed.

    Attributes:
        ended: set when the last turn was taken and ``at_end`` has returned.
        error: what ended it, if it was not asked to stop.
    """

    driver: CoordinatorDriver
    inbox: Inbox
    at_end: Callable[[BaseException | None], None]
    clock: Callable[[], float] = time.monotonic
    ended: threading.Event = field(factory=threading.Event, init=False)
    error: BaseException | None = field(default=None, init=False)

    def start(self) -> None:
        """Take the first turn, and go on from there."""
        threading.Thread(target=self._run, name=f"trident-{self.driver.topology}-driver", daemon=True).start()

    def _run(self) -> None:
        self.error = self._ends_with(self._turns)
        try:
            self.error = self._ends_with(self._end) or self.error
            self.at_end(self.error)
        finally:
            self.ended.set()

    def _turns(self) -> None:
        self.driver.start(self.clock())
        while not self.driver.finished:
            now = self.clock()
            self.driver.turn(self.inbox.take(self.driver.next_turn_at(now) - now), self.clock())

    def _end(self) -> None:
        self.driver.end(self.error, self.inbox.close())

    def _ends_with(self, run: Callable[[], None]) -> BaseException | None:
        try:
            run()
        except TridentError as error:
            log.error("topology %s ends: %s", self.driver.topology, error)
            return error
        except BaseException as error:
            log.exception("topology %s ends with a defect of ours", self.driver.topology)
            return error
        return None
