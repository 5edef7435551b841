from __future__ import annotations

from typing import Any

import pytest
from attrs import define, evolve, field

from coordinators.values.attempt import TransactionAttempt
from tests.unit.trident_py.spouts.collecting import CONF, CONTEXT, emitted
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import TopologyContext
from trident_py.spouts.adapting import IRichSpout, RichSpoutAdapter, SpoutOutputCollector


@define
class Queue(IRichSpout):
    """Gives what is in a list, and puts back what fails."""

    waiting: list[int]
    heard: list[str] = field(factory=list)
    output_schema: str = field(default="n int", init=False)

    def open(self, conf: TridentConfig, context: TopologyContext, collector: SpoutOutputCollector) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        if self.waiting:
            number = self.waiting.pop(0)
            self.collector.emit((number,), message_id=number or None)

    def ack(self, message_id: Any) -> None:
        self.heard.append(f"ack {message_id}")

    def fail(self, message_id: Any) -> None:
        self.heard.append(f"fail {message_id}")
        self.waiting.append(message_id)

    def close(self) -> None:
        self.heard.append("close")


def halves(spout: IRichSpout, most: int = 1000) -> tuple[Any, Any]:
    adapter = RichSpoutAdapter(spout)
    conf = evolve(CONF, spout_max_batch_size=most)
    return adapter.get_coordinator("n", conf, CONTEXT), adapter.get_emitter("n", conf, CONTEXT)


def test_b9_a_batch_is_what_the_spout_has_up_to_the_largest_size() -> None:
    coordinator, emitter = halves(Queue([1, 2, 3, 4, 5]), most=3)
    assert coordinator.is_ready(1)
    assert emitted(emitter, TransactionAttempt(1, 0), None) == [(1,), (2,), (3,)]
    assert emitted(emitter, TransactionAttempt(2, 0), None) == [(4,), (5,)]
    assert not coordinator.is_ready(3)
    assert emitted(emitter, TransactionAttempt(3, 0), None) == []


def test_an_operator_limits_the_rows_of_the_batches_to_come_and_never_raises_the_largest_size() -> None:
    coordinator, emitter = halves(Queue([1, 2, 3, 4, 5, 6, 7, 8, 9]), most=3)
    coordinator.limit_batches(1)
    assert emitted(emitter, TransactionAttempt(1, 0), None) == [(1,)]
    coordinator.limit_batches(100)
    assert emitted(emitter, TransactionAttempt(2, 0), None) == [(2,), (3,), (4,)]
    coordinator.limit_batches(2)
    coordinator.limit_batches(None)
    assert emitted(emitter, TransactionAttempt(3, 0), None) == [(5,), (6,), (7,)]


def test_b9_rows_are_acked_with_their_batch_and_failed_when_it_is_replayed() -> None:
    spout = Queue([1, 0, 2])
    _, emitter = halves(spout)
    emitted(emitter, TransactionAttempt(1, 0), None)
    spout.waiting.append(3)
    assert emitted(emitter, TransactionAttempt(1, 1), None) == [(3,), (1,), (2,)]
    emitter.success(TransactionAttempt(1, 1))
    assert spout.heard == ["fail 1", "fail 2", "ack 3", "ack 1", "ack 2"]


def test_b9_what_has_not_succeeded_at_the_end_is_failed() -> None:
    spout = Queue([1, 2, 3])
    coordinator, emitter = halves(spout, most=1)
    emitted(emitter, TransactionAttempt(1, 0), None)
    emitted(emitter, TransactionAttempt(2, 0), None)
    assert coordinator.is_ready(3)
    emitter.success(TransactionAttempt(1, 0))
    emitter.close()
    assert spout.heard == ["ack 1", "fail 2", "fail 3", "close"]


def test_k10_the_largest_size_has_storms_key_and_default() -> None:
    assert TridentConfig().spout_max_batch_size == 1000
    assert TridentConfig.from_storm({"topology.spout.max.batch.size": 7}).spout_max_batch_size == 7
    with pytest.raises(Exception, match="spout_max_batch_size must be a whole number of at least 1, not 0"):
        TridentConfig(spout_max_batch_size=0)
