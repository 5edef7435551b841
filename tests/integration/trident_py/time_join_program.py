"""A topology of joins over time that kills its own process in the middle of commits.

Call it with ZooKeeper's address, a directory, and after how many joined and late rows it dies; 0: never.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from tests.integration.trident_py.dying import main
from trident_py import Count, FixedBatchSpout, SQLiteState, TridentTopology
from trident_py.streams.stream import Stream

LEFT, RIGHT = "id string, n bigint, at timestamp", "at timestamp, m bigint, id string"
START = datetime(2020, 5, 1, 12, tzinfo=UTC)
LAST = START + timedelta(hours=1)
"""The time of the last row of each side, after which no other row can match."""

WITHIN = timedelta(seconds=4)
HOWS: tuple[Literal["inner", "left", "outer"], ...] = ("inner", "left", "outer")


def rows(number: int, seed: int) -> list[tuple[Any, ...]]:
    """Return rows in no order, some with nulls, and some long ago."""
    dice = random.Random(seed)
    found = []
    for n in range(number):
        key, moment = dice.choice("aabcdefgh"), START + timedelta(seconds=n / 3 + dice.uniform(-6, 6))
        at: datetime | None = moment
        if dice.random() < 0.1:
            at = dice.choice([None, moment - timedelta(seconds=60)])
        found.append((None if dice.random() < 0.05 else key, n, at))
    return [*found, ("z", number, LAST)]


def sides(number: int) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Return the rows of both sides."""
    return rows(number, 40), [row[::-1] for row in rows(number, 41)]


def declare(topology: TridentTopology, left: Stream, right: Stream, directory: Path, dies: Any) -> dict[str, Stream]:
    """Declare a join of each kind; each has a table of results, and a table of its late rows in another database."""
    found: dict[str, Stream] = {}
    for how in HOWS:
        fields = ["id", "n", "left_at", "right_at", "m"]
        joined = topology.join(
            *(left.name(how), "id", right, "id", fields, how),
            within=WITHIN,
            timestamps=("at", "at"),
            watermark=(timedelta(seconds=5), timedelta(seconds=7)),
        )
        found[how] = joined
        pairs = joined.map(lambda row: (dies(), row.id, row.n, row.m)[1:], "id string, n bigint, m bigint")
        late = joined.late_rows().map(
            lambda row: (dies(), row.late_side, row.m if row.n is None else row.n)[1:], "side string, number bigint"
        )
        for place, rows_of in (("joined", pairs), ("late", late)):
            assert rows_of.schema is not None
            table = SQLiteState(directory / f"{place}.db", table=f"{how}_{place}")
            rows_of.group_by(*rows_of.schema.names).persistent_aggregate(table, Count(), "count")
    return found


def declare_sides(topology: TridentTopology, directory: Path, dies: Any) -> None:
    """Declare all joins over the rows of both sides."""
    lefts, rights = sides(400)
    streams = (
        topology.new_stream("lefts", FixedBatchSpout(LEFT, 20, *lefts)),
        topology.new_stream("rights", FixedBatchSpout(RIGHT, 20, *rights)),
    )
    declare(topology, *streams, directory, dies)


if __name__ == "__main__":
    main(declare_sides)
