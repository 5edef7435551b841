"""The interfaces a source implements: Storm's, with a declaration of what a replay gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import ClassVar, Generic, Protocol, runtime_checkable

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
    """What a spout gives when a batch is emitted again."""

    EXACT = "exact"
    """The same rows for the same txid and metadata, also after a crash: Trident's transactional spout."""

    OPAQUE = "opaque"
    """Perhaps other rows, as long as each row is in one committed batch: Trident's opaque transactional spout."""

    NON_TRANSACTIONAL = "non-transactional"
    """Perhaps none, or rows that another batch has too: nothing can be promised. Run as an opaque one."""


class Emitter(ABC, Generic[M]):
    """Gives the rows of a batch; runs in the driver's process, on one thread of its own, in txid order.

    The txid of an attempt is the number that `BatchCoordinator.initialize_transaction` has for the transaction.
    """

    @abstractmethod
    def emit_batch(self, attempt: TransactionAttempt, metadata: M, collector: TridentCollector) -> None:
        """Emit the batch that ``metadata`` defines, into ``collector``.

        Called once for each attempt. Any exception fails the attempt, which is replayed with every later one. A
        `FailedException` says that the source can't be reached: it is waited for, and no failure of the batch.
        """

    def success(self, attempt: TransactionAttempt) -> None:
        """Hear that ``attempt`` is committed for good. Called at least once, in txid order."""

    def close(self) -> None:
        """Close: the topology stops. Nothing is called afterwards."""


class CommitterEmitter(Emitter[M]):
    """The emitter of an `ICommitterTridentSpout`: takes part in the commit phase."""

    @abstractmethod
    def commit(self, attempt: TransactionAttempt) -> None:
        """Commit what ``attempt`` emitted. In txid order, once per attempt that gets this far, before ``success``.

        Called on the commit thread, so beside a later ``emit_batch``. An exception fails the attempt.
        """


@frozen
class EndOffsets:
    """What an emitter makes of the notes of its tasks.

    Attributes:
        metadata: the definition of the batch with its splits, from which it can be emitted again.
        moved: the positions that move once this attempt has committed.
        errors: what user code in the tasks reported.
    """

    metadata: Json
    moved: Mapping[str, Json]
    errors: Sequence[str] = ()


class OffsetReportingEmitter(Emitter[M]):
    """An emitter that finds out what a batch consists of by emitting it, in Spark tasks.

    What it emits are splits whose ``read`` returns a note. They are read once, by a job of their own, before the next
    batch is emitted; the positions are durable with the commit of the batch that moved them.
    """

    @abstractmethod
    def restore(self, positions: Mapping[str, Json], upto: int) -> None:
        """Take up the positions after transaction ``upto``, the last closed one; called once, before anything else."""

    @abstractmethod
    def resolve_offsets(self, attempt: TransactionAttempt, notes: Sequence[str]) -> EndOffsets:
        """Say what the batch of ``attempt``, which was emitted, consists of.

        ``notes`` are those of its tasks, in any order.
        """

    @abstractmethod
    def moved(self, metadata: M) -> Mapping[str, Json] | None:
        """Return the positions that the batch of ``metadata`` moves once it is committed.

        None: it was never emitted.
        """


@runtime_checkable
class Committing(Protocol):
    """Whatever has the ``commit`` of a `CommitterEmitter`."""

    def commit(self, attempt: TransactionAttempt) -> None:
        """Commit what ``attempt`` emitted."""
        ...


class ITridentSpout(Identified, ABC, Generic[M]):
    """A source with full control: it defines batches by metadata and emits them.

    Attributes:
        output_schema: the fields of its rows, a DDL string (``"word string, at timestamp"``) or a ``StructType``.
        replay: what it gives when a batch is emitted again.
        coordinator_needs_spark: whether its coordinator asks Spark how far the source is: then it is given the session
            of the topology, as the emitter is. Most should not: a coordinator is asked several times a second, and
            without Spark it goes on when Spark is busy.
        in_order: whether its batches, one behind the other, have the rows in one order that the source has. Where rows
            are in partitions, each of which has its own, they don't. `check_spout` compares.
    """

    output_schema: str | StructType
    replay: Replay = Replay.EXACT
    coordinator_needs_spark: ClassVar[bool] = False
    in_order: ClassVar[bool] = True

    @abstractmethod
    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> BatchCoordinator[M]:
        """Make the half that decides what each batch contains; called once per run."""

    @abstractmethod
    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> Emitter[M]:
        """Make the half that gives the rows; called once per run."""


class ICommitterTridentSpout(ITridentSpout[M]):
    """A spout whose emitter also takes part in the commit phase, by a ``commit(attempt)`` method."""


class IBatchSpout(Identified, ABC):
    """The simple source: no metadata, always ready, opaque. Runs in the driver's process.

    Attributes:
        output_schema: the fields of its rows, a DDL string or a ``StructType``.
        replay: opaque, unless a subclass knows that a batch id always gives the same rows.
    """

    output_schema: str | StructType
    replay: Replay = Replay.OPAQUE

    def open(self, conf: TridentConfig, context: TopologyContext) -> None:
        """Open the source; called once per run, before anything else."""

    @abstractmethod
    def emit_batch(self, batch_id: int, collector: TridentCollector) -> None:
        """Emit the batch numbered ``batch_id`` (the txid); called again with the same number for a replay."""

    def ack(self, batch_id: int) -> None:
        """Hear that the batch is committed for good. Called at least once, in order."""

    def close(self) -> None:
        """Close: the topology stops."""
