"""Counters where Python runs a topology by itself, without Spark."""

from __future__ import annotations

from typing import Any

from trident_py import (
    CombinerAggregator,
    Count,
    FixedBatchSpout,
    MapGet,
    MemoryMapState,
    Row,
    TridentTopology,
    counter,
)
from trident_py.testing import run_batches


class Added(CombinerAggregator[int]):
    """A sum, with a count for each number."""

    def init(self, row: Row) -> int:
        counter("init").add()
        return int(row.n)

    def combine(self, one: int, other: int) -> int:
        return one + other

    def zero(self) -> int:
        return 0


def checked(row: Row) -> bool:
    counter("checked").add()
    return bool(row.n)


def counts_of(topology: TridentTopology) -> list[Any]:
    return [each["counts"] for each in run_batches(topology)]


def test_a_function_of_which_several_branches_read_or_one_twice_counts_once() -> None:
    topology = TridentTopology("forked")
    stream = topology.new_stream("numbers", FixedBatchSpout("n bigint", 3, *[(n % 3,) for n in range(6)]))
    kept = stream.filter(checked)
    kept.group_by("n").persistent_aggregate(MemoryMapState.factory(), Added(), "sum bigint")
    kept.persistent_aggregate(MemoryMapState.factory(), Count(), "count")
    topology.merge(kept, kept.map(lambda row: (row.n,), "n bigint")).peek(lambda row: None)
    assert counts_of(topology) == [{"checked": 3, "init": 2}] * 2


def test_a_function_behind_which_ways_fork_and_meet_is_called_once_for_each_row() -> None:
    topology = TridentTopology("forked")
    stream = topology.new_stream("numbers", FixedBatchSpout("n bigint", 3, *[(n % 3,) for n in range(6)]))
    kept = stream.filter(checked)
    topology.merge(kept, kept.map(lambda row: (row.n,), "n bigint")).peek(lambda row: None)
    assert counts_of(topology) == [{"checked": 3}] * 2


def test_what_follows_new_values_and_what_asks_a_state_counts() -> None:
    topology = TridentTopology("asking")
    stream = topology.new_stream("numbers", FixedBatchSpout("n bigint", 2, (1,), (2,)))
    state = stream.group_by("n").persistent_aggregate(MemoryMapState.factory(), Count(), "count")

    class Asking(MapGet):
        """Counts what it asks for."""

        def batch_retrieve(self, state: Any, args: Any) -> Any:
            counter("asked").add(len(args))
            return super().batch_retrieve(state, args)

    def told(row: Row) -> None:
        counter("new values").add()

    state.new_values_stream().peek(told)
    stream.state_query(state, "n", Asking(), "known bigint").peek(lambda row: None)
    assert counts_of(topology) == [{"asked": 2, "new values": 2}]
