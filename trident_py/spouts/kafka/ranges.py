"""Ranges of offsets: what a batch of a Kafka spout consists of, and how one is cut from what is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

from attrs import evolve, frozen

from coordinators.values.canonical import Json

Partition: TypeAlias = tuple[str, int]
"""A topic, and the number of a partition of it."""

StoredRange: TypeAlias = dict[str, Any]
"""A range as JSON."""


@frozen(order=True)
class OffsetRange:
    """The records of a partition from one offset up to, and without, another one.

    Attributes:
        start: the first offset; where nothing was read of the partition before, what is in front of it never will be.
        end: the offset behind the last one. Some of those between may have no record: aborted ones, and Kafka's own.
        topic_id: tells the topic from another one that had or will have its name.
    """

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str = ""

    @classmethod
    def parse(cls, stored: StoredRange) -> OffsetRange:
        """Return the range that was stored."""
        return cls(stored["topic"], stored["partition"], stored["from"], stored["to"], stored["id"])

    @property
    def stored(self) -> StoredRange:
        """As metadata."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "from": self.start,
            "to": self.end,
            "id": self.topic_id,
        }

    @property
    def size(self) -> int:
        """How many records it has at most."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition} [{self.start}, {self.end})"


@frozen
class Position:
    """Up to where a partition was read.

    Attributes:
        offset: the next one.
        topic_id: see `OffsetRange`.
    """

    offset: int
    topic_id: str


def cursor_of(given: OffsetRange) -> tuple[str, Json]:
    """Return the cursor that a range moves, and where to."""
    return f"{given.topic}/{given.partition}", {"offset": given.end, "id": given.topic_id}


def positions_of(cursors: Mapping[str, Json]) -> dict[Partition, Position]:
    """Say what `cursor_of` has made cursors of."""
    found: dict[Partition, Position] = {}
    for name, cursor in cursors.items():
        topic, _, partition = name.rpartition("/")
        stored = cast("Mapping[str, Any]", cursor)
        found[topic, int(partition)] = Position(stored["offset"], stored["id"])
    return found


def limited(ranges: Sequence[OffsetRange], records: int) -> list[OffsetRange]:
    """Return the beginnings of ``ranges``, so many records at most: an equal part of each, if it is that long."""
    left, found = records, []
    by_size = sorted(ranges, key=lambda each: each.size)
    for number, each in enumerate(by_size):
        part = min(each.size, -(-left // (len(by_size) - number)), left)
        found.append(evolve(each, end=each.start + part))
        left -= part
    return sorted(found)


def shared_out(ranges: Sequence[OffsetRange], tasks: int) -> list[list[OffsetRange]]:
    """Say what each of so many tasks reads: about as many records, in the order of ``ranges``."""
    size = max(1, -(-sum(each.size for each in ranges) // tasks))
    given: list[list[OffsetRange]] = [[]]
    room = size
    for each in ranges:
        start = each.start
        while start < each.end:
            if room <= 0:
                given.append([])
                room = size
            end = min(each.end, start + room)
            given[-1].append(evolve(each, start=start, end=end))
            room -= end - start
            start = end
    return given
