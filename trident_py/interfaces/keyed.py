"""Functions with a value and timers for each key, for `GroupedStream.process`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from attrs import define, field
from pyspark.sql.types import StructType

from trident_py.interfaces.operations import Operation
from trident_py.rows.moments import micros_of, moment
from trident_py.rows.row import Row, row_class


@define
class KeyState:
    """The value of one key: a row of `KeyedFunction.state_schema`, or none.

    Attributes:
        fields: the names of the value's fields.
    """

    fields: tuple[str, ...]
    _value: Row | None = None

    def get(self) -> Any:
        """Return the value as a `Row`; ``None`` if the key has none. To change it, call `update`."""
        return self._value

    def update(self, value: Sequence[Any]) -> None:
        """Set the value.

        Args:
            value: a tuple, list or Row with a value for each field.
        """
        if not isinstance(value, tuple | list):
            raise TypeError(f"the value of a key is a tuple, list or Row, not {value!r}")
        if len(value) != len(self.fields):
            raise ValueError(f"{value!r} has {len(value)} values, for the {len(self.fields)} fields {self.fields}")
        self._value = row_class(self.fields)._make(value)

    def clear(self) -> None:
        """Remove the value. The timers stay; without a value and timers, nothing is stored for the key."""
        self._value = None


@define(kw_only=True)
class Timers:
    """The timers of one key: the times for which `KeyedFunction.on_timer` is called, each once.

    Attributes:
        now: the time of the transaction, in UTC. It is recorded, so it is the same in each replay.
        watermark: in event time, no row before this time comes any more; ``None`` before the first row. In ``on_rows``
            it is the watermark of the previous transaction. In ``on_timer`` it is that of this one.
    """

    now: datetime
    watermark: datetime | None = None
    _pending: set[int] = field(factory=set)

    def set(self, at: datetime) -> None:
        """Set a timer; if there is one for this time, nothing changes.

        Args:
            at: a datetime with a time zone, to the microsecond.
        """
        self._pending.add(_micros(at))

    def delete(self, at: datetime) -> None:
        """Delete the timer for this time; without such a timer, nothing changes."""
        self._pending.discard(_micros(at))

    @property
    def pending(self) -> list[datetime]:
        """The times of all timers that are set, in order, in UTC."""
        return [moment(each) for each in sorted(self._pending)]


def _micros(at: object) -> int:
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise TypeError(f"a timer is set for a datetime with a time zone, not {at!r}")
    return micros_of(at)


class KeyedFunction(Operation):
    """A function with a value and timers for each key, for `GroupedStream.process`. It runs in the driver's process.

    In each transaction ``on_rows`` is called first, for each key that has rows. Then ``on_timer`` is called for each
    timer whose time has come. Keep everything in ``state``: an attribute of the function is lost with the process, and
    isn't undone when a transaction is replayed.

    Attributes:
        output_schema: the fields of the rows that the function returns.
        state_schema: the fields of the value of a key.
    """

    output_schema: str | StructType
    state_schema: str | StructType

    @abstractmethod
    def on_rows(self, key: Any, rows: Sequence[Any], state: KeyState, timers: Timers) -> Iterable[Sequence[Any]] | None:
        """Return or yield the results for all rows of a key in this transaction.

        Args:
            key: a `Row` of the group fields.
            rows: a `Row` for each, with all fields of the stream, in the order of the batch.
            state: the value of the key.
            timers: the timers of the key.
        """

    def on_timer(self, key: Any, at: datetime, state: KeyState, timers: Timers) -> Iterable[Sequence[Any]] | None:
        """Return or yield the results for a timer that is due. It is no longer set.

        A timer that is set here for a time that has come too fires in the same transaction.

        Args:
            key: a `Row` of the group fields.
            at: the time for which the timer was set, in UTC.
            state: the value of the key.
            timers: the timers of the key.
        """
        return None
