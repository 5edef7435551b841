"""The work of a Spark task for a partitioned spout: it emits some partitions, and returns their new positions."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from attrs import define, field, frozen
from pyspark.sql.types import StructType

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Json, canonical_json
from coordinators.values.error_text import error_text
from coordinators.values.errors import MetadataError
from trident_py.errors import SpoutError
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import TopologyContext
from trident_py.spouts.arrow_collector import ArrowCollector

CHUNK_ROWS = 2048
"""The number of rows that are kept as Python objects before they are converted to Arrow."""


@frozen(kw_only=True)
class PartitionedSource:
    """A partitioned spout in one run of a topology; it is sent to the tasks.

    Attributes:
        run: identifies this run; an emitter of another run in the same worker process is not used.
    """

    topology: str
    tx_id: str
    spout: Any
    conf: TridentConfig
    schema: StructType
    run: str


@frozen(kw_only=True)
class PartitionTask:
    """Emits a batch, one share of its partitions per task.

    Attributes:
        partitions: the coordinator's partitions.
        known: by partition id: the metadata to emit again, or the metadata of the previous batch.
        again: whether ``known`` is the metadata to emit again.
    """

    source: PartitionedSource
    attempt: TransactionAttempt
    partitions: Any
    known: Mapping[str, Json]
    again: bool

    @property
    def where(self) -> str:
        """The name of topology, spout and attempt in errors."""
        return f"topology {self.source.topology!r}, spout {self.source.tx_id!r}, attempt {self.attempt}"

    def __call__(self, share: tuple[int, int]) -> Generator[pa.RecordBatch, None, str]:
        """Emit one of ``count`` shares, by its number; return the results of the partitions, and reported errors."""
        emitting = Emitting(self, kept_emitter(self.source))
        mine = emitting.mine(*share)
        collector = TaskCollector(self.where, self.source.schema)
        emit = emitting.emitted_again if self.again else emitting.emitted_new
        splits = emit(mine, collector)
        yield from collector.batches()
        return canonical_json({"extents": splits, "errors": collector.errors})


@define
class Emitting:
    """One task's calls of the user's emitter."""

    task: PartitionTask
    kept: Kept

    @property
    def emitter(self) -> Any:
        """The user's emitter."""
        return self.kept.emitter

    def mine(self, number: int, count: int) -> dict[str, Any]:
        """Return the partitions of this task by id, in order.

        If they have changed since the last call, the emitter's ``refresh_partitions`` is called.
        """
        ordered = list(self.emitter.get_ordered_partitions(self.task.partitions))
        ids = [self._id(partition) for partition in ordered]
        twice = sorted({each for each in ids if ids.count(each) > 1}) if len(set(ids)) < len(ids) else []
        if twice:
            raise SpoutError(f"{self.task.where}: get_ordered_partitions returns partition {twice[0]!r} twice")
        chosen = getattr(self.emitter, "get_partitions_for_task", None)
        share = ordered[number::count] if chosen is None else chosen(number, count, ordered)
        mine = {self._id(partition): partition for partition in share}
        if self.kept.refreshed != list(mine):
            refresh = getattr(self.emitter, "refresh_partitions", None)
            if refresh is not None:
                refresh(list(mine.values()))
            self.kept.refreshed = list(mine)
        return mine

    def emitted_new(self, mine: Mapping[str, Any], collector: TaskCollector) -> dict[str, Json]:
        """Emit new rows of these partitions; return the metadata of each."""
        known = {mine[each]: meta for each, meta in self.task.known.items() if each in mine}
        # A view of a dict's keys: a set, as Storm's, but in order.
        returned = self.emitter.emit_batch_new(self.task.attempt, collector, dict.fromkeys(mine.values()).keys(), known)
        if not isinstance(returned, Mapping):
            raise SpoutError(
                f"{self.task.where}: emit_batch_new returned {returned!r}; to fix this: return a dict with each "
                f"partition's metadata"
            )
        return {self._owned(partition, mine): meta for partition, meta in returned.items() if self._stored(meta)}

    def emitted_again(self, mine: Mapping[str, Any], collector: TaskCollector) -> dict[str, Json]:
        """Emit the rows that these partitions had in an earlier attempt; return the metadata of each."""
        found = {each: self.task.known[each] for each in mine if each in self.task.known}
        for each, meta in found.items():
            self.emitter.re_emit_partition_batch(self.task.attempt, collector, mine[each], meta)
        return found

    def _stored(self, meta: Any) -> bool:
        try:
            canonical_json(meta)
        except MetadataError as error:
            raise MetadataError(
                f"{self.task.where}: emit_batch_new returned metadata that can't be stored: {error}"
            ) from error
        return meta is not None

    def _owned(self, partition: Any, mine: Mapping[str, Any]) -> str:
        found = self._id(partition)
        if found not in mine:
            raise SpoutError(
                f"{self.task.where}: emit_batch_new returned metadata of partition {found!r}; given were {list(mine)}"
            )
        return found

    def _id(self, partition: Any) -> str:
        found = partition if isinstance(partition, str) else getattr(partition, "get_id", lambda: None)()
        if not isinstance(found, str) or not found:
            raise SpoutError(
                f"{self.task.where}: {partition!r} is not a partition; a partition is a string, or has a get_id() "
                f"that returns one"
            )
        return found


@define
class TaskCollector(ArrowCollector):
    """Collects the rows that an emitter emits in a task."""

    errors: list[str] = field(factory=list, init=False)

    def emit(self, row: Sequence[Any]) -> None:
        super().emit(row)
        if len(self._rows) == CHUNK_ROWS:
            self._flush()

    def report_error(self, error: BaseException) -> None:
        """Record ``error`` for the driver, which logs and counts it; the attempt continues."""
        self.errors.append(error_text(error))

    def batches(self) -> list[pa.RecordBatch]:
        """Return all emitted rows."""
        self._flush()
        return [batch for table in self._parts for batch in table.to_batches()]


@define
class Kept:
    """An emitter of this worker process.

    Attributes:
        refreshed: the partitions of its last refresh.
    """

    run: str
    emitter: Any
    refreshed: list[str] | None = None


_kept: dict[tuple[str, str], Kept] = {}
"""The emitters by topology and spout; Spark's worker processes run many tasks, and keep connections between them."""


def kept_emitter(source: PartitionedSource) -> Kept:
    """Return this process's emitter for ``source``; an emitter of an earlier run is closed."""
    key = (source.topology, source.tx_id)
    found = _kept.get(key)
    if found is None or found.run != source.run:
        close = getattr(found.emitter, "close", None) if found else None
        if close is not None:
            close()
        found = _kept[key] = Kept(source.run, source.spout.get_emitter(source.conf, TopologyContext(*key)))
    return found
