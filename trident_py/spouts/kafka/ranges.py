"""Ranges of offsets: the contents of a Kafka spout's batch, and their division."""

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
    """The records of a partition from one offset up to, but not including, another one.

    Attributes:
        start: the first offset; if nothing of the partition was read before, earlier records are never read.
        end: the offset after the last one. Some offsets in between may have no record: aborted records, and Kafka's
            own.
        topic_id: differs from the id of any other topic of the same name.
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
        """The form in the metadata."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "from": self.start,
            "to": self.end,
            "id": self.topic_id,
        }

    @property
    def size(self) -> int:
        """The maximum number of records in it."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition} [{self.start}, {self.end})"


@frozen
class Position:
    """The position of a partition.

    Attributes:
        offset: the next offset to read.
        topic_id: see `OffsetRange`.
    """

    offset: int
    topic_id: str


def cursor_of(given: OffsetRange) -> tuple[str, Json]:
    """Return the name and the new value of the cursor that a range moves."""
    return f"{given.topic}/{given.partition}", {"offset": given.end, "id": given.topic_id}


def positions_of(cursors: Mapping[str, Json]) -> dict[Partition, Position]:
    """Return the positions of cursors that `cursor_of` has made."""
    found: dict[Partition, Position] = {}
    for name, cursor in cursors.items():
        topic, _, partition = name.rpartition("/")
        stored = cast("Mapping[str, Any]", cursor)
        found[topic, int(partition)] = Position(stored["offset"], stored["id"])
    return found


def limited(ranges: Sequence[OffsetRange], records: int) -> list[OffsetRange]:
    """Return the beginnings of ``ranges``, at most ``records`` records: an equal part of each, if it is that long."""
    left, found = records, []
    by_size = sorted(ranges, key=lambda each: each.size)
    for number, each in enumerate(by_size):
        part = min(each.size, -(-left // (len(by_size) - number)), left)
        found.append(evolve(each, end=each.start + part))
        left -= part
    return sorted(found)


def shared_out(ranges: Sequence[OffsetRange], tasks: int) -> list[list[OffsetRange]]:
    """Return the ranges for each of ``tasks`` tasks: about the same number of records, in the order of ``ranges``."""
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
