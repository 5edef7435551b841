"""`IBatchSpout`, the simple source, in the shape that the engine runs."""

from __future__ import annotations

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.batch_coordinator import BatchCoordinator
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import TopologyContext
from trident_py.interfaces.spouts import Emitter, IBatchSpout, ITridentSpout


class BatchSpoutAdapter(ITridentSpout[None]):
    """Runs an `IBatchSpout` as an `ITridentSpout` without metadata. Storm's ``BatchSpoutExecutor``.

    It is always ready, so it never runs out: a query over it has no end that one could wait for.
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
        """Return the txid, which says it all."""


class BatchSpoutEmitter(Emitter[None]):
    """Calls the spout with txids for batch ids."""

    def __init__(self, spout: IBatchSpout) -> None:
        self._spout = spout

    def emit_batch(self, attempt: TransactionAttempt, metadata: None, collector: TridentCollector) -> None:
        self._spout.emit_batch(attempt.txid, collector)

    def success(self, attempt: TransactionAttempt) -> None:
        self._spout.ack(attempt.txid)

    def close(self) -> None:
        self._spout.close()
