"""Defines the batches of a Kafka spout: ranges up to the last stable offsets."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

from attrs import Factory, define, evolve, field, frozen

from coordinators.values.batch_coordinator import CursorCoordinator
from coordinators.values.canonical import Json
from trident_py.errors import SpoutError
from trident_py.spouts.kafka.cluster import Cluster, Topic, TopicIds, Topics, errors_of_spout, is_wanted
from trident_py.spouts.kafka.ranges import (
    OffsetRange,
    Partition,
    Position,
    StoredRange,
    cursor_of,
    limited,
    positions_of,
)
from trident_py.spouts.rest import Rest

Start: TypeAlias = str | datetime | Mapping[Partition, int]

EXPIRING_SHARE = 0.2
"""The oldest share of a partition that deletes records, in which a parked batch is expiring."""

POLICY_SECONDS = 30.0
"""The interval between checks whether a topic is compacted."""

SAMPLED_BATCHES = 100
"""The number of batches after which the size of records is measured again."""

SAMPLED_RECORDS = 100
"""The number of offsets for such a measurement."""


@frozen(kw_only=True)
class Limits:
    """The maximum size of a batch."""

    records: int
    bytes: int


# large: its ten settings and its memory of one spout belong to one thread
@define(kw_only=True)
class KafkaCoordinator(CursorCoordinator[list[StoredRange]]):
    """Finds new records, and divides them into batches.

    Attributes:
        start: the beginning of the first batch of all.
        is_exact: whether a range must not change.
        commits: whether offsets are committed for a group.
        mean_bytes: returns the mean size of the records of a range.
    """

    name: str
    cluster: Cluster
    topics: Topics
    start: Start
    is_exact: bool
    limits: Limits
    commits: bool
    mean_bytes: Callable[[OffsetRange], float]
    _ids: TopicIds = field(default=Factory(lambda self: TopicIds(self.name, self.cluster), True), init=False)
    _positions: dict[Partition, Position] = field(factory=dict, init=False)
    _kept: dict[Partition, tuple[int, int]] = field(factory=dict, init=False)  # the first and last offset there
    _there: list[OffsetRange] = field(factory=list, init=False)  # all that the last look found
    _is_new: bool = field(default=True, init=False)
    _found_nothing: bool = field(default=False, init=False)  # so that all partitions have appeared since
    _next: list[OffsetRange] = field(factory=list, init=False)
    _ranges: dict[int, list[OffsetRange]] = field(factory=dict, init=False)  # of batches that have not succeeded
    _rows_max: int | None = field(default=None, init=False)
    _rest: Rest = field(factory=Rest, init=False)
    _policy_at: float = field(default=0.0, init=False)
    _checked: frozenset[str] = field(default=frozenset(), init=False)
    _record_bytes: float = field(default=0.0, init=False)
    _sampled: int = field(default=0, init=False)

    def restore(self, cursors: Mapping[str, Json]) -> None:
        """Continue after the last batch."""
        self._positions = positions_of(cursors)
        self._is_new = not cursors

    def moved(self, metadata: list[StoredRange]) -> Mapping[str, Json]:
        """Return the end of each range."""
        return dict(cursor_of(OffsetRange.parse(stored)) for stored in metadata)

    def is_ready(self, txid: int) -> bool:
        """Return whether the cluster has new records, or partitions with a beginning that must be stored."""
        if not self._next:
            self._next = self._look()
        return bool(self._next)

    def lag(self) -> Mapping[str, int]:
        """Return the number of unread offsets up to the last stable one, by ``topic/partition``."""
        lag = {}
        for each in self._there:
            position = self._positions.get((each.topic, each.partition))
            lag[f"{each.topic}/{each.partition}"] = each.end - (position.offset if position else each.start)
        return lag

    def expiring(self, metadata: list[StoredRange]) -> str:
        """Return why records of a batch may soon be deleted: its topic keeps few older ones, or none."""
        for stored in metadata:
            each = OffsetRange.parse(stored)
            first, last = self._kept.get((each.topic, each.partition), (0, 0))
            margin = (last - first) * EXPIRING_SHARE
            if each.size and first > 0 and each.start - first < margin:
                return (
                    f"{each.topic}/{each.partition} has deleted the records up to offset {first} by now, and the batch "
                    f"begins at {each.start}"
                )
        return ""

    def limit_batches(self, max_rows: int | None) -> None:
        """Limit batches to ``max_rows`` records; None: no additional limit."""
        self._rows_max, self._next = max_rows, []

    def initialize_transaction(
        self, txid: int, prev_metadata: list[StoredRange] | None, curr_metadata: list[StoredRange] | None
    ) -> list[StoredRange]:
        """Return the ranges that `is_ready` has found, or those that the transaction had before.

        Raises:
            SpoutError: their topics were deleted or replaced.
        """
        if curr_metadata is not None:
            ranges = [OffsetRange.parse(stored) for stored in curr_metadata]
            self._ids.verify(ranges)
        else:
            ranges, self._next = self._next, []
            for each in ranges:
                self._positions[each.topic, each.partition] = Position(each.end, each.topic_id)
            self._is_new = False
        if self.commits:
            self._ranges[txid] = ranges
        return [each.stored for each in ranges]

    def success(self, txid: int) -> None:
        """Commit the offsets of the batch for Kafka's own tools; nothing else uses them."""
        ranges = self._ranges.pop(txid, [])
        if ranges:
            self.cluster.commit({(each.topic, each.partition): each.end for each in ranges})

    def close(self) -> None:
        """Close the cluster's clients."""
        self.cluster.close()

    # --- what there is ------------------------------------------------------------------------------------------------

    def _look(self) -> list[OffsetRange]:
        with self._rest.looking():
            try:
                with errors_of_spout(self.name):
                    return self._found()
            except BaseException:
                self.cluster.close()  # after a disconnect, a client may not notice changes
                raise

    def _found(self) -> list[OffsetRange]:
        look = self.cluster.look(self.topics, self._kept)
        topics, beginnings, ends = look.topics, look.beginnings, look.ends
        self._check_policy(topics)
        self._ids.check(
            {(name, at.topic_id) for (name, _), at in self._positions.items() if is_wanted(name, self.topics)}, topics
        )
        ids = {(topic.name, number): topic.id for topic in topics.values() for number in topic.partitions}
        if not ids:
            self._found_nothing = True
        new = self._begun([each for each in ids if each not in self._positions], beginnings)
        if new:
            ends = self.cluster.ends(ids)  # again: so records that arrive meanwhile are after the start of a partition
        starts = {each: position.offset for each, position in self._positions.items() if each in ids} | new
        for each, start in starts.items():
            self._check_kept(each, start, beginnings[each], ends[each])
        ranges = [OffsetRange(*each, start, max(start, ends[each]), ids[each]) for each, start in starts.items()]
        self._there, self._kept = ranges, {each: (beginnings[each], ends[each]) for each in ids}
        full = self._cut([each for each in ranges if each.size])
        # Where a partition begins is kept with the first batch, also if there is nothing in it yet.
        read = {(each.topic, each.partition) for each in full}
        kept = {each for each in new if each not in read and (full or self._keeps_beginnings)}
        return sorted([*full, *(OffsetRange(*each, new[each], new[each], ids[each]) for each in kept)])

    @property
    def _keeps_beginnings(self) -> bool:
        """Whether the time of the first look matters, because no later record may be skipped."""
        return self._is_new and self.start != "earliest"

    def _begun(self, partitions: Collection[Partition], beginnings: Mapping[Partition, int]) -> dict[Partition, int]:
        """Return the first offsets of unread partitions; those that appear later begin at their first record."""
        found = {each: beginnings[each] for each in partitions}
        if not self._is_new or self.start == "earliest" or not partitions:
            return found
        match self.start:
            case "latest":
                return found if self._found_nothing else self.cluster.ends(partitions)
            case "committed":
                return found | self.cluster.committed(partitions)
            case datetime():
                return self.cluster.at(self.start, partitions)
            case Mapping():
                return found | {each: offset for each, offset in self.start.items() if each in found}
        raise AssertionError(f"start is {self.start!r}")

    def _cut(self, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
        if not ranges:
            return []
        records = min(self.limits.records, self._rows_max or self.limits.records)
        if self._sampled % SAMPLED_BATCHES == 0:
            largest = max(ranges, key=lambda each: each.size)
            first = evolve(largest, end=min(largest.end, largest.start + SAMPLED_RECORDS))
            found = self.mean_bytes(first) or self.mean_bytes(largest)  # the first ones may all be aborted
            self._record_bytes = found or self._record_bytes
        if self._record_bytes:
            self._sampled += 1
            records = min(records, max(1, int(self.limits.bytes / self._record_bytes)))
        return [each for each in limited(ranges, records) if each.size]

    # --- what must not be ---------------------------------------------------------------------------------------------

    def _check_kept(self, partition: Partition, start: int, beginning: int, end: int) -> None:
        where = f"spout {self.name!r}: {partition[0]}/{partition[1]}"
        if partition not in self._positions and not beginning <= start <= end:
            raise SpoutError(
                f"{where} is to begin at offset {start}, as start= says, and holds those from {beginning} up to "
                f"{end}, the last stable one; to fix this: give another start="
            )
        if beginning > start:
            raise SpoutError(
                f"{where} was read up to offset {start}, and begins at {beginning} by now: {beginning - start} "
                f"records have expired before they were read; to fix this: restore them, or `trident reset` the "
                f"topology to continue without them"
            )
        if end < start:
            raise SpoutError(
                f"{where} was read up to offset {start}, and ends at {end}: it was cut, or its brokers have lost "
                f"confirmed records; to fix this: restore them, or `trident reset` the topology"
            )

    def _check_policy(self, topics: Mapping[str, Topic]) -> None:
        due = time.monotonic() - self._policy_at > POLICY_SECONDS
        if not self.is_exact or not (due or topics.keys() - self._checked):
            return
        compacted = self.cluster.compacted(topics)
        if compacted:
            raise SpoutError(
                f"spout {self.name!r}: Kafka compacts {', '.join(compacted)}, so a batch would not be the same when "
                f"it is read again; to fix this: set cleanup.policy=delete there, or start the topology again, which "
                f"then reads an opaque source"
            )
        self._checked, self._policy_at = frozenset(topics), time.monotonic()
