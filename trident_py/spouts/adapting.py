"""Adapters from every kind of spout to `ITridentSpout`, which the engine runs."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeAlias

from attrs import define, field
from pyspark.sql.types import StructType

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.batch_coordinator import BatchCoordinator
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import TopologyContext
from trident_py.interfaces.partitioned import IOpaquePartitionedTridentSpout, IPartitionedTridentSpout
from trident_py.interfaces.spouts import Emitter, IBatchSpout, ITridentSpout, Replay, RowSource
from trident_py.spouts.partition_executor import PartitionedSpoutAdapter


class BatchSpoutAdapter(ITridentSpout[None]):
    """Runs an `IBatchSpout` as an `ITridentSpout` without metadata. Storm's ``BatchSpoutExecutor``.

    It is always ready, so it never runs out: a query over it does not end.
    """

    def __init__(self, spout: IBatchSpout) -> None:
        self.spout = spout
        self.output_schema = spout.output_schema
        self.replay = spout.replay

    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> AlwaysReady:
        return AlwaysReady()

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> BatchSpoutEmitter:
        self.spout.open(conf, context)
        return BatchSpoutEmitter(self.spout)


class AlwaysReady(BatchCoordinator[None]):
    """The coordinator of a spout that needs no metadata."""

    def is_ready(self, txid: int) -> bool:
        return True

    def initialize_transaction(self, txid: int, prev_metadata: None, curr_metadata: None) -> None:
        """Return None: the txid is sufficient to emit the batch."""


class BatchSpoutEmitter(Emitter[None]):
    """Calls the spout with txids as batch ids."""

    def __init__(self, spout: IBatchSpout) -> None:
        self._spout = spout

    def emit_batch(self, attempt: TransactionAttempt, metadata: None, collector: TridentCollector) -> None:
        self._spout.emit_batch(attempt.txid, collector)

    def success(self, attempt: TransactionAttempt) -> None:
        self._spout.ack(attempt.txid)

    def close(self) -> None:
        self._spout.close()


class SpoutOutputCollector(ABC):
    """Receives the rows that an `IRichSpout` emits."""

    @abstractmethod
    def emit(self, row: Sequence[Any], message_id: object = None) -> None:
        """Emit one row; with a ``message_id``, `IRichSpout.ack` or `IRichSpout.fail` is called later."""


class IRichSpout(RowSource, ABC):
    """A source of single rows, without batches. Runs in the driver's process.

    Its methods are called one at a time, not always on one thread.

    Attributes:
        output_schema: the fields of its rows, a DDL string or a ``StructType``.
    """

    output_schema: str | StructType
    replay = Replay.NON_TRANSACTIONAL

    def open(self, conf: TridentConfig, context: TopologyContext, collector: SpoutOutputCollector) -> None:
        """Open the source, and keep the ``collector``; called once per run, before anything else."""

    @abstractmethod
    def next_tuple(self) -> None:
        """Emit the next row or rows, or return without one if no row is available now. It must not block."""

    def ack(self, message_id: Any) -> None:
        """Handle that the row with this id is in a committed batch."""

    def fail(self, message_id: Any) -> None:
        """Handle that the row with this id was in a batch that failed, or that has an unknown outcome.

        Emit it again, or don't.
        """

    def close(self) -> None:
        """Close the source, because the topology stops."""


class RichSpoutAdapter(ITridentSpout[None]):
    """Runs an `IRichSpout` as an `ITridentSpout` without metadata, like Storm's ``RichSpoutBatchExecutor``.

    The spout decides itself what it emits again, so no state can count its rows exactly once. Three faults of Storm's
    adapter are avoided. A batch ends when the spout has nothing more; Storm needs one more miss. A spout without rows
    starts no batch. If a batch fails, `IRichSpout.fail` is called for every id of it.
    """

    replay = Replay.NON_TRANSACTIONAL

    def __init__(self, spout: IRichSpout) -> None:
        self.spout = spout
        self.output_schema = spout.output_schema

    def get_coordinator(
        self, tx_state_id: str, conf: TridentConfig, context: TopologyContext
    ) -> BatchCoordinator[None]:
        """Open the spout; it is ready when it has rows."""
        self._rows = SpoutRows(self.spout, conf.spout_max_batch_size)
        self.spout.open(conf, context, self._rows)
        return RowsReady(self._rows)

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> RowEmitter:
        return RowEmitter(self._rows)


@define(eq=False)
class SpoutRows(SpoutOutputCollector):
    """The rows of a spout that wait for a batch. Two threads use it, one at a time.

    Attributes:
        most: the maximum number of rows in a batch.
        limit: a lower maximum, set by an operator; None: ``most`` alone counts.
    """

    spout: IRichSpout
    most: int
    limit: int | None = None
    lock: threading.RLock = field(factory=threading.RLock)
    _waiting: list[tuple[Sequence[Any], object]] = field(factory=list, init=False)
    _ids: dict[int, list[object]] = field(factory=dict, init=False)  # by txid

    def emit(self, row: Sequence[Any], message_id: object = None) -> None:
        """Keep a row for the next batch."""
        self._waiting.append((row, message_id))

    def fetch(self) -> bool:
        """Fetch rows, as many as a batch may have; return whether there are any."""
        with self.lock:
            before = -1
            while before < len(self._waiting) < self._batch_rows:
                before = len(self._waiting)
                self.spout.next_tuple()
            return bool(self._waiting)

    def take(self, txid: int) -> list[Sequence[Any]]:
        """Return the rows of a batch; fail the rows of its earlier attempt."""
        with self.lock:
            self._tell(self.spout.fail, self._ids.pop(txid, []))
            self.fetch()
            most = self._batch_rows
            taken, self._waiting = self._waiting[:most], self._waiting[most:]
            self._ids[txid] = [message_id for _, message_id in taken]
            return [row for row, _ in taken]

    def succeed(self, txid: int) -> None:
        """Acknowledge the rows of ``txid`` to the spout."""
        with self.lock:
            self._tell(self.spout.ack, self._ids.pop(txid, []))

    def close(self) -> None:
        """Fail all rows that were not acked, and close the spout."""
        with self.lock:
            rest = [message_id for txid in sorted(self._ids) for message_id in self._ids[txid]]
            self._tell(self.spout.fail, [*rest, *(message_id for _, message_id in self._waiting)])
            self.spout.close()

    @property
    def _batch_rows(self) -> int:
        return self.most if self.limit is None else min(self.most, self.limit)

    def _tell(self, call: Any, ids: list[object]) -> None:
        for message_id in ids:
            if message_id is not None:
                call(message_id)


@define
class RowsReady(BatchCoordinator[None]):
    """Ready when the spout has rows."""

    rows: SpoutRows

    def is_ready(self, txid: int) -> bool:
        """Fetch rows, and return whether there are any."""
        return self.rows.fetch()

    def limit_batches(self, max_rows: int | None) -> None:
        """Limit batches to ``max_rows`` rows; None: no additional limit."""
        self.rows.limit = max_rows

    def initialize_transaction(self, txid: int, prev_metadata: None, curr_metadata: None) -> None:
        """Return None: there is no metadata of a batch."""


@define
class RowEmitter(Emitter[None]):
    """Puts rows into batches."""

    rows: SpoutRows

    def emit_batch(self, attempt: TransactionAttempt, metadata: None, collector: TridentCollector) -> None:
        for row in self.rows.take(attempt.txid):
            collector.emit(row)

    def success(self, attempt: TransactionAttempt) -> None:
        self.rows.succeed(attempt.txid)

    def close(self) -> None:
        self.rows.close()


AnySpout: TypeAlias = (
    ITridentSpout[Any]
    | IBatchSpout
    | IPartitionedTridentSpout[Any, Any, Any]
    | IOpaquePartitionedTridentSpout[Any, Any, Any]
    | IRichSpout
)
"""The kinds of spouts that ``TridentTopology.new_stream`` accepts."""

SPOUTS = (ITridentSpout, IBatchSpout, IPartitionedTridentSpout, IOpaquePartitionedTridentSpout, IRichSpout)
"""The same as classes, in the order in which a class of several kinds is recognised (Storm has another order)."""


def as_trident_spout(spout: AnySpout) -> ITridentSpout[Any]:
    """Return ``spout`` as an `ITridentSpout`."""
    match spout:
        case ITridentSpout():
            return spout
        case IBatchSpout():
            return BatchSpoutAdapter(spout)
        case IRichSpout():
            return RichSpoutAdapter(spout)
        case _:
            return PartitionedSpoutAdapter(spout)
