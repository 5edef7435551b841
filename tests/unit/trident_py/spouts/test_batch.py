from __future__ import annotations

from typing import Any

from coordinators.values.attempt import TransactionAttempt
from tests.unit.trident_py.spouts.collecting import CONF, CONTEXT, emitted, halves
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import TopologyContext
from trident_py.interfaces.spouts import IBatchSpout, Replay
from trident_py.spouts.adapting import BatchSpoutAdapter


class Recorded(IBatchSpout):
    output_schema = "n int"

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def open(self, conf: TridentConfig, context: TopologyContext) -> None:
        self.calls.append(("open", conf, context))

    def emit_batch(self, batch_id: int, collector: TridentCollector) -> None:
        self.calls.append(("emit_batch", batch_id))
        collector.emit((batch_id,))

    def ack(self, batch_id: int) -> None:
        self.calls.append(("ack", batch_id))

    def close(self) -> None:
        self.calls.append("close")


class Cached(Recorded):
    replay = Replay.EXACT


def test_each_call_becomes_the_simple_spouts_own() -> None:
    spout = Recorded()
    _, emitter = halves(BatchSpoutAdapter(spout))
    assert emitted(emitter, TransactionAttempt(7, 0), None) == [(7,)]
    assert emitted(emitter, TransactionAttempt(7, 1), None) == [(7,)]
    emitter.success(TransactionAttempt(7, 1))
    emitter.close()
    assert spout.calls == [("open", CONF, CONTEXT), ("emit_batch", 7), ("emit_batch", 7), ("ack", 7), "close"]


def test_it_is_always_ready_and_needs_no_metadata() -> None:
    coordinator, _ = halves(BatchSpoutAdapter(Recorded()))
    assert coordinator.is_ready(1)
    assert coordinator.initialize_transaction(1, None, None) is None


def test_schema_and_promise_are_those_of_the_simple_spout() -> None:
    assert BatchSpoutAdapter(Recorded()).output_schema == "n int"
    assert BatchSpoutAdapter(Recorded()).replay is Replay.OPAQUE
    assert BatchSpoutAdapter(Cached()).replay is Replay.EXACT
