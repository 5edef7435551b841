"""What Spark tasks do with partitions: who has which, and what is wrong with what they emit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coordinators.values.attempt import TransactionAttempt
from tests.unit.trident_py.spouts.collecting import CONF, CONTEXT
from tests.unit.trident_py.spouts.partitions import CALLS, Exact, TopicEmitter, run
from trident_py.errors import MetadataError, SpoutError
from trident_py.interfaces.collector import TridentCollector
from trident_py.spouts.partition_executor import PartitionedSpoutAdapter


@pytest.fixture(autouse=True)
def calls() -> list[str]:
    CALLS.clear()
    return CALLS


def emitter_of(spout: Any) -> Any:
    return PartitionedSpoutAdapter(spout).get_emitter("lines", CONF, CONTEXT)


def test_tasks_share_the_partitions_keep_their_emitter_and_hear_of_changes(calls: list[str]) -> None:
    adapter = PartitionedSpoutAdapter(Exact())
    emitter = adapter.get_emitter("lines", CONF, CONTEXT)
    emitter.tasks = 1
    run(emitter, "1:0", {"partitions": ["a", "b"]})
    run(emitter, "2:0", {"partitions": ["a", "b"]})
    run(emitter, "3:0", {"partitions": ["b"]})
    assert calls == [
        "made",
        "refresh ['a', 'b']",
        "new 1:0 ['a', 'b']",
        "new 2:0 ['a', 'b']",
        "refresh ['b']",
        "new 3:0 ['b']",
    ]
    emitter.tasks = 2
    run(emitter, "4:0", {"partitions": ["a", "b"]})
    assert calls[6:] == ["refresh ['a']", "new 4:0 ['a']", "refresh ['b']", "new 4:0 ['b']"]


def test_two_tasks_with_one_partition_are_an_error_that_names_it() -> None:
    emitter = emitter_of(Exact())
    note = json.dumps({"extents": {"a": 1}, "errors": []})
    with pytest.raises(SpoutError, match=r"'wordcount', spout 'lines', attempt 1:0: two tasks emitted partition 'a'"):
        emitter.resolve_offsets(TransactionAttempt(1, 0), [note, note])


def test_a_partition_that_no_task_emits_again_is_an_error_that_names_it() -> None:
    emitter = emitter_of(Exact())
    metadata = {"partitions": ["a"], "extents": {"a": 2, "gone": 4}}
    with pytest.raises(SpoutError, match=r"attempt 1:1: no task emitted partition 'gone' again"):
        run(emitter, "1:1", metadata)


@pytest.mark.parametrize(
    ("ordered", "returned", "error", "complaint"),
    [
        (["a", "a"], {}, SpoutError, "get_ordered_partitions returns partition 'a' twice"),
        ([7], {}, SpoutError, r"7 is not a partition; a partition is a string, or has a get_id\(\)"),
        (["a"], None, SpoutError, "emit_batch_new returned None; to fix this: return a dict"),
        (["a"], {"x": 1}, SpoutError, "metadata of partition 'x'; given were"),
        (["a"], {"a": (1, 2)}, MetadataError, "returned .*would not come back equal from JSON"),
    ],
)
def test_what_an_emitter_does_wrong_is_named(
    ordered: Any, returned: Any, error: type[Exception], complaint: str
) -> None:
    class Careless(TopicEmitter):
        def refresh_partitions(self, partition_responsibilities: Any) -> None:
            assert partition_responsibilities is not None

        def get_ordered_partitions(self, all_partition_info: list[str]) -> Any:
            return ordered

        def emit_batch_new(self, tx: Any, collector: TridentCollector, partitions: Any, last: Any) -> Any:
            return returned

    class Wrong(Exact):
        def get_emitter(self, conf: Any, context: Any) -> TopicEmitter:
            return Careless()

    with pytest.raises(error, match=f"'wordcount', spout 'lines', attempt 1:0: .*{complaint}"):
        run(emitter_of(Wrong()), "1:0", {"partitions": ["a"]})
