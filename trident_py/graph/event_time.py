"""The declaration of windows by event time, and the two streams that follow from one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

from attrs import frozen
from pyspark.sql.types import StructType, TimestampType

from coordinators.values.canonical import Json
from trident_py.errors import TopologyError
from trident_py.graph.graph import Node
from trident_py.graph.output import Output
from trident_py.graph.outputs import NewValues
from trident_py.rows.schema import check_comparable, names_of, schema_of, select, shown
from trident_py.windows.event_store import DurationEventWindows, EventWindows, PartialEventWindows
from trident_py.windows.session_store import SessionEventWindows
from trident_py.windows.watermark import Watermark
from trident_py.windows.windows import DurationWindow, SessionWindow, Window

MAX_AHEAD = timedelta(days=1)
"""A row may be so far after the time of its transaction, unless the user says otherwise."""

VALUES = ("is_late", "row")
"""The fields that the updater emits: the row of the stream of late rows, or of the stream of windows that fire."""

LATE = schema_of("late_reason string, late_watermark timestamp")
"""The last fields of late rows: why the row is in no window, and the watermark that it was compared with."""

_KINDS = "a TumblingDuration, SlidingDuration or SessionWindow"


@frozen(kw_only=True)
class EventTimeArguments:
    """`EventTimeOptions` as the user has given them, with defaults for the others."""

    timestamp: str | None = None
    watermark: timedelta | None = None
    idle: timedelta | None = None
    by: str | Sequence[str] | None = None
    max_ahead: timedelta = MAX_AHEAD

    def checked(self, window: Window) -> EventTime | None:
        """Return the event time of ``window``, or None if it has none.

        Raises:
            TopologyError: the arguments and the window don't match.
        """
        if self.timestamp is None:
            self._check_unused(window)
            return None
        if not isinstance(self.timestamp, str):
            raise TopologyError(f"timestamp= is the name of a field, not {shown(self.timestamp)}")
        if not isinstance(window, DurationWindow | SessionWindow):
            raise TopologyError(f"timestamp= needs a window by time, so {_KINDS}, not {shown(window)}")
        if self.watermark is None:
            raise TopologyError(
                "with timestamp=, watermark= is needed: how much later than the newest row a row may come, such as "
                "timedelta(minutes=5)"
            )
        rules = watermark_rules(self.watermark, self.idle, self.max_ahead)
        return EventTime(window=window, timestamp=self.timestamp, by=names_of(self.by or ()), rules=rules)

    def _check_unused(self, window: Window) -> None:
        if isinstance(window, SessionWindow):
            raise TopologyError(f"{window!r} needs timestamp=, the field with the time of a row")
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


def watermark_details(rules: Watermark) -> dict[str, Json]:
    """Return the rules for people, by the names of their arguments."""
    given = {"watermark": rules.delay, "idle": rules.idle, "max_ahead": rules.max_ahead}
    return {name: "none" if micros is None else str(timedelta(microseconds=micros)) for name, micros in given.items()}


def duration_micros(name: str, value: timedelta, *, least: timedelta = timedelta(0)) -> int:
    """Return a duration in microseconds.

    Raises:
        TopologyError: it is no duration, or too short; the message has ``name``, the name of the argument.
    """
    if not isinstance(value, timedelta) or value < least:
        raise TopologyError(f"{name}= is a timedelta of {least.total_seconds():g} s or more, not {shown(value)}")
    return value // timedelta(microseconds=1)


@frozen(kw_only=True)
class EventTime:
    """The event time of a window.

    Attributes:
        timestamp: the field with the time of a row.
        by: the fields whose values name the partition of a row; empty: all rows are one partition.
        rules: how the watermark follows from the rows.
    """

    window: DurationWindow | SessionWindow
    timestamp: str
    by: tuple[str, ...]
    rules: Watermark

    def check(self, source: StructType) -> None:
        """Check the fields of the input.

        Raises:
            TopologyError: one is missing, or has a type that can't be used.
        """
        check_timestamp(source, self.timestamp, "timestamp=", "the window")
        check_comparable(select(source, self.by))

    def store(self, schema: StructType) -> EventWindows[Any]:
        """Return the windows over stored rows with these fields."""
        if isinstance(self.window, SessionWindow):
            return SessionEventWindows(
                window=self.window, rules=self.rules, schema=schema, timestamp=self.timestamp, by=self.by
            )
        return DurationEventWindows(
            window=self.window, rules=self.rules, schema=schema, timestamp=self.timestamp, by=self.by
        )

    def partial_store(
        self, window: DurationWindow, schema: StructType, combine: Callable[[Any, Any], Any]
    ) -> PartialEventWindows:
        """Return the windows over stored partial values, with these fields."""
        return PartialEventWindows(
            window=window,
            rules=self.rules,
            schema=schema,
            timestamp=self.timestamp,
            by=self.by,
            combine=combine,
        )

    @property
    def identity(self) -> dict[str, Json]:
        """The facts that the stored windows depend on."""
        return {"timestamp": self.timestamp, "by": ", ".join(self.by)}

    @property
    def details(self) -> dict[str, Json]:
        """The facts that may change from one start to the next."""
        return watermark_details(self.rules)

    def described(self) -> str:
        """Return a description for ``explain()``."""
        of = f", the least over the values of {', '.join(self.by)}" if self.by else ""
        told = ", ".join(f"{name} {value}" for name, value in self.details.items() if value != "none")
        return f"by event time {self.timestamp!r}: {told}{of}"


def check_timestamp(source: StructType, name: str, argument: str, before: str) -> None:
    """Check that the field ``name`` is a timestamp.

    Raises:
        TopologyError: it is not; the message names the argument, and the operation before which to convert it.
    """
    (found,) = select(source, [name]).fields
    if found.dataType != TimestampType():
        raise TopologyError(
            f"the field {name!r} is {found.dataType.simpleString()}, and {argument} needs a timestamp; convert it "
            f"before {before}, by `transform` or `sql`"
        )


class TimedOutput(Output):
    """An output that may refuse rows by their times."""

    @abstractmethod
    def late_fields(self, source: StructType) -> StructType:
        """Return the fields of the rows that it refuses.

        Raises:
            TopologyError: a field has the name of one that is added.
        """


@frozen
class FiredWindows(NewValues):
    """The results of windows by event time, or of a join over time."""

    def picked(self, values: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return [row for is_late, row in values if not is_late]


@frozen
class LateRows(NewValues):
    """The rows that are in no window, or not joined.

    Attributes:
        fields: see `TimedOutput.late_fields`.
    """

    fields: StructType

    def origin(self, inputs: Sequence[StructType]) -> StructType:
        return self.fields

    def output(self, inputs: Sequence[StructType]) -> StructType:
        return self.fields

    def picked(self, values: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return [row for is_late, row in values if is_late]


def late_rows(title: str, fired: Node) -> LateRows:
    """Return the operation for the window, or the join, with these results, the stream of ``fired``.

    Raises:
        TopologyError: that is another stream, its fields are unknown, or one has the name of a field that is added.
    """
    if not isinstance(fired.operation, FiredWindows):
        raise TopologyError(
            "it follows a window with timestamp= directly, or a join with within=: keep the stream that these return"
        )
    (output,) = fired.inputs
    source = output.inputs[0].schema
    if not isinstance(output.operation, TimedOutput):
        raise AssertionError(f"{output.operation.title} refuses no rows")
    if source is None:
        raise TopologyError(f"the fields before the {output.operation.kind} must be known: give transform its schema=")
    return LateRows(title, output.operation.late_fields(source))


def reads_late(origins: Iterable[Node]) -> bool:
    """Return whether one of these streams of new values is that of the late rows."""
    return any(isinstance(each.operation, LateRows) for each in origins)
