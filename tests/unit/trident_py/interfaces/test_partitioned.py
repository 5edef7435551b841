"""Which partitions a task has, unless an emitter says otherwise."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from trident_py.interfaces.partitioned import OpaquePartitionedEmitter


class Emitting(OpaquePartitionedEmitter[Any, Any, Any]):
    def emit_batch_new(self, tx: Any, collector: Any, partitions: Any, last_partition_meta_map: Any) -> Any:
        return {}


@given(st.integers(0, 20), st.integers(1, 8))
def test_each_partition_is_one_tasks_alone_and_tasks_have_about_as_many(count: int, tasks: int) -> None:
    emitter = Emitting()
    partitions = emitter.get_ordered_partitions({f"p{number:02}": None for number in range(count)})
    shares = [list(emitter.get_partitions_for_task(task, tasks, partitions)) for task in range(tasks)]
    assert sorted(each for share in shares for each in share) == list(partitions)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
