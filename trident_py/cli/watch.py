"""The display of a running topology: shows its progress, and handles Ctrl-C."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from types import FrameType
from typing import IO, Any, cast

from attrs import define, field
from rich.console import Console
from rich.live import Live
from rich.text import Text

from trident_py.cli.jvm_noise import logged, quiet_spark
from trident_py.cli.logs import JSON, TEXT, LogStream
from trident_py.cli.progress_line import RecentRate, fitted, parts
from trident_py.cli.terminal import cell, failure_text, safe_lines
from trident_py.errors import TridentError
from trident_py.query import TridentQuery
from trident_py.runtime import steps

REFRESH_SECONDS = 0.2
LINE_SECONDS = 5.0
"""Minimum seconds between two lines if the display is not a terminal."""

QUIET_LINE_SECONDS = 60.0
"""Seconds until the next line if nothing has changed since the last."""


LOG_WIDTH = 1000
"""The width of a line in a JSON log, where nothing is cut off."""


class _Steps(logging.Handler):
    """Shows the log messages of a start."""

    def __init__(self, show: Callable[[str], object]) -> None:
        super().__init__()
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        self._show(record.getMessage())


@contextmanager
def _showing_steps(console: Console) -> Iterator[None]:
    """Show the steps of a start: next to a spinner, or one per line if there is no terminal."""
    with console.status("starting") as spinner:
        terminal = console.is_terminal
        say = partial(console.print, soft_wrap=True, highlight=False)

        def show(text: str) -> None:
            (spinner.update if terminal else say)(cell(text))

        handler, before = _Steps(show), (steps.level, steps.propagate)
        steps.addHandler(handler)
        steps.setLevel(logging.INFO)
        steps.propagate = False
        try:
            yield
        finally:
            steps.removeHandler(handler)
            steps.setLevel(before[0])
            steps.propagate = before[1]


@define(eq=False)
class Watch:
    """The display of one run, from its start.

    Attributes:
        query: the running topology.
        console: the console for progress: standard error, so that results can be piped.
        asked_to_stop: how often the user pressed Ctrl-C or the process received SIGTERM.
    """

    query: TridentQuery
    console: Console
    asked_to_stop: int = field(default=0, init=False)
    _begun: float = field(factory=time.monotonic, init=False)
    _stopping: int = field(default=0, init=False)
    _rate: RecentRate = field(factory=RecentRate, init=False)
    _said: tuple[Any, ...] = field(default=(), init=False)  # the content of the last line
    _next_line_at: float = field(factory=lambda: time.monotonic() + LINE_SECONDS, init=False)

    @classmethod
    def starting(cls, start: Callable[[], TridentQuery], *, debug: bool, log_format: str = TEXT) -> Watch:
        """Start a topology and watch it; with ``debug``, Spark's JVM may log."""
        # While its file descriptor is a pipe, standard error doesn't look like the terminal that it is.
        console = Console(stderr=True, force_terminal=sys.stderr.isatty() or None)
        if log_format == JSON:
            console = Console(file=cast("IO[str]", LogStream()), width=LOG_WIDTH)
        with ExitStack() as during:
            if log_format == JSON:
                during.enter_context(logged())
            if not debug:
                during.enter_context(quiet_spark())
            during.enter_context(_showing_steps(console))
            query = start()
        return cls(query, console)

    def until_end(self, *, once: bool) -> bool:
        """Wait until the topology ends; return False if the user interrupted the drain.

        Args:
            once: end it when all data that exists now is processed.

        Raises:
            TridentError: the error of the topology.
        """
        if once:
            threading.Thread(target=self._stop_when_idle, name="trident-once", daemon=True).start()
        with self._interruptible(), self._live():
            while not self.query.await_termination(timeout=REFRESH_SECONDS):
                self._rate.note(time.monotonic(), (self.query.last_progress or {}).get("total_input_rows", 0))
                self._stop_as_asked()
                self._print_now_and_then()
        return self._stopping < 2

    def summary(self) -> dict[str, Any]:
        """Return a summary of this run."""
        last = self.query.last_progress or {}
        seconds, rows = time.monotonic() - self._begun, last.get("total_input_rows", 0)
        return {
            "name": self.query.name,
            "committed_transactions": last.get("committed_transactions", 0),
            "total_input_rows": rows,
            "seconds": round(seconds, 1),
            "rows_per_second": round(rows / seconds),
            "zookeeper_writes": last.get("zookeeper_writes", 0),
            "next_txid": self.query.status.current_txid,
        }

    def line(self) -> str:
        """Return the progress line."""
        said = parts(self.query.name, self.query.status, self.summary(), self._rate.per_second)
        return fitted(said, self.console.width)

    def say(self, text: str) -> None:
        """Print a line above the display."""
        self.console.print(cell(text), soft_wrap=True, highlight=False)

    # --- stopping -----------------------------------------------------------------------------------------------------

    def _stop_when_idle(self) -> None:
        with suppress(TridentError):  # it has failed or was stopped; `until_end` raises that error too
            while not self._has_processed_all():
                if self.query.await_termination(timeout=REFRESH_SECONDS):
                    return
            self.query.stop(drain=True)

    def _has_processed_all(self) -> bool:
        """Wait until all data is processed. Return False while an operator holds the topology, or if it ends."""
        try:
            self.query.process_all_available()
        except TridentError:
            return False
        return True

    def _stop_as_asked(self) -> None:
        asked = min(self.asked_to_stop, 2)
        if asked == self._stopping:
            return
        self._stopping = asked
        drain = asked == 1
        self.say(
            "stopping when what is being processed is committed; Ctrl-C again to stop now"
            if drain
            else "stopping now; what is not committed is processed again next time"
        )
        # On a separate thread: `stop` returns only when the topology has ended; the user may ask again until then.
        threading.Thread(target=self._stop, args=(drain,), name="trident-stop", daemon=True).start()

    def _stop(self, drain: bool) -> None:
        try:
            self.query.stop(drain)
        except TridentError as error:  # leadership is kept
            self.say(failure_text(error))

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        def note(_: int, __: FrameType | None) -> None:
            self.asked_to_stop += 1
            if self.asked_to_stop > 2:
                raise KeyboardInterrupt

        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    # --- showing ------------------------------------------------------------------------------------------------------

    def _live(self) -> AbstractContextManager[object]:
        if not self.console.is_terminal:
            return nullcontext()
        return Live(
            console=self.console,
            get_renderable=lambda: Text(safe_lines(self.line()), overflow="fold"),
            refresh_per_second=1 / REFRESH_SECONDS,
            transient=True,
        )

    def _print_now_and_then(self) -> None:
        if self.query.exception() is not None:
            return  # it is ending; the error follows
        if self.console.is_terminal or time.monotonic() < self._next_line_at:
            return
        status, last = self.query.status, self.query.last_progress or {}
        now = (status.message, status.active, last.get("txid"))
        if now != self._said or time.monotonic() >= self._next_line_at + QUIET_LINE_SECONDS - LINE_SECONDS:
            self._said, self._next_line_at = now, time.monotonic() + LINE_SECONDS
            self.say(self.line())
