"""Sources of many partitions, each read by a Spark task: Storm's two interfaces, in PEP 8.

Both are asked the same way. The coordinator says, in the driver's process, which partitions a batch has; the emitter
lives in Spark tasks, each of which is given some of the partitions and the metadata of their last batches, emits from
there on, and returns the new metadata. They differ in what a replay is: an `IPartitionedTridentSpout` emits the very
same batch from its metadata, an `IOpaquePartitionedTridentSpout` goes on again from what was committed last.

A partition is a string, or whatever can be hashed and has Storm's ``get_id()``. Metadata is JSON.
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
from trident_py.interfaces.identity import Identified
from trident_py.interfaces.spouts import Replay

Ps = TypeVar("Ps")
"""What a coordinator says of the partitions of a batch: JSON, as a list of their names."""

P = TypeVar("P")
"""One partition."""

M = TypeVar("M")
"""The metadata of one partition's part of a batch, as the offsets of its first and last row: JSON."""


class ISpoutPartition(ABC):
    """One partition, where a string says too little; must be hashable, so a frozen class."""

    @abstractmethod
    def get_id(self) -> str:
        """Return the id that its metadata is stored under; unique in the spout, and the same in every run."""


class PartitionedCoordinator(ABC, Generic[Ps]):
    """The half that knows the partitions; one in the leading driver, on a thread of its own."""

    @abstractmethod
    def get_partitions_for_batch(self) -> Ps:
        """Return the partitions of the next batch. They may come, go and come back.

        One that returns goes on where it was.

        Asked once for a batch of a transactional spout, whose partitions then stand, and for every attempt of an
        opaque one.
        """

    @abstractmethod
    def is_ready(self, txid: int) -> bool:
        """Tell whether a batch is worth while. Always True gives empty batches without end; must not block long."""

    def emitted(self, positions: Mapping[str, Any]) -> None:
        """Hear to which places the partitions have come: by id, what `emit_batch_new` returned last.

        Called before `is_ready` whenever there is news of an emission, so that the two can be compared with what the
        source has; one that is under way may be further. Not in Storm.
        """

    def success(self, txid: int) -> None:
        """Hear that ``txid`` is committed for good: what it was made of can be deleted or acknowledged at the source.

        Called at least once for each transaction, in order, on this half's thread; after a crash again.
        """

    def close(self) -> None:
        """Close: the topology stops."""


class OpaquePartitionedEmitter(ABC, Generic[Ps, P, M]):
    """The half that emits, in Spark tasks. A worker process makes one and keeps it for the batches to come."""

    def get_ordered_partitions(self, all_partition_info: Ps) -> Sequence[P]:
        """Return all partitions, in an order that is the same in every task.

        By default, what the coordinator has listed.
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
        """Emit what comes next in ``partitions``, and say up to where.

        Args:
            tx: the attempt.
            collector: takes rows and Arrow data.
            partitions: those of this task, in order.
            last_partition_meta_map: the metadata that their last batches returned; without those that had none.

        Returns:
            The new metadata of each partition; what is left out, or None, stays as it was.
        """

    def get_partitions_for_task(self, task_id: int, num_tasks: int, all_partitions: Sequence[P]) -> Sequence[P]:
        """Return which of all partitions are this task's: every ``num_tasks``-th. Each must be one task's alone."""
        return all_partitions[task_id::num_tasks]

    def refresh_partitions(self, partition_responsibilities: Sequence[P]) -> None:
        """Take over these partitions; called before the first emission and whenever they change."""

    def close(self) -> None:
        """Close: another run of a topology needs the worker process. Not called where that ends."""


class PartitionedEmitter(OpaquePartitionedEmitter[Ps, P, M]):
    """An emitter that can also give a batch again, exactly."""

    @abstractmethod
    def re_emit_partition_batch(
        self, tx: TransactionAttempt, collector: TridentCollector, partition: P, partition_meta: M
    ) -> None:
        """Emit the very rows for which `emit_batch_new` returned ``partition_meta``."""


class PartitionedSpout(Identified, ABC, Generic[Ps, P, M]):
    """What both kinds have in common. It is pickled into the tasks: hold settings in it, and connect in its halves.

    Attributes:
        output_schema: the fields of its rows, a DDL string or a ``StructType``.
    """

    output_schema: str | StructType
    Coordinator = PartitionedCoordinator

    @abstractmethod
    def get_coordinator(self, conf: TridentConfig, context: TopologyContext) -> PartitionedCoordinator[Ps]:
        """Make the half that knows the partitions; called once per run, in the driver's process."""

    @abstractmethod
    def get_emitter(self, conf: TridentConfig, context: TopologyContext) -> OpaquePartitionedEmitter[Ps, P, M]:
        """Make the half that emits, in Spark's worker processes. ``context.spark`` is None there."""


class IOpaquePartitionedTridentSpout(PartitionedSpout[Ps, P, M]):
    """A partitioned source that may give other rows when a batch is emitted again (Storm P8)."""

    replay: ClassVar[Replay] = Replay.OPAQUE
    Emitter: ClassVar[type] = OpaquePartitionedEmitter


class IPartitionedTridentSpout(PartitionedSpout[Ps, P, M]):
    """A partitioned source of which metadata gives the same batch again, also after a crash (Storm P7)."""

    replay: ClassVar[Replay] = Replay.EXACT
    Emitter: ClassVar[type] = PartitionedEmitter

    @abstractmethod
    def get_emitter(self, conf: TridentConfig, context: TopologyContext) -> PartitionedEmitter[Ps, P, M]:
        """Make the half that emits, also again."""
