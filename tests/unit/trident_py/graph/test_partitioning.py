"""Partitionings: which one a hint is for; see `trident_py.graph.partitioning`."""

from __future__ import annotations

from tests.unit.trident_py.worker.aggregators import Total
from trident_py.graph.partitioning import Partitioning, Repartition
from trident_py.operations.builtin import Count
from trident_py.planner.plan import plan
from trident_py.streams.stream import Stream
from trident_py.topology import TridentTopology


def partitions(topology: TridentTopology) -> list[tuple[Partitioning, int | None]]:
    """The repartitionings on the way of the only branch, the last one first."""
    (branch,) = plan(topology._graph).branches
    operations = [node.operation for node in branch.end.ancestry]
    return [(each.kind, each.partitions) for each in operations if isinstance(each, Repartition)]


def test_s2_a_hint_is_for_the_repartitioning_before_it(topology: TridentTopology, words: Stream) -> None:
    both = words.shuffle().filter(bool).parallelism_hint(4).project("word").parallelism_hint(3).partition_by("word")
    both.transform(lambda frame: frame, "word string").parallelism_hint(2).filter("word != ''").peek(print)
    assert partitions(topology) == [(Partitioning.BY_FIELDS, 2), (Partitioning.SHUFFLE, 4)]


def test_s2_a_hint_with_no_repartitioning_before_it_makes_one(topology: TridentTopology, words: Stream) -> None:
    words.filter(bool).parallelism_hint(4).aggregate(Total(), "n int").peek(print).parallelism_hint(2)
    assert partitions(topology) == [(Partitioning.SHUFFLE, 2), (Partitioning.SHUFFLE, 4)]


def test_without_a_hint_nothing_is_changed(topology: TridentTopology, words: Stream) -> None:
    words.global_().partition_aggregate(Count(), "count")
    assert partitions(topology) == [(Partitioning.GLOBAL, None)]
