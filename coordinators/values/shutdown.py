"""The shutdown of a topology, shared by the caller, the threads that carry it out, and the waiting threads.

User code may never return. The shutdown waits for it for some seconds. Then leadership is released and the thread is
left behind, because stores refuse writes under an old epoch.

A commit without such a fence is the exception: a late write would not be refused. So leadership is kept while it
commits, unless the caller forces the end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from attrs import define, field

from coordinators.values.errors import TridentError


@define(eq=False)
class Shutdown:
    """The state of one topology's shutdown. Used from any thread.

    Attributes:
        patience: seconds to wait for threads that run user code.
        forced: set if leadership is to be released even during a commit.
        ended: set when all work has ended, and leadership is released.
        held_by: why leadership is kept although the process was asked to stop; empty: it isn't.
        left_behind: the threads that had not returned at the end, and the position of each in the code.
    """

    patience: float = 5.0
    forced: threading.Event = field(factory=threading.Event, init=False)
    ended: threading.Event = field(factory=threading.Event, init=False)
    held_by: str = field(default="", init=False)
    left_behind: Sequence[str] = field(default=(), init=False)
    _told: threading.Event = field(factory=threading.Event, init=False)
    _when_forced: list[Callable[[], object]] = field(factory=list, init=False)

    def when_forced(self, call: Callable[[], object]) -> None:
        """Call ``call`` when the end is forced, on any thread and perhaps twice; immediately if it is already."""
        self._when_forced.append(call)
        if self.forced.is_set():
            call()

    def hold(self, why: str) -> None:
        """Notify the waiting threads that the topology can't end now, for this reason."""
        self.held_by = why
        self._told.set()

    def end(self) -> None:
        """Mark the shutdown as finished: no work continues."""
        self.held_by = ""
        self.ended.set()
        self._told.set()

    def wait(self, *, force: bool) -> None:
        """Return when the topology has ended; this wait has no time limit.

        With ``force``, leadership is released after some seconds, even during a commit.

        Raises:
            TridentError: without ``force``, the topology can't end now and keeps leading; the message is the reason.
        """
        if force:
            self.forced.set()
            for call in self._when_forced:
                call()
            self.ended.wait()
        self._told.wait()
        if not self.ended.is_set():
            raise TridentError(self.held_by)
