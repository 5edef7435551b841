"""`TaskWatch`: reports in which line of user code a resident task works, if a request takes long."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from attrs import define, field

from trident_py.worker.places import place_of

LOOK_SECONDS = 2.0
"""A request is reported each time that it is still there after this time. A short one costs nothing."""


@define(eq=False)
class TaskWatch:
    """Watches the thread that makes it, from another thread.

    While a C function keeps Python's lock, it can report nothing.

    Attributes:
        tell: called on the watching thread, with the number of a request and the position in the code.
        number: the request that the thread works on; None: it waits for one.
    """

    tell: Callable[[int, str], object]
    number: int | None = field(default=None, init=False)
    _seen: int | None = field(default=None, init=False)
    _watched: int = field(factory=threading.get_ident, init=False)
    _closed: threading.Event = field(factory=threading.Event, init=False)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look every two seconds while the block runs."""
        thread = threading.Thread(target=self._run, name="trident-resident-watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._closed.set()
            thread.join()

    @contextmanager
    def over(self, number: int) -> Iterator[None]:
        """Note that the block works on this request."""
        self.number = number
        try:
            yield
        finally:
            self.number = None

    def look(self) -> None:
        """Report the position if the thread still works on the request of the last look."""
        number = self.number
        if number is not None and number == self._seen:
            self.tell(number, place_of(self._watched))
        self._seen = number

    def _run(self) -> None:
        with suppress(OSError):  # the connection has ended, and the task notices it, too
            while not self._closed.wait(LOOK_SECONDS):
                self.look()
