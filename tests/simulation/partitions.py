"""A source whose batches are learned by emitting them: the real executor of partitioned spouts over simulated tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import define, field

from tests.simulation.sources import BATCH_ROWS, Source
from tests.simulation.stores import Rows
from trident_py.errors import SpoutError
from trident_py.interfaces.collector import TridentCollector
from trident_py.spouts.partition_executor import News, PartitionsOfBatches, PartitionTasksEmitter
from trident_py.spouts.partition_task import PartitionedSource, PartitionTask

if TYPE_CHECKING:
    from tests.simulation.world import World


@define
class Partitions:
    """The user's coordinator."""

    world: World
    source: Source
    positions: Mapping[str, Any] = field(factory=dict)

    def emitted(self, positions: Mapping[str, Any]) -> None:
        """Where the partitions have come to."""
        self.positions = positions

    def is_ready(self, txid: int) -> bool:
        """Whether any has more."""
        return any(rows > self.positions.get(name, [0, 0])[1] for name, rows in self.source.inputs.items())

    def get_partitions_for_batch(self) -> list[str]:
        """All that have rows."""
        if self.world.chance.happens("coordinator fails"):
            raise ValueError("the source is out of reach")
        return [name for name, rows in self.source.inputs.items() if rows]


@define
class Sent(TridentCollector):
    """Takes what is sent to tasks."""

    task: Any = None

    def emit(self, row: object) -> None:
        """Nothing is emitted on the driver."""
        raise AssertionError(row)

    def emit_splits(self, splits: object, read: Any, **options: Any) -> None:
        """The task."""
        self.task = read

    def report_error(self, error: BaseException) -> None:
        """Nothing is reported."""
        raise AssertionError(error)


def halves(world: World, source: Source) -> tuple[PartitionsOfBatches, PartitionTasksEmitter]:
    """The coordinator and the emitter of one leader."""
    news, coordinator = News(), Partitions(world, source)
    nothing: Any = None
    sent = PartitionedSource(
        topology="simulated", tx_id=source.name, spout=nothing, conf=nothing, schema=nothing, run=""
    )
    return PartitionsOfBatches(coordinator, source.exact, news), PartitionTasksEmitter(sent, source.exact, 1, news)


def emitted(world: World, source: Source, task: PartitionTask) -> tuple[Rows, str]:
    """What the tasks give: rows, and the note of where they came to."""
    known: Mapping[str, Any] = task.known
    if task.again:
        splits = {name: known[name] for name in task.partitions if name in known}
    else:
        splits = {name: _next(world, source, name, known.get(name, [0, 0])[1]) for name in task.partitions}
    rows = [(name, number) for name, (start, end) in splits.items() for number in range(start, end)]
    if any(2 * number < source.lost_upto for _, number in rows):
        raise SpoutError(f"{source.name}: rows up to {source.lost_upto} are gone, {task.attempt} needs some of them")
    return tuple(rows), json.dumps({"extents": splits, "errors": []})


def _next(world: World, source: Source, name: str, start: int) -> list[int]:
    most = min(BATCH_ROWS, source.inputs[name] - start)
    return [start, start + world.chance.pick("batch size", range(1, most + 1)) if most > 0 else start]
