"""The end of a topology, between who asks for it, who carries it out and who waits for it.

Code of users' may never return. It is waited for some seconds; then leadership is given up and the thread is left
behind, since a store refuses what is written under an old epoch. What commits without such a fence is the exception:
nothing would refuse its late write, so leadership is kept while it commits, unless whoever stops the topology forces
the end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from attrs import define, field

from coordinators.values.errors import TridentError


@define(eq=False)
class Shutdown:
    """How one topology ends. Used from any thread.

    Attributes:
        patience: seconds that threads which run user code are waited for.
        forced: leadership is given up whatever is being committed.
        ended: nothing is done any more, and leadership is given up.
        held_by: why leadership is kept although the end was asked for; empty: it isn't.
        left_behind: the threads that had not returned when it ended, and where each of them was.
    """

    patience: float = 5.0
    forced: threading.Event = field(factory=threading.Event, init=False)
    ended: threading.Event = field(factory=threading.Event, init=False)
    held_by: str = field(default="", init=False)
    left_behind: Sequence[str] = field(default=(), init=False)
    _told: threading.Event = field(factory=threading.Event, init=False)
    _when_forced: list[Callable[[], object]] = field(factory=list, init=False)

    def when_forced(self, call: Callable[[], object]) -> None:
        """Have ``call`` called when the end is forced, from any thread and perhaps twice; at once if it is."""
        self._when_forced.append(call)
        if self.forced.is_set():
            call()

    def hold(self, why: str) -> None:
        """Tell whoever waits for the end that it can't come now, for this reason."""
        self.held_by = why
        self._told.set()

    def end(self) -> None:
        """End: nothing is done any more."""
        self.held_by = ""
        self.ended.set()
        self._told.set()

    def wait(self, *, force: bool) -> None:
        """Return when it has ended; with ``force`` that comes after some seconds, whatever is being committed.

        Raises:
            TridentError: leadership is kept, for the reason named.
        """
        if force:
            self.forced.set()
            for call in self._when_forced:
                call()
            self.ended.wait()
        self._told.wait()
        if not self.ended.is_set():
            raise TridentError(self.held_by)
