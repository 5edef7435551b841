"""Threads that run user code: started when there is work for them, and waited for only as long as one likes.

They are daemons, other than those of ``concurrent.futures``: code that never returns doesn't keep the process alive.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from queue import SimpleQueue
from types import FrameType

from attrs import define, field

STANDARD_LIBRARY = os.path.dirname(threading.__file__)


@define(eq=False)
class Threads:
    """Up to ``count`` threads that take calls in the order in which these are submitted.

    Attributes:
        name: that of the threads, with a number behind it where there may be several.
        count: how many there are at most.
    """

    name: str
    count: int = 1
    _calls: SimpleQueue[Callable[[], object] | None] = field(factory=SimpleQueue, init=False)
    _threads: list[threading.Thread] = field(factory=list, init=False)
    _calling: set[threading.Thread] = field(factory=set, init=False)
    _idle: int = field(default=0, init=False)
    _is_open: bool = field(default=True, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def submit(self, call: Callable[[], object]) -> bool:
        """Have a thread make ``call``, which raises nothing; False if no thread takes calls any more."""
        with self._lock:
            if self._is_open:
                self._calls.put(call)
                self._start_one_if_needed()
            return self._is_open

    def close(self) -> None:
        """Take no more calls; those submitted before are still made."""
        with self._lock:
            if self._is_open:
                self._is_open = False
                for _ in self._threads:
                    self._calls.put(None)

    def wait(self, until: float) -> bool:
        """Tell whether all threads have ended, as they do after `close`; waits for that until this monotonic moment."""
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        return not self._living()

    def busy(self) -> list[str]:
        """Return the threads that are in the middle of a call, each with the place in the code where it is."""
        return [f"{thread.name!r}{_place(thread)}" for thread in self._living() if thread in self._calling]

    def _start_one_if_needed(self) -> None:
        if self._idle:
            self._idle -= 1
        elif len(self._threads) < self.count:
            name = self.name if self.count == 1 else f"{self.name}-{len(self._threads)}"
            thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self) -> None:
        while call := self._calls.get():
            self._calling.add(threading.current_thread())
            call()
            self._calling.remove(threading.current_thread())
            del call  # and with it the batch it is about
            with self._lock:
                self._idle += 1

    def _living(self) -> list[threading.Thread]:
        return [thread for thread in self._threads if thread.is_alive()]


def _place(thread: threading.Thread) -> str:
    """Return where ``thread`` is, without what it called of the standard library."""
    frame = _frame_of(thread)
    frames = [each for each in traceback.extract_stack(frame) if not each.filename.startswith(STANDARD_LIBRARY)]
    return f" in {frames[-1].name}, {frames[-1].filename}, line {frames[-1].lineno}" if frame and frames else ""


def _frame_of(thread: threading.Thread) -> FrameType | None:
    # Some versions of Python ask for frames under a lock of the interpreter's. Should garbage be collected then, a
    # finaliser, as Py4J has them, lets other threads run, and one that ends waits for the lock: python/cpython#106883.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 - documented, and there is no other
    finally:
        if was_enabled:
            gc.enable()
