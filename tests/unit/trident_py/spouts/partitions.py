"""Partitioned spouts, and who takes what they emit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field, frozen

from coordinators.values.attempt import TransactionAttempt
from tests.unit.trident_py.spouts.collecting import ListCollector
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.context import TopologyContext
from trident_py.interfaces.partitioned import (
    IPartitionedTridentSpout,
    ISpoutPartition,
    PartitionedCoordinator,
    PartitionedEmitter,
)
from trident_py.interfaces.spouts import OffsetReportingEmitter

CALLS: list[str] = []


@frozen
class Topic(ISpoutPartition):
    name: str

    def get_id(self) -> str:
        return self.name


class Topics(PartitionedCoordinator[list[str]]):
    def __init__(self) -> None:
        self.names, self.positions = ["a", "b"], dict[str, int]()

    def get_partitions_for_batch(self) -> list[str]:
        return list(self.names)

    def emitted(self, positions: Mapping[str, int]) -> None:
        self.positions = dict(positions)

    def is_ready(self, txid: int) -> bool:
        return self.positions.get("a", 0) < 4


class TopicEmitter(PartitionedEmitter[list[str], Topic, int]):
    def get_ordered_partitions(self, all_partition_info: list[str]) -> list[Topic]:
        return [Topic(name) for name in all_partition_info]

    def emit_batch_new(
        self, tx: TransactionAttempt, collector: TridentCollector, partitions: Any, last: Mapping[Topic, int]
    ) -> dict[Topic, int]:
        CALLS.append(f"new {tx} {[topic.name for topic in partitions]}")
        for topic in partitions:
            self.re_emit_partition_batch(tx, collector, topic, last.get(topic, 0) + 2)
        return {topic: last.get(topic, 0) + 2 for topic in partitions}

    def re_emit_partition_batch(
        self, tx: TransactionAttempt, collector: TridentCollector, partition: Topic, partition_meta: int
    ) -> None:
        for number in (partition_meta - 1, partition_meta):
            collector.emit((partition.name, number))

    def refresh_partitions(self, partition_responsibilities: Sequence[Topic]) -> None:
        CALLS.append(f"refresh {[topic.name for topic in partition_responsibilities]}")


class Exact(IPartitionedTridentSpout[list[str], Topic, int]):
    output_schema = "topic string, number int"

    def get_coordinator(self, conf: Any, context: Any) -> Topics:
        return Topics()

    def get_emitter(self, conf: Any, context: Any) -> TopicEmitter:
        assert context == TopologyContext("wordcount", "lines", None, context.metrics)
        CALLS.append("made")
        return TopicEmitter()


@define
class Notes(ListCollector):
    """A collector that also keeps the notes of the tasks."""

    notes: list[str] = field(factory=list)

    def emit_splits(
        self, splits: Sequence[Any], read: Any, *, fingerprinting: bool = False, on_driver: bool = False, **more: Any
    ) -> None:
        for split in splits:
            reading = read(split)
            try:
                while True:
                    self.emit_arrow(next(reading))
            except StopIteration as end:
                self.notes.append(end.value)


def run(emitter: OffsetReportingEmitter[Any], attempt: str, metadata: Any) -> tuple[list[Any], Any]:
    collector, (txid, number) = Notes(), map(int, attempt.split(":"))
    emitter.emit_batch(TransactionAttempt(txid, number), metadata, collector)
    return collector.rows, emitter.resolve_offsets(TransactionAttempt(txid, number), collector.notes)
