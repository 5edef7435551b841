"""The thread that runs a `CoordinatorDriver`: an inbox, a clock, and turns until the end."""

from __future__ import annotations

import gc
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attrs import define, evolve, field

from coordinators.driver.driver import CoordinatorDriver
from coordinators.protocol.messages import IdleWanted, Message, StopRequested
from coordinators.status.status import TopologyStatus
from coordinators.values.error_text import quoted
from coordinators.values.errors import CoordinationLost, TridentError
from coordinators.values.log_fields import log_about
from coordinators.values.shutdown import Shutdown

log = logging.getLogger(__name__)


_sparing = 0
_sparing_lock = threading.Lock()


@contextmanager
def sparing_older_objects() -> Iterator[None]:
    """Let the garbage collector pass over the objects that exist now, until no thread is in such a block any more.

    Else each full collection looks at everything that was imported. With PySpark that takes 80 ms, in which no other
    thread of this process runs Python. Objects that are not part of a cycle are freed as always.
    """
    global _sparing
    with _sparing_lock:
        _sparing += 1
        gc.freeze()
    try:
        yield
    finally:
        with _sparing_lock:
            _sparing -= 1
            if not _sparing:
                gc.unfreeze()


@define(eq=False)
class Inbox:
    """Messages to the driver: posted from any thread, taken by one."""

    _queue: queue.SimpleQueue[Message] = field(factory=queue.SimpleQueue, init=False)
    _open: bool = field(default=True, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def post(self, message: Message) -> bool:
        """Queue ``message`` for the driver's next turn; return False if there will be none."""
        with self._lock:
            if self._open:
                self._queue.put(message)
            return self._open

    @property
    def is_open(self) -> bool:
        """Whether there will be another turn."""
        return self._open

    def take(self, timeout: float) -> list[Message]:
        """Return all queued messages; wait up to ``timeout`` seconds for the first."""
        messages: list[Message] = []
        try:
            messages.append(self._queue.get(timeout=timeout) if timeout > 0 else self._queue.get_nowait())
            while True:
                messages.append(self._queue.get_nowait())
        except queue.Empty:
            return messages

    def close(self) -> list[Message]:
        """Stop accepting messages, and return the unread ones."""
        with self._lock:
            self._open = False
        return self.take(0)


@define(eq=False)
class DriverLoop:
    """Runs a driver on its own thread until it has finished or failed.

    Attributes:
        topology: for messages.
        at_end: called on the loop's thread after the last turn, with the error that ended it, if any.
        driver: None while another process leads, and this one is a standby.
        take_over: called first, on the loop's thread, if there is no driver yet. Waits until this process leads, and
            returns the driver; returns None if ``withdraw`` was called.
        withdraw: makes ``take_over`` stop waiting.
        clock: the monotonic clock, in seconds.
        wall: the time of day, in seconds since 1970.
        shutdown: the state of the shutdown; it has ended after the last turn was taken and ``at_end`` has returned.
        error: the error that ended the loop; None if it was asked to stop.
    """

    topology: str
    inbox: Inbox
    at_end: Callable[[BaseException | None], None]
    driver: CoordinatorDriver | None = None
    take_over: Callable[[], CoordinatorDriver | None] = lambda: None
    withdraw: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    shutdown: Shutdown = field(factory=Shutdown)
    error: BaseException | None = field(default=None, init=False)
    _taken: Iterator[Message] = field(factory=lambda: iter(()), init=False)
    _waiting: list[IdleWanted] = field(factory=list, init=False)

    @property
    def ended(self) -> threading.Event:
        """Set when the loop has ended."""
        return self.shutdown.ended

    @property
    def status(self) -> TopologyStatus:
        """The status that the driver has published, and how the loop ends; any thread may read it."""
        driver, is_active = self.driver, not self.ended.is_set()
        status = driver.publisher.status if driver else TopologyStatus(topology=self.topology)
        return evolve(
            status,
            is_active=is_active,
            is_leading=status.is_leading and is_active,
            held_by=self.shutdown.held_by,
            left_behind=self.shutdown.left_behind,
            error=self.error,
        )

    def start(self) -> None:
        """Start the thread and take the first turn."""
        threading.Thread(target=self._run, name=f"trident-{self.topology}-driver", daemon=True).start()

    def stop(self, drain: bool, force: bool = False) -> None:
        """Ask the driver to stop, and return when it has stopped.

        Raises:
            TridentError: leadership is kept, for the reason named.
        """
        self.ask_to_stop(drain and not force)
        self.shutdown.wait(force=force)

    def ask_to_stop(self, drain: bool) -> None:
        """Ask the driver to stop, without waiting for it."""
        self.inbox.post(StopRequested(drain))
        self.withdraw()

    def _run(self) -> None:
        log_about(topology=self.topology)
        with sparing_older_objects():
            self.error = self._ends_with(self._turns)
        try:
            self.error = self._ends_with(self._end) or self.error
            self.at_end(self.error)
        finally:
            self.shutdown.end()
            self._dismiss(self.error or TridentError(f"topology {self.topology!r} was stopped", topology=self.topology))

    def _turns(self) -> None:
        self.driver = driver = self.driver or self.take_over()
        if driver is None:
            return
        log_about(epoch=driver.store.epoch)
        driver.start(self.clock(), self.wall())
        while not driver.finished:
            now = self.clock()
            self._taken = iter(self.inbox.take(driver.next_turn_at(now) - now))
            driver.turn(self._taken, self.clock(), self.wall())

    def _end(self) -> None:
        unread = [*self._taken, *self.inbox.close()]  # the last turn may have ended halfway
        if self.driver is None:
            self._waiting = [message for message in unread if isinstance(message, IdleWanted)]
        else:
            self.driver.end(self.error, unread)

    def _dismiss(self, error: BaseException) -> None:
        # Only now: a waiter that is notified may start the topology again at once.
        for wanted in self._waiting:
            wanted.done(error)
        if self.driver is not None:
            self.driver.idle.refuse(error)

    def _ends_with(self, run: Callable[[], None]) -> BaseException | None:
        try:
            run()
        except TridentError as error:
            cause = self._judged(error).locate(topology=self.topology)
            log.error("topology %s ends: %s", self.topology, cause)
            return cause
        except BaseException as error:
            log.error("topology %s ends with a defect of ours", self.topology, exc_info=quoted(error))
            return error
        return None

    def _judged(self, error: TridentError) -> TridentError:
        if self.driver is None or not isinstance(error, CoordinationLost):
            return error
        cause = self.driver.store.explain_loss(error)
        if cause is not error:
            cause.__cause__ = error
        return cause
