"""`Running`: an emission or a job on a thread, as those see it that may cancel it."""

from __future__ import annotations

import threading

from attrs import define, field


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
