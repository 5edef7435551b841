"""A topology of windows by event time that kills its own process in the middle of commits.

Call it with ZooKeeper's address, a directory, and after how many rows of windows and late rows it dies; 0: never.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.integration.trident_py.dying import main
from trident_py import Count, FixedBatchSpout, SlidingDuration, SQLiteState, Sum, TridentTopology
from trident_py.streams.stream import Stream
from trident_py.windows import SessionWindow, TumblingDuration

SCHEMA = "device string, n bigint, at timestamp"
START = datetime(2020, 5, 1, 12, tzinfo=UTC)
LAST = START + timedelta(hours=1)
"""The time of the last row, which lets all windows before it fire."""

WINDOWS = {
    "tumbling": TumblingDuration(10),
    "sliding": SlidingDuration(20, 5),
    "sessions": SessionWindow(4),
}
UNREAD = "unread"


def rows(number: int) -> list[tuple[Any, ...]]:
    """Return rows in no order: of one in ten the time is missing or long ago."""
    dice = random.Random(40)
    found = []
    for n in range(number):
        device, moment = dice.choice("abc"), START + timedelta(seconds=n / 3 + dice.uniform(-6, 6))
        at: datetime | None = moment
        if dice.random() < 0.1:
            at = dice.choice([None, moment - timedelta(seconds=60)])
        found.append((device, n, at))
    return [*found, ("z", number, LAST)]


def declare(topology: TridentTopology, stream: Stream, directory: Path, dies: Any) -> dict[str, Stream]:
    """Declare all windows; each has a table of results, and a table of its late rows in another database.

    Nothing reads the late rows of one, whose rows the tasks aggregate.
    """
    made = {}
    for name, window in [*WINDOWS.items(), (UNREAD, WINDOWS["tumbling"])]:
        fired = (
            stream.name(name)
            .group_by("device")
            .window(window, ["n", "at"], Sum("n"), "total", timestamp="at", watermark=timedelta(seconds=5))
        )
        made[name] = fired
        keyed = fired.map(lambda row: (dies(), *row)[1:], "device string, total bigint, start timestamp, end timestamp")
        late = () if name == UNREAD else (("late", fired.late_rows().map(lambda row: (dies(), row.n)[1:], "n bigint")),)
        for place, found in (("fired", keyed), *late):
            assert found.schema is not None
            table = SQLiteState(directory / f"{place}.db", table=f"{name}_{place}")
            found.group_by(*found.schema.names).persistent_aggregate(table, Count(), "count")
    return made


def declare_readings(topology: TridentTopology, directory: Path, dies: Any) -> None:
    """Declare all windows over the rows."""
    stream = topology.new_stream("readings", FixedBatchSpout(SCHEMA, 20, *rows(400)))
    declare(topology, stream, directory, dies)


if __name__ == "__main__":
    main(declare_readings)
