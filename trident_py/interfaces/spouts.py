"""The interfaces of sources: Storm's, with a declaration of what a replay returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar, Generic, Protocol, runtime_checkable

from attrs import frozen
from pyspark.sql.types import StructType

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.batch_coordinator import BatchCoordinator, M
from coordinators.values.canonical import Json
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import TopologyContext
from trident_py.interfaces.identity import Identified


class Replay(Enum):
    """The rows that a spout emits when a batch is emitted again."""

    EXACT = "exact"
    """The same rows for the same txid and metadata, also after a crash: Trident's transactional spout."""

    OPAQUE = "opaque"
    """Other rows are possible, as long as each row is in one committed batch: Trident's opaque transactional spout."""

    NON_TRANSACTIONAL = "non-transactional"
    """Rows may be missing, or be in another batch too: there is no guarantee. Run like an opaque spout."""


@frozen
class Decoder:
    """A row function for rows that a spout couldn't decode: it decodes them, or raises, and they are dead letters.

    Attributes:
        fields: the fields of its rows.
    """

    function: Callable[[Any], Sequence[Any]]
    fields: StructType


class RowSource(Identified):
    """A spout of any kind.

    Attributes:
        decoder: maps the rows of the spout before all other operations. The rows for which it, or another row function,
            raises are left out, as with ``on_bad_row="quarantine"``. None: the rows are emitted as they are.
        partition_fields: the fields of its rows that name the partition of the source from which a row comes, such as
            ``("topic", "partition")``. Their types are ``string``, ``int`` or ``bigint``. By event time, the watermark
            is the least over these partitions. Empty: all rows are one partition.
    """

    decoder: Decoder | None = None
    partition_fields: ClassVar[Sequence[str]] = ()

    @property
    def caveat(self) -> str:
        """A limit of its guarantee that its replay doesn't show, for ``explain()``; empty without one."""
        return ""


class Emitter(ABC, Generic[M]):
    """Emits the rows of a batch; runs in the driver's process, on its own thread, in txid order.

    The txid of an attempt is the number that `BatchCoordinator.initialize_transaction` received.
    """

    @abstractmethod
    def emit_batch(self, attempt: TransactionAttempt, metadata: M, collector: TridentCollector) -> None:
        """Emit the batch that ``metadata`` defines into ``collector``.

        Called once for each attempt. Any exception fails the attempt, which is replayed together with every later one.
        A `FailedException` means that the source is unreachable: the topology retries, and it is no failure of the
        batch.
        """

    def success(self, attempt: TransactionAttempt) -> None:
        """Receive the notice that ``attempt`` is committed for good. Called at least once, in txid order."""

    def close(self) -> None:
        """Release resources: the topology stops. Nothing is called afterwards."""


class CommitterEmitter(Emitter[M]):
    """The emitter of an `ICommitterTridentSpout`, which takes part in the commit phase."""

    @abstractmethod
    def commit(self, attempt: TransactionAttempt) -> None:
        """Commit ``attempt``, in txid order: once per attempt that gets this far, before ``success``.

        Called on the commit thread, so possibly at the same time as a later ``emit_batch``. An exception fails the
        attempt. An attempt that leaves out its batch, which an operator has parked, is committed too, without
        ``emit_batch`` before. The release of that batch is not.
        """


@frozen
class EndOffsets:
    """The end of a batch, which an emitter computes from the notes of its tasks.

    Attributes:
        metadata: the definition of the batch with its splits, from which it can be emitted again.
        moved: the positions that change once this attempt has committed.
        errors: the errors that user code in the tasks reported.
    """

    metadata: Json
    moved: Mapping[str, Json]
    errors: Sequence[str] = ()


class OffsetReportingEmitter(Emitter[M]):
    """An emitter that learns the content of a batch by emitting it, in Spark tasks.

    It emits splits whose ``read`` returns a note. The splits are read once, in a separate job, before the next batch is
    emitted. The positions become durable with the commit of the batch that moved them.
    """

    @abstractmethod
    def restore(self, positions: Mapping[str, Json], upto: int) -> None:
        """Load the positions after transaction ``upto``, the last closed one. Called once, before anything else."""

    @abstractmethod
    def resolve_offsets(self, attempt: TransactionAttempt, notes: Sequence[str]) -> EndOffsets:
        """Return the definition of the batch of ``attempt``, which was emitted.

        ``notes`` are the notes of its tasks, in any order.
        """

    @abstractmethod
    def moved(self, metadata: M) -> Mapping[str, Json] | None:
        """Return the positions that the batch of ``metadata`` moves once it is committed.

        None if the batch was never emitted.
        """


@runtime_checkable
class Committing(Protocol):
    """Any object with the ``commit`` of a `CommitterEmitter`."""

    def commit(self, attempt: TransactionAttempt) -> None:
        """Commit ``attempt``."""
        ...


class ITridentSpout(RowSource, ABC, Generic[M]):
    """A source with full control: it defines batches by metadata and emits them.

    Attributes:
        output_schema: the fields of its rows, a DDL string (``"word string, at timestamp"``) or a ``StructType``.
        replay: the rows that it emits when a batch is emitted again.
        coordinator_needs_spark: whether its coordinator asks Spark for the end of the source. If True, the coordinator
            receives the Spark session of the topology, as the emitter does. Most should not: a coordinator is called
            several times a second, and without Spark it continues while Spark is busy.
        in_order: whether its batches, one after the other, have the rows in the one order of the source. This is False
            for partitioned sources, which have an order for each partition only. `check_spout` compares the order.
        gives_again: whether it emits a batch once more from its metadata, even after the success of that batch. So it
            must not forget or delete a batch at its success. If it doesn't, the rows of a batch that is parked are
            stored.
    """

    output_schema: str | StructType
    replay: Replay = Replay.EXACT
    coordinator_needs_spark: ClassVar[bool] = False
    in_order: ClassVar[bool] = True
    gives_again: ClassVar[bool] = False

    @abstractmethod
    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> BatchCoordinator[M]:
        """Make the half that decides the content of each batch; called once per run."""

    @abstractmethod
    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> Emitter[M]:
        """Make the half that emits the rows; called once per run."""

    def ensure_recoverable(self, cursors: Mapping[str, Json], conf: TridentConfig, context: TopologyContext) -> None:
        """Check that this process could take over; called when a standby starts.

        Args:
            cursors: the stored positions of a `CursorCoordinator`.
            conf: the settings of this process.
            context: names the topology and the spout.

        Raises:
            SpoutError: it couldn't, because it doesn't reach data that only the present leader reaches.
        """


class ICommitterTridentSpout(ITridentSpout[M]):
    """A spout with an emitter that also takes part in the commit phase, by a ``commit(attempt)`` method."""


class IBatchSpout(RowSource, ABC):
    """The simple source: no metadata, always ready, opaque. Runs in the driver's process.

    Attributes:
        output_schema: the fields of its rows, a DDL string or a ``StructType``.
        replay: opaque, unless a subclass guarantees that a batch id always gives the same rows.
    """

    output_schema: str | StructType
    replay: Replay = Replay.OPAQUE

    def open(self, conf: TridentConfig, context: TopologyContext) -> None:
        """Open the source; called once per run, before anything else."""

    @abstractmethod
    def emit_batch(self, batch_id: int, collector: TridentCollector) -> None:
        """Emit the batch numbered ``batch_id`` (the txid); a replay calls it again with the same number."""

    def ack(self, batch_id: int) -> None:
        """Receive the notice that the batch is committed for good. Called at least once, in order."""

    def close(self) -> None:
        """Release resources: the topology stops."""
