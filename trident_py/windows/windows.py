"""Windows: the rows of a stream that are aggregated together, across batches, by count or by time.

This module only calculates: rows are numbered from 0 as they come, and a firing window is a range of numbers. It reads
no clock and stores nothing; `trident_py.windows.window_store` stores rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import TypedDict

from attrs import Attribute, field, frozen

from trident_py.errors import TopologyError

MICROS = 1_000_000
"""Microseconds in a second. Times are ints, in microseconds since the epoch."""


_SHORTEST_SECONDS = 0.001
_GRAINS = 32


@frozen
class WindowProgress:
    """The progress of a window; with its rows, all of its state.

    Attributes:
        seen: the number of rows so far, which is the number of the next row.
        time: the window's time, rounded down as far as that makes no difference. Windows by time only.
        panes: for each group of rows that came at one time, the time and the number of its first row; ascending. Rows
            that no future window needs are left out. Windows by time only.
        ahead: by how much its time is ahead of the times that it receives, because these went back while it held rows.
    """

    seen: int = 0
    time: int = 0
    panes: tuple[tuple[int, int], ...] = ()
    ahead: int = 0


@frozen
class Firing:
    """A window that fires: the rows with the numbers ``start`` to ``stop`` - 1, at least one.

    Attributes:
        trigger: identifies it, in ascending order. By count: 1 for the first, 2 for the second, …; by time: the end of
            the window, in microseconds since the epoch.
    """

    trigger: int
    start: int
    stop: int


@frozen
class Advance:
    """The result of more rows, or of a later time.

    Attributes:
        fired: the windows that fired, in order.
        after: the new progress.
        keep: the number of the first row that a future window may need.
    """

    fired: tuple[Firing, ...]
    after: WindowProgress
    keep: int


class Window(ABC):
    """A kind of window: it decides which rows are aggregated together, and when."""

    @property
    @abstractmethod
    def is_timed(self) -> bool:
        """Whether it fires by time."""

    @property
    @abstractmethod
    def slug(self) -> str:
        """Kind and sizes as an identifier, under which its rows are stored."""


class PanedWindow(Window):
    """A window by event time. A pane is a span of time whose rows are always in the same windows, and late together."""

    @property
    @abstractmethod
    def pane_sizes(self) -> tuple[int, int]:
        """The sizes of its panes, in microseconds: those of windows with a length and a slide; see `pane`."""


class ArrivalWindow(Window):
    """A window that can take rows as they come: by their count, or by the time of their transaction.

    If it fires by time, the windows of all keys fire at once.
    """

    @property
    @abstractmethod
    def length_micros(self) -> int | None:
        """Its length in microseconds; None for a window by count."""

    @abstractmethod
    def advance(self, progress: WindowProgress, rows: int, now: int) -> Advance:
        """Add ``rows`` more rows (or none) at the time ``now``, and return the result."""

    @abstractmethod
    def next_firing_at(self, progress: WindowProgress) -> int | None:
        """Return the lowest ``now`` at which it fires without more rows, or None."""


def _check_count(_: object, attribute: Attribute[int], value: object) -> None:
    if type(value) is not int or value < 1:
        raise TopologyError(f"the {attribute.name} of a window is a number of rows from 1, not {value!r}")


def _seconds(value: float | timedelta) -> float:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
        raise TopologyError(f"a duration is a finite number of seconds or a timedelta, not {value!r}")
    return float(seconds)


def _check_duration(_: object, attribute: Attribute[float], value: float) -> None:
    if value < _SHORTEST_SECONDS:
        raise TopologyError(f"the {attribute.name} of a window is {_SHORTEST_SECONDS} s or longer, not {value} s")


def _check_gap(_: object, __: Attribute[float], value: float) -> None:
    if value < _SHORTEST_SECONDS:
        raise TopologyError(f"the gap of a session is {_SHORTEST_SECONDS} s or longer, not {value} s")


def _check_slide(window: SlidingCount | SlidingDuration, _: object, slide: float) -> None:
    if slide > window.length:
        raise TopologyError(
            f"a window of length {window.length} can't slide by {slide}: rows would be in none; slide by at most its "
            f"length"
        )


class _CountWindow(ArrivalWindow):
    @property
    @abstractmethod
    def _sizes(self) -> tuple[int, int]:
        """Length and slide, in rows."""

    @property
    def is_timed(self) -> bool:
        return False

    @property
    def length_micros(self) -> None:
        return None

    def advance(self, progress: WindowProgress, rows: int, now: int) -> Advance:
        """Fire after each ``slide`` rows, with the last ``length`` rows, or with all if there are fewer."""
        length, slide = self._sizes
        seen = progress.seen + rows
        done, due = progress.seen // slide, seen // slide
        fired = tuple(
            Firing(trigger, max(0, trigger * slide - length), trigger * slide) for trigger in range(done + 1, due + 1)
        )
        return Advance(fired, WindowProgress(seen), max(0, (due + 1) * slide - length))

    def next_firing_at(self, progress: WindowProgress) -> int | None:
        """Return None: only rows make it fire."""
        return None


class DurationWindow(ArrivalWindow, PanedWindow):
    """A window of a fixed length of time: by the time of transactions, or by event time.

    A pane is the time between two neighbouring moments at which windows begin or end, and named by its beginning. All
    rows of a pane are in the same windows.
    """

    @property
    @abstractmethod
    def _sizes(self) -> tuple[int, int]:
        """Length and slide, in microseconds."""

    @property
    def slide_micros(self) -> int:
        """The time from one end of a window to the next."""
        return self._sizes[1]

    @property
    def is_timed(self) -> bool:
        return True

    @property
    def length_micros(self) -> int:
        return self._sizes[0]

    def advance(self, progress: WindowProgress, rows: int, now: int) -> Advance:
        """Fire for each multiple of ``slide`` that has passed; then add the rows, which came at ``now``.

        The window that ends at ``e`` has the rows that came from ``e`` - ``length`` until before ``e``. If ``now`` goes
        back while there are rows, the window's time stays, and advances from there as ``now`` does. So windows fire
        although a clock was ahead for a while. If there are no rows, ``now`` is its time.
        """
        length, slide = self._sizes
        panes = progress.panes
        own = max(progress.time, now + progress.ahead) if panes else now
        time, ahead = self.pane(own), own - now
        fired: list[Firing] = []
        end = _next(progress.time, slide)
        # All rows came before this end, because none is newer than the last time: a window has all from its first on.
        while panes and end <= time and end - length <= panes[-1][0]:
            first = bisect_left(panes, (end - length,))
            fired.append(Firing(end, panes[first][1], progress.seen))
            end += slide
        panes = panes[bisect_left(panes, (_next(time, slide) - length,)) :]
        if not panes:
            time, ahead = self.pane(now), 0
        if rows and not (panes and panes[-1][0] == time):
            panes = (*panes, (time, progress.seen))
        after = WindowProgress(progress.seen + rows, time, panes, ahead)
        return Advance(tuple(fired), after, panes[0][1] if panes else after.seen)

    def next_firing_at(self, progress: WindowProgress) -> int | None:
        """Return the end of the next window, if there are rows: it has all rows that are left."""
        _, slide = self._sizes
        return _next(progress.time, slide) - progress.ahead if progress.panes else None

    @property
    def pane_sizes(self) -> tuple[int, int]:
        return self._sizes

    def pane(self, time: int) -> int:
        """Return the last time up to ``time`` at which a window begins or ends."""
        return pane(time, *self._sizes)

    def ends_between(self, panes: Iterable[int], after: int | None, upto: int) -> Iterator[int]:
        """Yield the ends after ``after``, and up to ``upto``, of windows that have one of ``panes``; all ascending.

        Args:
            panes: panes with rows.
            after: a multiple of the slide; None: from the first end on.
            upto: the last end, if there is a window that ends then.
        """
        length, slide = self._sizes
        for pane in panes:
            end = _next(pane, slide) if after is None else max(_next(pane, slide), after + slide)
            while end - length <= pane and end <= upto:
                yield end
                after, end = end, end + slide

    def is_done(self, pane: int, bound: int) -> bool:
        """Return whether no window that ends after ``bound``, a multiple of the slide, has ``pane``."""
        length, slide = self._sizes
        return pane < bound + slide - length


def pane(time: int, length: int, slide: int) -> int:
    """Return the last time up to ``time`` at which a window of these sizes begins or ends."""
    return max(time // slide * slide, (time + length) // slide * slide - length)


def _next(time: int, slide: int) -> int:
    return (time // slide + 1) * slide


@frozen
class TumblingCount(_CountWindow):
    """Each ``length`` rows are a window; each row is in exactly one.

    Raises:
        TopologyError: ``length`` is not a whole number from 1.
    """

    length: int = field(validator=_check_count)

    @property
    def slug(self) -> str:
        return f"tumbling_count_{self.length}"

    @property
    def _sizes(self) -> tuple[int, int]:
        return self.length, self.length


@frozen
class SlidingCount(_CountWindow):
    """After each ``slide`` rows, the last ``length`` rows are a window.

    The first windows have fewer rows: with length 5 and slide 2, the rows 1–2, 1–4, 2–6, 4–8, ….

    Raises:
        TopologyError: one of them is not a whole number from 1, or ``slide`` is above ``length``.
    """

    length: int = field(validator=_check_count)
    slide: int = field(validator=[_check_count, _check_slide])

    @property
    def slug(self) -> str:
        return f"sliding_count_{self.length}_{self.slide}"

    @property
    def _sizes(self) -> tuple[int, int]:
        return self.length, self.slide


@frozen
class TumblingDuration(DurationWindow):
    """The rows of each ``length`` of time are a window; each row is in exactly one.

    A row's time is the time of its transaction, see `SinkTransaction.time`. Windows begin at the multiples of
    ``length`` since the epoch (1970, UTC), wherever and whenever the topology is started. So windows of an hour begin
    at full hours.

    Args:
        length: in seconds, or a `timedelta`; a millisecond or longer.

    Raises:
        TopologyError: ``length`` is not such a duration.
    """

    length: float = field(converter=_seconds, validator=_check_duration)

    @property
    def slug(self) -> str:
        """With the microseconds, as in ``tumbling_micros_60000000``."""
        return f"tumbling_micros_{self._sizes[0]}"

    @property
    def _sizes(self) -> tuple[int, int]:
        return round(self.length * MICROS), round(self.length * MICROS)


@frozen
class SlidingDuration(DurationWindow):
    """After each ``slide`` of time, the rows of the last ``length`` of time are a window.

    Windows end at the multiples of ``slide`` since the epoch; all else is as for `TumblingDuration`.

    Each commit reads and writes some 26 bytes for each ``slide`` within ``length`` in which rows came. So make
    ``slide`` a thousandth of ``length`` or more (measured: 3 600 slides take 5 ms, 360 000 take 2 s).

    Args:
        length: in seconds, or a `timedelta`; a millisecond or longer.
        slide: likewise; at most ``length``.

    Raises:
        TopologyError: one of them is not such a duration, or ``slide`` is above ``length``.
    """

    length: float = field(converter=_seconds, validator=_check_duration)
    slide: float = field(converter=_seconds, validator=[_check_duration, _check_slide])

    @property
    def slug(self) -> str:
        """With the microseconds, as in ``sliding_micros_60000000_1000000``."""
        return "sliding_micros_{}_{}".format(*self._sizes)

    @property
    def _sizes(self) -> tuple[int, int]:
        return round(self.length * MICROS), round(self.slide * MICROS)


@frozen
class SessionWindow(PanedWindow):
    """Rows that follow each other by at most ``gap`` are a window: a session. It needs ``timestamp=``.

    A session is from the time of its first row to that of its last one plus the gap. With `group_by` each group has its
    own sessions. A session fires when the watermark is after its end: at most a 32nd of the gap later, because sessions
    are looked up by so much time.

    Args:
        gap: in seconds, or a `timedelta`; a millisecond or longer.

    Raises:
        TopologyError: ``gap`` is not such a duration.
    """

    gap: float = field(converter=_seconds, validator=_check_gap)

    @property
    def is_timed(self) -> bool:
        return True

    @property
    def slug(self) -> str:
        """With the microseconds, as in ``session_micros_60000000``."""
        return f"session_micros_{self.gap_micros}"

    @property
    def gap_micros(self) -> int:
        """The gap in microseconds."""
        return round(self.gap * MICROS)

    @property
    def grain_micros(self) -> int:
        """The part of the gap by which sessions are looked up: they fire when the watermark has passed such a part."""
        return max(1, self.gap_micros // _GRAINS)

    @property
    def pane_sizes(self) -> tuple[int, int]:
        return self.grain_micros, self.grain_micros


class EventTimeOptions(TypedDict, total=False):
    """The arguments of `Stream.window` for windows by a timestamp in the rows.

    The watermark is the greatest timestamp so far, less a delay. A window fires with the transaction that moves the
    watermark to its end. A row is late if a window that it belongs to may have fired by an earlier transaction.

    Attributes:
        timestamp: the field with the time of a row; its type is ``timestamp``.
        watermark: the delay: how much later than the newest row a row may come.
        by: fields, such as the device: the watermark is the least over their values. Use fields with few values. None:
            the least over the partitions of the spout, if rows can be traced to them. Empty: one watermark for all.
        idle: if a value of ``by``, or a partition, has no rows for so long, by the times of transactions, it no longer
            holds the watermark. None: it holds it forever.
        max_ahead: a row further after the time of its transaction is in no window and moves nothing; a day by default.
    """

    timestamp: str
    watermark: timedelta
    idle: timedelta | None
    by: str | Sequence[str] | None
    max_ahead: timedelta
