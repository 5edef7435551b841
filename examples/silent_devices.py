"""Which devices are silent? A device that sends nothing for 5 minutes is down, until it sends again.

Put text files with readings into ``readings/``, such as ``boiler,2024-05-01T12:00:00+00:00``, and run it; files that
grow or appear are read too::

    python examples/silent_devices.py                  everything there is now, then ends
    trident run examples/silent_devices.py:topology    until Ctrl-C

    sqlite3 devices.db 'SELECT device, down_at, up_at FROM outages ORDER BY down_at'

The times are those of the readings: the files of last week tell the outages of last week. Kill it whenever you like:
the timers of all devices go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from trident_py import TridentTopology
from trident_py.operations import KeyedFunction, KeyState, Last, Timers
from trident_py.spouts import FileSpout
from trident_py.states import SQLiteState

PATIENCE = timedelta(minutes=5)


class Outages(KeyedFunction):
    """Gives a row when a device has been silent for too long, and the same row with its end when it is back."""

    output_schema = "device string, down_at timestamp, up_at timestamp"
    state_schema = "last timestamp, down_at timestamp"

    def on_rows(self, key: Any, rows: Sequence[Any], state: KeyState, timers: Timers) -> Iterator[Sequence[Any]]:
        last, down_at = state.get() or (None, None)
        for at in sorted(row.at for row in rows):
            if down_at is None and last is not None and at > last + PATIENCE:
                down_at = last + PATIENCE  # rows come before timers: the timer has not fired yet
                yield key.device, down_at, None
            if down_at is not None and at > down_at:
                yield key.device, down_at, at
                down_at = None
            last = at if last is None else max(last, at)
        state.update((last, down_at))
        for timer in timers.pending:
            timers.delete(timer)
        if down_at is None and last is not None:
            timers.set(last + PATIENCE)

    def on_timer(self, key: Any, at: datetime, state: KeyState, timers: Timers) -> Iterator[Sequence[Any]]:
        state.update((state.get().last, at))
        yield key.device, at, None


def parsed(line: Any) -> tuple[str, datetime]:
    """The device and the time of a line."""
    device, at = line.value.split(",")
    return device, datetime.fromisoformat(at)


topology = TridentTopology("silent-devices")
(
    topology.new_stream("readings", FileSpout("readings/*.csv"))
    .map(parsed, "device string, at timestamp")
    .name("silence")
    .group_by("device")
    .process(Outages(), timestamp="at", watermark=timedelta(minutes=1))
    .group_by("device", "down_at")
    .persistent_aggregate(SQLiteState("devices.db", table="outages"), Last("up_at"), "up_at")
)

if __name__ == "__main__":
    with topology.start() as query:
        query.process_all_available()
    print(query.last_progress or "nothing new")
