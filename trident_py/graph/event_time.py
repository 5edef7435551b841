"""The declaration of event time, for windows, joins over time and functions with timers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

from attrs import evolve, frozen
from pyspark.sql.types import StructType, TimestampType

from coordinators.values.canonical import Json
from trident_py.errors import TopologyError
from trident_py.rows.schema import check_comparable, names_of, select, shown
from trident_py.windows.event_store import DurationEventWindows, EventWindows, PartialEventWindows
from trident_py.windows.session_store import PartialSessions, RowSessions
from trident_py.windows.watermark import Watermark
from trident_py.windows.windows import DurationWindow, SessionWindow, Window

MAX_AHEAD = timedelta(days=1)
"""A row may be so far after the time of its transaction, unless the user says otherwise."""

PARTITION = "_trident_partition"
"""The hidden field with the partition of its spout from which a row comes."""

_KINDS = "a TumblingDuration, SlidingDuration or SessionWindow"


@frozen(kw_only=True)
class EventTimeArguments:
    """`EventTimeOptions` as the user has given them, with defaults for the others."""

    timestamp: str | None = None
    watermark: timedelta | None = None
    idle: timedelta | None = None
    by: str | Sequence[str] | None = None
    max_ahead: timedelta = MAX_AHEAD

    def of_window(self, window: Window) -> tuple[EventTime, ...]:
        """Return the event time of ``window``; empty without ``timestamp=``.

        Raises:
            TopologyError: the arguments and the window don't match.
        """
        if self.timestamp is None and isinstance(window, SessionWindow):
            raise TopologyError(f"{window!r} needs timestamp=, the field with the time of a row")
        found = self.checked()
        if found and not isinstance(window, DurationWindow | SessionWindow):
            raise TopologyError(f"timestamp= needs a window by time, so {_KINDS}, not {shown(window)}")
        return found

    def checked(self) -> tuple[EventTime, ...]:
        """Return the event time; empty without ``timestamp=``.

        Raises:
            TopologyError: the arguments don't match.
        """
        if self.timestamp is None:
            self._check_unused()
            return ()
        if not isinstance(self.timestamp, str):
            raise TopologyError(f"timestamp= is the name of a field, not {shown(self.timestamp)}")
        if self.watermark is None:
            raise TopologyError(
                "with timestamp=, watermark= is needed: how much later than the newest row a row may come, such as "
                "timedelta(minutes=5)"
            )
        rules = watermark_rules(self.watermark, self.idle, self.max_ahead)
        return (event_time(self.timestamp, self.by, rules),)

    def _check_unused(self) -> None:
        unset = EventTimeArguments()
        for name in ("watermark", "idle", "by", "max_ahead"):
            if getattr(self, name) != getattr(unset, name):
                raise TopologyError(f"{name}= needs timestamp=, the field with the time of a row")


def watermark_rules(watermark: timedelta, idle: timedelta | None, max_ahead: timedelta) -> Watermark:
    """Return the rules of a watermark that the user has given.

    Raises:
        TopologyError: one of them is no such duration.
    """
    return Watermark(
        delay=duration_micros("watermark", watermark),
        idle=None if idle is None else duration_micros("idle", idle, least=timedelta(milliseconds=1)),
        max_ahead=duration_micros("max_ahead", max_ahead),
    )


def duration_micros(name: str, value: timedelta, *, least: timedelta = timedelta(0)) -> int:
    """Return a duration in microseconds.

    Raises:
        TopologyError: it is no duration, or too short; the message has ``name``, the name of the argument.
    """
    if not isinstance(value, timedelta) or value < least:
        raise TopologyError(f"{name}= is a timedelta of {least.total_seconds():g} s or more, not {shown(value)}")
    return value // timedelta(microseconds=1)


@frozen
class SpoutPartitions:
    """The partitions of a spout, to which rows can be traced.

    Attributes:
        fields: the fields that name the partition of a row of the spout; empty: all rows are one partition.
        reason: why they are one partition.
    """

    fields: tuple[str, ...] = ()
    reason: str = ""


@frozen(kw_only=True)
class EventTime:
    """The event time of the rows of one input, and the watermark that follows from it.

    Attributes:
        timestamp: the field with the time of a row.
        by: the fields whose values name the partition of a row; empty: all rows are one partition.
        rules: how the watermark follows from the rows.
        asks_spout: whether the partitions are those of the spout, if rows can be traced to them, because the user has
            named no fields.
        spout: these partitions.
    """

    timestamp: str
    by: tuple[str, ...]
    rules: Watermark
    asks_spout: bool = False
    spout: SpoutPartitions = SpoutPartitions()

    def traced(self, spout: SpoutPartitions) -> EventTime:
        """Return the event time of rows that can be traced to ``spout``; unchanged if the user has named fields."""
        return evolve(self, spout=spout) if self.asks_spout else self

    def carrying(self) -> EventTime:
        """Return the event time of the same rows, which carry their partition; unchanged without such partitions."""
        if not self.spout.fields:
            return self
        return evolve(self, by=(PARTITION,), rules=evolve(self.rules, by=self.partitions))

    @property
    def is_carrying(self) -> bool:
        """Whether rows carry their partition."""
        return PARTITION in self.by

    @property
    def partitions(self) -> str:
        """The description of the partitions of the watermark."""
        if self.spout.fields:
            return f"the spout's {', '.join(self.spout.fields)}"
        return ", ".join(self.by)

    def check(self, source: StructType, argument: str = "timestamp=") -> None:
        """Check the fields of the input.

        Raises:
            TopologyError: one is missing, or has a type that can't be used; the message has ``argument``.
        """
        (found,) = select(source, [self.timestamp]).fields
        if found.dataType != TimestampType():
            raise TopologyError(
                f"the field {self.timestamp!r} is {found.dataType.simpleString()}, and {argument} needs a timestamp; "
                f"convert it before, by `transform` or `sql`"
            )
        check_comparable(select(source, self.by))

    @property
    def identity(self) -> dict[str, Json]:
        """The facts that the stored data depends on."""
        return {"timestamp": self.timestamp}


def event_time(timestamp: str, by: str | Sequence[str] | None, rules: Watermark) -> EventTime:
    """Return the event time of one input; without ``by``, it can be traced to its spout."""
    names = names_of(by or ())
    rules = evolve(rules, by=", ".join(names))
    return EventTime(timestamp=timestamp, by=names, rules=rules, asks_spout=by is None)


def watermark_details(times: Sequence[EventTime]) -> dict[str, Json]:
    """Return the facts of the watermarks that may change from one start to the next."""
    if not times:
        return {}
    rules = [each.rules for each in times]
    return {
        "watermark": _shown(each.delay for each in rules),
        "idle": _shown(each.idle for each in rules),
        "max_ahead": _shown(each.max_ahead for each in rules),
        "by": " and ".join(dict.fromkeys(each.partitions or "one partition" for each in times)),
    }


def _shown(durations: Iterable[int | None]) -> str:
    texts = ("none" if micros is None else str(timedelta(microseconds=micros)) for micros in durations)
    return " and ".join(dict.fromkeys(texts))


def described_times(times: Sequence[EventTime]) -> str:
    """Return a description for ``explain()``, of the event time of each input."""
    fields = " and ".join(repr(each.timestamp) for each in times)
    details = {name: value for name, value in watermark_details(times).items() if name != "by"}
    told = ", ".join(f"{name} {value}" for name, value in details.items() if value != "none")
    return f"by event time {fields}: {told}, {' and '.join(dict.fromkeys(map(_described_partitions, times)))}"


def _described_partitions(time: EventTime) -> str:
    if time.partitions:
        return f"the least over the values of {time.partitions}"
    return "all rows are one partition" + (f", because {time.spout.reason}" if time.spout.reason else "")


def event_windows(time: EventTime, window: Window, schema: StructType) -> EventWindows[Any]:
    """Return windows by event time over stored rows with these fields."""
    if isinstance(window, SessionWindow):
        return RowSessions(window=window, rules=time.rules, schema=schema, timestamp=time.timestamp)
    if isinstance(window, DurationWindow):
        return DurationEventWindows(window=window, rules=time.rules, schema=schema, timestamp=time.timestamp)
    raise AssertionError(f"{window!r} has no event time")


def partial_event_windows(
    time: EventTime, window: Window, schema: StructType, combine: Callable[[Any, Any], Any]
) -> EventWindows[Any]:
    """Return windows by event time over stored partial values, with these fields: the keys, then the value."""
    facts: Any = {"rules": time.rules, "schema": schema, "timestamp": time.timestamp, "combine": combine}
    if isinstance(window, SessionWindow):
        return PartialSessions(window=window, **facts)
    if isinstance(window, DurationWindow):
        return PartialEventWindows(window=window, **facts)
    raise AssertionError(f"{window!r} has no event time")
