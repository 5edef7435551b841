"""Threads that run user code.

`Threads` is a pool: its threads start when there is work for them, and callers wait for them only for a limited time.
They are daemons, unlike those of ``concurrent.futures``: code that never returns must not keep the process alive.
A spout has two threads, `SpoutThreads`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue

from attrs import define, field, frozen

from coordinators.batches.spout_coordinator import TridentSpoutCoordinator
from coordinators.record.record import CoordinatorRecord
from coordinators.values.cursors import Cursors
from trident_py.engine.threads.spout_executor import TridentSpoutExecutor
from trident_py.worker.places import place_of


@frozen(kw_only=True)
class ThreadWork:
    """The current work of a thread.

    Attributes:
        thread: its name.
        doing: a description of the work.
        since: when it began, in seconds since 1970.
        place: the position in the code, such as "in split, words.py, line 7"; empty: unknown.
    """

    thread: str
    doing: str
    since: float
    place: str


@define(eq=False)
class Threads:
    """Up to ``count`` threads that run calls in the order in which these are submitted.

    Attributes:
        name: of the threads, followed by a number if there may be several.
        count: the maximum number of threads.
    """

    name: str
    count: int = 1
    _calls: SimpleQueue[tuple[str, Callable[[], object]] | None] = field(factory=SimpleQueue, init=False)
    _threads: list[threading.Thread] = field(factory=list, init=False)
    _calling: dict[threading.Thread, tuple[str, float]] = field(factory=dict, init=False)
    _idle: int = field(default=0, init=False)
    _is_open: bool = field(default=True, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def submit(self, call: Callable[[], object], doing: str = "") -> bool:
        """Run ``call``, which must not raise, on a thread; return False if no thread accepts calls any more.

        It runs in a copy of the caller's context. ``doing`` describes it for people.
        """
        with self._lock:
            if self._is_open:
                self._calls.put((doing, partial(copy_context().run, call)))
                self._start_one_if_needed()
            return self._is_open

    def close(self) -> None:
        """Accept no more calls; those submitted before are still run."""
        with self._lock:
            if self._is_open:
                self._is_open = False
                for _ in self._threads:
                    self._calls.put(None)

    def wait(self, until: float) -> bool:
        """Wait until all threads have ended, at most until this monotonic moment; return true if they have.

        They end after `close`.
        """
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        return not self._living()

    def busy(self) -> list[str]:
        """Return the threads that run a call, each with its position in the code."""
        return [f"{each.thread!r} {each.place}".rstrip() for each in self.works()]

    def works(self) -> list[ThreadWork]:
        """Return the current work of the threads. Any thread may call it."""
        calling = dict(self._calling)
        return [
            ThreadWork(
                thread=thread.name, doing=calling[thread][0], since=calling[thread][1], place=place_of(thread.ident)
            )
            for thread in self._living()
            if thread in calling
        ]

    def _start_one_if_needed(self) -> None:
        if self._idle:
            self._idle -= 1
        elif len(self._threads) < self.count:
            name = self.name if self.count == 1 else f"{self.name}-{len(self._threads)}"
            thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self) -> None:
        while taken := self._calls.get():
            doing, call = taken
            self._calling[threading.current_thread()] = (doing, time.time())
            call()
            self._calling.pop(threading.current_thread())
            del taken, call  # and with it the batch that it processed
            with self._lock:
                self._idle += 1

    def _living(self) -> list[threading.Thread]:
        return [thread for thread in self._threads if thread.is_alive()]


class Unwanted(Exception):
    """The emission or job was cancelled before it began."""


@define(eq=False)
class Running:
    """An emission or job that runs on a thread and may be cancelled.

    Attributes:
        is_in_spark: there may be a Spark job that must be cancelled, too.
    """

    is_cancelled: bool = field(default=False, init=False)
    is_in_spark: bool = field(default=False, init=False)
    has_ended: bool = field(default=False, init=False)
    _ended: threading.Event | None = field(default=None, init=False)  # made when it is waited for

    def enter_spark(self) -> None:
        """Record that a Spark job may exist from here on.

        Raises:
            Unwanted: it was cancelled before.
        """
        self.is_in_spark = True  # before the check: `cancel` does both in the opposite order
        if self.is_cancelled:
            raise Unwanted

    def cancel(self) -> bool:
        """Cancel it; return true if there may be a Spark job to cancel."""
        self.is_cancelled = True
        return self.is_in_spark

    def end(self) -> None:
        """Record that it has ended."""
        self.has_ended = True  # before the look at who waits: `wait` does both in the opposite order
        if self._ended is not None:
            self._ended.set()

    def wait(self, seconds: float) -> None:
        """Wait until it has ended, at most for so long; for one thread."""
        self._ended = ended = self._ended or threading.Event()
        if not self.has_ended:
            ended.wait(seconds)


@define(eq=False)
class SpoutThreads:
    """One spout with its two halves, each on its own thread."""

    coordinator: TridentSpoutCoordinator
    executor: TridentSpoutExecutor
    coordinating: Threads
    emitting: Threads

    @classmethod
    def of(cls, coordinator: TridentSpoutCoordinator, executor: TridentSpoutExecutor) -> SpoutThreads:
        """Return both halves, with their threads."""
        name = f"trident-{executor.tx_id}"
        return cls(coordinator, executor, Threads(f"{name}-coordinator"), Threads(f"{name}-emitter"))

    @property
    def tx_id(self) -> str:
        """The spout's id."""
        return self.executor.tx_id

    def restore(self, record: CoordinatorRecord) -> None:
        """Restore the positions of both halves from the record; called once, first."""
        cursors = record.cursors.get(self.tx_id, Cursors())
        self.coordinator.restore(cursors)
        self.executor.restore(cursors, record.closed_number)
