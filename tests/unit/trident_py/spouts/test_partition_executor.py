"""The executor of partitioned spouts, and what its tasks do, without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from coordinators.values.attempt import TransactionAttempt
from tests.unit.trident_py.spouts.collecting import CONF, CONTEXT, halves
from tests.unit.trident_py.spouts.partitions import CALLS, Exact, Topic, TopicEmitter, Topics, run
from trident_py.errors import StoreBusyException
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.partitioned import (
    IOpaquePartitionedTridentSpout,
)
from trident_py.spouts.partition_executor import PartitionedSpoutAdapter


class Opaque(IOpaquePartitionedTridentSpout[list[str], Topic, int]):
    output_schema = "topic string, number int"
    get_coordinator = Exact.get_coordinator
    get_emitter = Exact.get_emitter


@pytest.fixture(autouse=True)
def calls() -> list[str]:
    CALLS.clear()
    return CALLS


def emitter_of(spout: Any) -> Any:

    return PartitionedSpoutAdapter(spout).get_emitter("lines", CONF, CONTEXT)


def test_each_batch_goes_on_where_the_one_before_was_emitted_committed_or_not() -> None:
    emitter = emitter_of(Exact())
    rows, learned = run(emitter, "1:0", {"partitions": ["a", "b"]})
    assert rows == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    assert learned.metadata == {"partitions": ["a", "b"], "extents": {"a": 2, "b": 2}}
    assert learned.moved == {"a": 2, "b": 2}
    assert run(emitter, "2:0", {"partitions": ["b"]})[0] == [("b", 3), ("b", 4)]
    emitter.success(TransactionAttempt(1, 0))
    assert run(emitter, "3:0", {"partitions": ["a", "b"]})[0] == [("a", 3), ("a", 4), ("b", 5), ("b", 6)]


def test_storm_108_the_coordinator_hears_of_each_transaction_that_is_committed() -> None:
    class Acknowledging(Topics):
        def success(self, txid: int) -> None:
            CALLS.append(f"committed {txid}")

    class Queues(Opaque):
        def get_coordinator(self, conf: Any, context: Any) -> Topics:
            return Acknowledging()

    for spout in (Queues(), Opaque()):
        coordinator = PartitionedSpoutAdapter(spout).get_coordinator("lines", CONF, CONTEXT)
        for txid in (1, 2):
            coordinator.success(txid)
    assert CALLS == ["committed 1", "committed 2"]


def test_after_a_restart_it_goes_on_from_what_was_restored() -> None:
    emitter = emitter_of(Opaque())
    emitter.restore({"a": 10, "gone": 3}, 6)
    assert run(emitter, "7:3", {"partitions": ["a", "b"]})[0] == [("a", 11), ("a", 12), ("b", 1), ("b", 2)]


@pytest.mark.parametrize(("spout", "second"), [(Exact(), 2), (Opaque(), 4)])
def test_a_replay_with_known_extents_is_the_same_batch_only_for_an_exact_spout(spout: Any, second: int) -> None:
    emitter = emitter_of(spout)
    emitter.restore({"a": 2}, 1)
    metadata = {"partitions": ["a"], "extents": {"a": 2}}
    assert run(emitter, "2:1", metadata)[0] == [("a", second - 1), ("a", second)]


def test_a_batch_whose_predecessor_was_not_emitted_is_refused_for_now() -> None:
    emitter = emitter_of(Exact())
    emitter.restore({}, 0)
    with pytest.raises(StoreBusyException, match="transaction 1 was not emitted, so 2:0 can't be"):
        run(emitter, "2:0", {"partitions": ["a"]})
    run(emitter, "1:1", {"partitions": ["a"]})
    run(emitter, "2:1", {"partitions": ["a"]})
    run(emitter, "1:2", {"partitions": ["a"]})
    with pytest.raises(StoreBusyException, match="transaction 2 was not emitted"):
        run(emitter, "3:0", {"partitions": ["a"]})


def test_the_coordinator_keeps_the_partitions_of_an_exact_batch_and_asks_anew_for_an_opaque_one() -> None:
    for spout, expected in ((Exact(), ["old"]), (Opaque(), ["a", "b"])):
        coordinator = PartitionedSpoutAdapter(spout).get_coordinator("lines", CONF, CONTEXT)
        assert coordinator.initialize_transaction(1, None, None) == {"partitions": ["a", "b"]}
        assert coordinator.initialize_transaction(1, None, {"partitions": ["old"]})["partitions"] == expected


def test_the_coordinator_hears_how_far_the_partitions_have_come() -> None:
    adapter = PartitionedSpoutAdapter(Exact())
    coordinator, emitter = halves(adapter)
    for txid in (1, 2):
        assert coordinator.is_ready(txid)
        run(emitter, f"{txid}:0", {"partitions": ["a"]})
    assert not coordinator.is_ready(3)


def test_what_tasks_report_and_leave_out_reaches_the_driver() -> None:
    class Reporting(TopicEmitter):
        def emit_batch_new(self, tx: Any, collector: TridentCollector, partitions: Any, last: Any) -> Any:
            collector.report_error(ValueError("odd"))
            return {topic: None if topic.name == "a" else 5 for topic in partitions}

    class Quiet(Exact):
        def get_emitter(self, conf: Any, context: Any) -> TopicEmitter:
            return Reporting()

    _, learned = run(emitter_of(Quiet()), "1:0", {"partitions": ["a", "b"]})
    assert (learned.moved, learned.errors) == ({"b": 5}, ["ValueError: odd"])
