"""A topology of functions with timers that kills its own process in the middle of commits.

Call it with ZooKeeper's address, a directory, and after how many results and late rows it dies; 0: never.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.integration.trident_py.dying import main
from tests.integration.trident_py.event_time_program import SCHEMA, rows
from trident_py import Count, FixedBatchSpout, SQLiteState, TridentTopology
from trident_py.operations import KeyedFunction, KeyState, Timers
from trident_py.streams.stream import Stream

GAP = timedelta(seconds=4)


class Visits(KeyedFunction):
    """Gives the rows of a device that follow each other by less than a gap, as sums."""

    output_schema = "device string, total bigint, start timestamp, end timestamp"
    state_schema = "visits array<struct<start: timestamp, last: timestamp, total: bigint>>"

    def on_rows(self, key: Any, rows: Sequence[Any], state: KeyState, timers: Timers) -> None:
        before = [tuple(each) for each in state.get().visits] if state.get() else []
        visits: list[tuple[datetime, datetime, int]] = []
        for start, last, total in sorted([*before, *((row.at, row.at, row.n) for row in rows)]):
            if visits and start < visits[-1][1] + GAP:
                first, end, sum_ = visits.pop()
                visits.append((first, max(end, last), sum_ + total))
            else:
                visits.append((start, last, total))
        state.update((visits,))
        for _, last, _ in visits:
            timers.set(last + GAP)

    def on_timer(self, key: Any, at: datetime, state: KeyState, timers: Timers) -> Iterator[Sequence[Any]]:
        visits = state.get().visits
        left = [each for each in visits if each.last + GAP > at]
        for start, last, total in visits[: len(visits) - len(left)]:
            yield key.device, total, start, last + GAP
        state.update((left,)) if left else state.clear()


def declare(stream: Stream, directory: Path, dies: Any) -> Stream:
    """Declare the function, a table of its results, and a table of the late rows in another database."""
    visits = stream.name("visits").group_by("device").process(Visits(), timestamp="at", watermark=timedelta(seconds=5))
    given = visits.map(lambda row: (dies(), *row)[1:], "device string, total bigint, start timestamp, end timestamp")
    late = visits.late_rows().map(lambda row: (dies(), row.n)[1:], "n bigint")
    for place, found in (("fired", given), ("late", late)):
        assert found.schema is not None
        table = SQLiteState(directory / f"{place}.db", table=f"visits_{place}")
        found.group_by(*found.schema.names).persistent_aggregate(table, Count(), "count")
    return visits


def declare_readings(topology: TridentTopology, directory: Path, dies: Any) -> None:
    """Declare the function over the rows."""
    declare(topology.new_stream("readings", FixedBatchSpout(SCHEMA, 20, *rows(400))), directory, dies)


if __name__ == "__main__":
    main(declare_readings)
