"""The definitions and cursors from which a spout continues, made of its data in Storm.

- A spout that defines batches by its coordinator keeps its metadata as it is.
- A partitioned spout keeps each partition's metadata as it is.
- The metadata of storm-kafka-client become the ranges and positions of a `KafkaSpout`.
- Other spouts of trident_py store positions that Storm doesn't have. They are refused.

Pure, except that a `KafkaSpout` tells the ids of its topics, which Storm doesn't store.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from coordinators.values.canonical import Json
from trident_py.errors import SpoutError, TopologyError
from trident_py.interfaces.spouts import ITridentSpout, Replay
from trident_py.spouts.adapting import BatchSpoutAdapter, RichSpoutAdapter
from trident_py.spouts.kafka.kafka import KafkaSpout
from trident_py.spouts.kafka.ranges import OffsetRange, Partition, cursor_of
from trident_py.spouts.partition_executor import PartitionedSpoutAdapter
from trident_py.storm.snapshot import StormSpout


@frozen(kw_only=True)
class ImportedSpout(ABC):
    """One spout from the transaction ``current`` on, the lowest that is not committed.

    Attributes:
        stored: its data in Storm.
    """

    stored: StormSpout
    current: int

    @abstractmethod
    def definition(self, txid: int) -> tuple[Json] | None:
        """Return the definition of a transaction in a tuple; None: Storm has stored none that can be used."""

    def cursors(self, last: int) -> Mapping[str, Json]:
        """Return its cursors if ``last`` is the last transaction with a definition in the record."""
        return {}

    @property
    @abstractmethod
    def knows_batch(self) -> bool:
        """Whether its batch of ``current`` is known, so that the next one continues after it."""


@frozen(kw_only=True)
class DefiningSpout(ImportedSpout):
    """A spout with a coordinator that defines batches.

    Attributes:
        is_exact: whether a definition gives the same batch each time.
    """

    is_exact: bool

    def definition(self, txid: int) -> tuple[Json] | None:
        return (self.stored.metadata[txid],) if txid in self.stored.metadata else None

    @property
    def knows_batch(self) -> bool:
        return self.is_exact and self.current in self.stored.metadata


@frozen(kw_only=True)
class PartitionedSpout(ImportedSpout):
    """A partitioned spout: what a batch has of each partition follows from emitting it.

    Storm stores that when an exact batch is emitted, or when an opaque one is committed.
    """

    is_exact: bool

    def definition(self, txid: int) -> tuple[Json] | None:
        if txid not in self.stored.metadata:
            return None
        partitions, extents = {"partitions": self.stored.metadata[txid]}, self._extents(txid)
        is_kept = extents and (self.is_exact or txid < self.current)
        return ({**partitions, "extents": extents},) if is_kept else ({**partitions},)

    def cursors(self, last: int) -> Mapping[str, Json]:
        """Return the metadata of each partition before ``current``: cursors move when a batch is committed."""
        found = {}
        for partition, stored in self.stored.partitions.items():
            before = [txid for txid, value in stored.items() if txid < self.current and value is not None]
            if before:
                found[partition] = stored[max(before)]
        return found

    @property
    def knows_batch(self) -> bool:
        return self.is_exact and bool(self._extents(self.current))

    def _extents(self, txid: int) -> dict[str, Json]:
        found = {partition: stored.get(txid) for partition, stored in self.stored.partitions.items()}
        return {partition: value for partition, value in found.items() if value is not None}


_PARTITION = re.compile(r"(.+)@(\d+)", re.ASCII)
"""The id of a partition of storm-kafka-client's spouts."""


@frozen(kw_only=True)
class ImportedKafkaSpout(ImportedSpout):
    """A spout of storm-kafka-client: it stores the first and the last offset of each partition in a batch.

    A batch without records has the offset before its position as both, so the batch before it tells them apart.

    Attributes:
        topology: the name of the topology in Storm.
        topic_ids: the ids that its topics have now.
    """

    topology: str
    topic_ids: Mapping[str, str]
    _ranges: Mapping[Partition, Mapping[int, OffsetRange]] = field(init=False, repr=False)

    @_ranges.default
    def _read(self) -> Mapping[Partition, Mapping[int, OffsetRange]]:
        found: dict[Partition, Mapping[int, OffsetRange]] = {}
        for id, stored in self.stored.partitions.items():
            match = _PARTITION.fullmatch(id)
            if match is None:
                raise self._unlike(id, "its name is not TOPIC@NUMBER")
            if match[1] in self.topic_ids:
                found[match[1], int(match[2])] = self._ranges_of(match[1], int(match[2]), stored)
        return found

    def definition(self, txid: int) -> tuple[Json] | None:
        if not self._is_whole(txid):
            return None
        ranges = sorted(each[txid] for each in self._ranges.values() if txid in each)
        return ([each.stored for each in ranges if each.size],)

    def cursors(self, last: int) -> Mapping[str, Json]:
        """Return the position of each partition after ``last``: cursors move when a batch is defined."""
        ends = []
        for stored in self._ranges.values():
            before = [txid for txid in stored if txid <= last]
            if before:
                ends.append(stored[max(before)])
            elif stored:
                first = stored[min(stored)]
                ends.append(OffsetRange(first.topic, first.partition, first.start, first.start, first.topic_id))
        return dict(map(cursor_of, ends))

    @property
    def knows_batch(self) -> bool:
        return self._is_whole(self.current)

    def _is_whole(self, txid: int) -> bool:
        """Return whether every partition that a transaction was defined with has stored its offsets."""
        listed: Any = self.stored.metadata.get(txid)
        if not isinstance(listed, list):
            return False
        partitions = {(each["topic"], each["partition"]) for each in listed if each["topic"] in self.topic_ids}
        return all(txid in self._ranges.get(each, {}) for each in partitions)

    def _ranges_of(self, topic: str, number: int, stored: Mapping[int, Json]) -> Mapping[int, OffsetRange]:
        found: dict[int, OffsetRange] = {}
        end: int | None = None
        for txid, value in sorted(stored.items()):
            if value is None:  # Storm stores it for a batch that came too late, which had nothing
                continue
            first, last = self._offsets(f"{topic}@{number}", txid, value)
            is_empty = first == last and (last < 0 or last + 1 == end)
            if end is None and first == last and last >= 0 and txid >= self.current:
                raise SpoutError(
                    f"{self._where}: transaction {txid} is the first of {topic}@{number}, and its offsets {first} to "
                    f"{last} are those of one record or of none. To fix this: activate Storm's topology until two "
                    f"more transactions are committed, then deactivate it and import again"
                )
            start = last + 1 if is_empty else first if end is None else end
            found[txid] = OffsetRange(topic, number, start, last + 1, self.topic_ids[topic])
            end = last + 1
        return found

    def _offsets(self, partition: str, txid: int, value: Json) -> tuple[int, int]:
        """Return the first and the last offset.

        Raises:
            SpoutError: another topology has stored them, or they are something else.
        """
        match value:
            case {"firstOffset": int(first), "lastOffset": int(last), "topologyId": str(id)}:
                if re.fullmatch(rf"{re.escape(self.topology)}-\d+-\d+", id) is None:
                    raise SpoutError(
                        f"{self._where}: the offsets of {partition} in transaction {txid} are those of topology {id}, "
                        f"not of {self.topology}. To fix this: name that one by --from-storm"
                    )
                return first, last
        raise self._unlike(partition, f"transaction {txid} has {value!r}")

    def _unlike(self, partition: str, why: str) -> SpoutError:
        return SpoutError(
            f"{self._where}: partition {partition!r} was not stored by KafkaTridentSpoutOpaque or "
            f"KafkaTridentSpoutTransactional of storm-kafka-client: {why}. To fix this: declare the spout that did"
        )

    @property
    def _where(self) -> str:
        return f"spout {self.stored.tx_id!r} of Storm's topology {self.topology!r}"


def imported_spout(spout: ITridentSpout[Any], stored: StormSpout, current: int, topology: str) -> ImportedSpout:
    """Return the data from which ``spout``, as it is declared, continues.

    Raises:
        TopologyError: it stores its position in a form that Storm doesn't have.
        SpoutError: it is a `KafkaSpout`, and Storm has stored something else, or its cluster doesn't answer.
    """
    is_exact = spout.replay is Replay.EXACT
    match spout:
        case PartitionedSpoutAdapter():
            return PartitionedSpout(stored=stored, current=current, is_exact=is_exact)
        case KafkaSpout():
            return ImportedKafkaSpout(
                stored=stored, current=current, topology=topology, topic_ids=spout.find_topic_ids(stored.tx_id)
            )
        case BatchSpoutAdapter() | RichSpoutAdapter():
            pass
        case _ if type(spout).__module__.partition(".")[0] == "trident_py":
            raise TopologyError(
                f"spout {stored.tx_id!r} is a {type(spout).__name__}, which keeps its position in a form that Storm "
                f"doesn't have. An import takes a KafkaSpout, and spouts of your own: an ITridentSpout, "
                f"IPartitionedTridentSpout or IOpaquePartitionedTridentSpout that takes the metadata it has in Storm"
            )
    return DefiningSpout(stored=stored, current=current, is_exact=is_exact)
