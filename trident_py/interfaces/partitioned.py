"""Sources of many partitions, each read by a Spark task: Storm's two interfaces, in PEP 8.

Both are called the same way. The coordinator, in the driver's process, lists the partitions of a batch. The emitter
lives in Spark tasks. Each task receives some of the partitions and the metadata of their last batches, emits the rows
that follow, and returns the new metadata. The two interfaces differ in a replay: an `IPartitionedTridentSpout` emits
the very same batch from its metadata; an `IOpaquePartitionedTridentSpout` continues after the last committed batch.

A partition is a string, or any hashable object with Storm's ``get_id()``. Metadata is JSON.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar, Generic, TypeVar, cast

from pyspark.sql.types import StructType

from coordinators.values.attempt import TransactionAttempt
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import TopologyContext
from trident_py.interfaces.spouts import Replay, RowSource

Ps = TypeVar("Ps")
"""The coordinator's description of the partitions of a batch: JSON, such as a list of their names."""

P = TypeVar("P")
"""One partition."""

M = TypeVar("M")
"""The metadata of one partition's part of a batch: JSON, such as the offsets of its first and last row."""


class ISpoutPartition(ABC):
    """A partition that needs more than a string; it must be hashable, so use a frozen class."""

    @abstractmethod
    def get_id(self) -> str:
        """Return the id under which its metadata is stored; unique in the spout, and the same in every run."""


class PartitionedCoordinator(ABC, Generic[Ps]):
    """The half that knows the partitions. There is one, in the leading driver, with its own thread."""

    @abstractmethod
    def get_partitions_for_batch(self) -> Ps:
        """Return the partitions of the next batch. Partitions may be added, removed and added again.

        A partition that is added again continues at its last position.

        For a transactional spout, called once for each batch, whose partitions are then fixed. For an opaque spout,
        called for every attempt.
        """

    @abstractmethod
    def is_ready(self, txid: int) -> bool:
        """Return whether to start a batch; always True makes endless empty batches. It must not block for long."""

    def has_pending_input(self) -> bool:
        """Return true if known input that was not ready in `is_ready` will soon be ready by itself. Not in Storm."""
        return False

    def emitted(self, positions: Mapping[str, Any]) -> None:
        """Receive the positions of the partitions: for each id, the metadata that `emit_batch_new` returned last.

        Called before `is_ready` whenever an emission has moved a position, so that positions can be compared with the
        source. An emission that is still running may be further. Not in Storm.
        """

    def success(self, txid: int) -> None:
        """Receive the notice that ``txid`` is committed for good: its source data can be deleted or acknowledged.

        Called at least once for each transaction, in order, on this half's thread; repeated after a crash.
        """

    def close(self) -> None:
        """Release resources: the topology stops."""


class OpaquePartitionedEmitter(ABC, Generic[Ps, P, M]):
    """The half that emits, in Spark tasks. A worker process makes one and keeps it for later batches."""

    def get_ordered_partitions(self, all_partition_info: Ps) -> Sequence[P]:
        """Return all partitions, in an order that is the same in every task.

        By default, the partitions that the coordinator returned.
        """
        return list(cast("Iterable[P]", all_partition_info))

    @abstractmethod
    def emit_batch_new(
        self,
        tx: TransactionAttempt,
        collector: TridentCollector,
        partitions: AbstractSet[P],
        last_partition_meta_map: Mapping[P, M],
    ) -> Mapping[P, M]:
        """Emit the next rows of ``partitions`` and return the new positions.

        Args:
            tx: the attempt.
            collector: receives rows and Arrow data.
            partitions: the partitions of this task, in order.
            last_partition_meta_map: the metadata that their last batches returned; partitions without one are missing.

        Returns:
            The new metadata of each partition; if a partition is left out or None, its metadata does not change.
        """

    def get_partitions_for_task(self, task_id: int, num_tasks: int, all_partitions: Sequence[P]) -> Sequence[P]:
        """Return the partitions of this task: every ``num_tasks``-th. Each must belong to exactly one task."""
        return all_partitions[task_id::num_tasks]

    def refresh_partitions(self, partition_responsibilities: Sequence[P]) -> None:
        """Take over these partitions; called before the first emission and whenever they change."""

    def close(self) -> None:
        """Release resources: the worker process is needed by another run. Not called when the process ends."""


class PartitionedEmitter(OpaquePartitionedEmitter[Ps, P, M]):
    """An emitter that can also emit an old batch again, exactly."""

    @abstractmethod
    def re_emit_partition_batch(
        self, tx: TransactionAttempt, collector: TridentCollector, partition: P, partition_meta: M
    ) -> None:
        """Emit exactly the rows for which `emit_batch_new` returned ``partition_meta``."""


class PartitionedSpout(RowSource, ABC, Generic[Ps, P, M]):
    """The base of `IPartitionedTridentSpout` and `IOpaquePartitionedTridentSpout`.

    It is pickled into the tasks, so keep only settings in it. Connect in its coordinator and in its emitter.

    Attributes:
        output_schema: the fields of its rows, a DDL string or a ``StructType``.
    """

    output_schema: str | StructType
    Coordinator = PartitionedCoordinator

    @abstractmethod
    def get_coordinator(self, conf: TridentConfig, context: TopologyContext) -> PartitionedCoordinator[Ps]:
        """Make the half that knows the partitions. Called once per run, in the driver's process."""

    @abstractmethod
    def get_emitter(self, conf: TridentConfig, context: TopologyContext) -> OpaquePartitionedEmitter[Ps, P, M]:
        """Make the half that emits, in Spark's worker processes, where ``context.spark`` is ``None``."""


class IOpaquePartitionedTridentSpout(PartitionedSpout[Ps, P, M]):
    """A partitioned source that may return other rows when a batch is emitted again."""

    replay: ClassVar[Replay] = Replay.OPAQUE
    Emitter: ClassVar[type] = OpaquePartitionedEmitter


class IPartitionedTridentSpout(PartitionedSpout[Ps, P, M]):
    """A partitioned source that emits exactly the same batch again from its metadata, also after a crash."""

    replay: ClassVar[Replay] = Replay.EXACT
    Emitter: ClassVar[type] = PartitionedEmitter

    @abstractmethod
    def get_emitter(self, conf: TridentConfig, context: TopologyContext) -> PartitionedEmitter[Ps, P, M]:
        """Make the half that emits, and can emit again."""
