"""Nexmark: an auction house in which people register, open auctions, and bid. Its queries by event time.

The events are those of the benchmark's generator: of 50, one is a person, three are auctions, and 46 are bids. Half of
the bids are for one hot auction, three of four are by one hot bidder. Run it::

    python examples/nexmark.py

    sqlite3 nexmark.db 'SELECT * FROM hot_items'

The tests kill such a topology again and again, and compare each query with Spark's answer over all events.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from trident_py import Count, FixedBatchSpout, SQLSink, TridentCollector, TridentTopology
from trident_py.operations import Aggregator
from trident_py.streams.stream import Stream
from trident_py.windows import SessionWindow, SlidingDuration, TumblingDuration

SCHEMA = "kind string, id bigint, seller bigint, bidder bigint, price bigint, at timestamp"
"""The id is a person's or an auction's; that of a bid is its auction."""

START = datetime(2015, 7, 15, tzinfo=UTC)
FIRST_ID = 1_000
HOT = 100
"""Every so many auctions, and people, there is a new hot one."""

TEN_SECONDS = timedelta(seconds=10)


def events(number: int, seed: int = 1, every: timedelta = timedelta(milliseconds=10)) -> Iterator[tuple[Any, ...]]:
    """Yield the first events, one ``every`` so often, in the order of their times."""
    for n in range(number):
        epoch, offset = divmod(n, 50)
        dice, at = random.Random(seed * 1_000_003 + n), START + n * every  # noqa: S311 - no secrets
        person, auction = FIRST_ID + epoch, FIRST_ID + 3 * epoch + min(max(offset - 1, 0), 2)
        people, auctions = (
            range(max(FIRST_ID, person - 1_000), person + 1),
            range(max(FIRST_ID, auction - 100), auction + 1),
        )
        if offset == 0:
            yield "person", person, None, None, None, at
        elif offset < 4:
            seller = person // HOT * HOT if dice.random() < 0.75 else dice.choice(people)
            yield "auction", auction, max(seller, FIRST_ID), None, None, at
        else:
            item = auction // HOT * HOT if dice.random() < 0.5 else dice.choice(auctions)
            bidder = person // HOT * HOT + 1 if dice.random() < 0.75 else dice.choice(people)
            price = round(100 * 10 ** (6 * dice.random()))
            yield "bid", max(item, FIRST_ID), None, bidder, price, at


class Greatest(Aggregator[list[Any]]):
    """Emits the rows with the greatest value of their last field."""

    def init(self, batch_id: Any, collector: TridentCollector) -> list[Any]:
        return []

    def aggregate(self, value: list[Any], row: Any, collector: TridentCollector) -> None:
        if value and row[-1] > value[0][-1]:
            value.clear()
        if not value or row[-1] == value[0][-1]:
            value.append(tuple(row))

    def complete(self, value: list[Any], collector: TridentCollector) -> None:
        for row in value:
            collector.emit(row)


def bids(stream: Stream) -> Stream:
    """Return the bids of a stream of events."""
    found = stream.filter(lambda event: event.kind == "bid")
    return found.map(
        lambda bid: (bid.id, bid.bidder, bid.price, bid.at), "auction bigint, bidder bigint, price bigint, at timestamp"
    )


def bids_per_auction(stream: Stream, late: timedelta) -> Stream:
    """Count, every two seconds, the bids of the last ten for each auction."""
    grouped = stream.name("bids-per-auction").group_by("auction")
    return grouped.window(SlidingDuration(10, 2), [], Count(), "bids", timestamp="at", watermark=late)


def hot_items(counted: Stream) -> Stream:
    """Query 5: the auctions with the most bids of each window."""
    spans = counted.group_by("window_start", "window_end")
    found = spans.aggregate(Greatest(), "auction bigint, bids bigint", ["auction", "bids"])
    return found.project("auction", "bids", "window_start", "window_end")


def highest_bids(stream: Stream, late: timedelta) -> Stream:
    """Query 7: the highest bids of each ten seconds."""
    fields, out = ["auction", "bidder", "price"], "auction bigint, bidder bigint, price bigint"
    named = stream.name("highest-bids")
    return named.window(TumblingDuration(10), fields, Greatest(), out, timestamp="at", watermark=late)


def new_users(topology: TridentTopology, stream: Stream, late: timedelta) -> Stream:
    """Query 8: the auctions that people have opened in the ten seconds in which they registered."""

    def of(kind: str, column: str) -> Stream:
        found = stream.filter(lambda event: event.kind == kind).name(kind)
        fields = f"person bigint, span bigint, {column} timestamp"
        return found.map(lambda event: (event.seller or event.id, _span(event.at), event.at), fields)

    return topology.join(
        *(of("person", "registered"), ["person", "span"]),
        *(of("auction", "opened"), ["person", "span"]),
        ["person", "span", "registered", "opened"],
        within=TEN_SECONDS,
        timestamps=("registered", "opened"),
        watermark=late,
    )


def _span(at: datetime) -> int:
    return (at - START) // TEN_SECONDS


def user_sessions(stream: Stream, late: timedelta) -> Stream:
    """Query 11: the number of bids in a session of a person, which ends when they don't bid for ten seconds."""
    grouped = stream.name("user-sessions").group_by("bidder")
    return grouped.window(SessionWindow(10), [], Count(), "bids", timestamp="at", watermark=late)


def bids_as_they_come(stream: Stream) -> Stream:
    """Query 12: the number of bids of a person in each ten seconds of the clock."""
    return stream.name("bids-as-they-come").group_by("bidder").window(TumblingDuration(10), [], Count(), "bids")


def declare(
    topology: TridentTopology, stream: Stream, database: str, late: timedelta = timedelta(0)
) -> dict[str, Stream]:
    """Declare the queries over events, each with a table of ``database``; return the windows and the join."""
    offered = bids(stream)
    found = {
        "hot_items": bids_per_auction(offered, late),
        "highest_bids": highest_bids(offered, late),
        "new_users": new_users(topology, stream, late),
        "user_sessions": user_sessions(offered, late),
        "bids_as_they_come": bids_as_they_come(offered),
    }
    for name, rows in found.items():
        written = hot_items(rows) if name == "hot_items" else rows
        written.name(name).write_to(SQLSink(database, name))
    return found


if __name__ == "__main__":
    topology = TridentTopology("nexmark")
    spout = FixedBatchSpout(SCHEMA, 1_000, *events(10_000))
    declare(topology, topology.new_stream("events", spout), "sqlite:///nexmark.db")
    with topology.start() as query:
        query.process_all_available()
    print(query.last_progress or "nothing new")
