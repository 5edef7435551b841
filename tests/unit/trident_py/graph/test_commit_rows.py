"""What becomes of new values on their way to where they end; see `trident_py.graph.commit_rows`."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import StructType

from coordinators.attempt import TransactionAttempt
from tests.unit.trident_py.worker.aggregators import Longest, Total
from trident_py.graph.commit_rows import CommitWay, NodeRows
from trident_py.graph.graph import Graph
from trident_py.graph.output import CommitStream
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.states import StateUpdater
from trident_py.operations.builtin import Count, Sum
from trident_py.participants.context import ParticipantContext
from trident_py.planner.plan import Branch, Plan, plan
from trident_py.rows.row import rows_of
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.memory import MemoryMapState, MemoryMapStateFactory
from trident_py.streams.stream import Stream
from trident_py.topology import TridentTopology


class Append(StateUpdater[Any]):
    def update_state(self, state: Any, tuples: Any, collector: TridentCollector) -> None: ...


class Declared:
    """A topology with one stream, and the plan of what is declared on it."""

    def __init__(self) -> None:
        self.topology = TridentTopology("wordcount")
        self.words = self.stream("lines", "word string, n int")

    def stream(self, tx_id: str, schema: str) -> Stream:
        return self.topology.new_stream(tx_id, FixedBatchSpout(schema, 2))

    @property
    def graph(self) -> Graph:
        return self.topology._graph

    @property
    def plan(self) -> Plan:
        return plan(self.graph)

    @property
    def branches(self) -> list[tuple[str, type]]:
        return [(branch.name, type(branch.output and branch.output.output)) for branch in self.plan.branches]


@pytest.fixture
def declared() -> Declared:
    return Declared()


def memory() -> MemoryMapStateFactory:
    return MemoryMapState.factory()


def commit_stream(branch: Branch) -> CommitStream:
    assert branch.output is not None
    assert branch.output.new_values is not None
    return branch.output.new_values


CONTEXT = ParticipantContext(config=TridentConfig(), metrics=Metrics())


def made(stream: CommitStream, values: list[Any]) -> list[list[Any]]:
    """The rows in which each way ends."""
    tables = dict.fromkeys(stream.origins, arrow_table(values, stream.schema))
    way = CommitWay.of(stream.origins, stream.ends)
    rows = NodeRows(way=way, context=CONTEXT, session=None, attempt=TransactionAttempt(1, 0), tables=tables)
    return [[tuple(row) for row in rows_of(rows.table(end))] for end in stream.ends]


def fields(text: str) -> StructType:
    return schema_of(text)


def test_new_values_are_worked_on_once_where_the_stream_forks(declared: Declared) -> None:
    seen: list[Any] = []
    state = declared.words.partition_persist(memory(), Append(), "word", "word string, size int")
    forked = state.new_values_stream().peek(seen.append)
    forked.partition_persist(memory(), Append(), ["size"], "again int").new_values_stream().peek(seen.append)
    forked.project("word")
    (branch,) = declared.plan.branches
    stream = commit_stream(branch)
    assert made(stream, [("a", 1), ("b", 2)]) == [[(1,), (2,)], [("a",), ("b",)]]
    assert seen == [("a", 1), ("b", 2)]
    (persisted,) = stream.outputs.values()
    assert persisted.new_values is not None
    assert made(persisted.new_values, [(3,)]) == [[(3,)]]
    assert seen == [("a", 1), ("b", 2), (3,)]


def test_new_values_are_aggregated_on_the_driver_over_the_whole_batch(declared: Declared) -> None:
    state = declared.words.partition_persist(memory(), Append(), "word", "word string, n int")
    values = state.new_values_stream().filter(lambda row: row.n >= 0)
    values.aggregate(Count(), "count").map(lambda row: (-row.count,), "minus bigint")
    values.group_by("word").aggregate(Sum("n"), "sum")
    values.group_by("word").persistent_aggregate(memory(), Sum("n"), "sum")
    values.group_by("word").persistent_aggregate(memory(), Total(), "total int")
    values.persistent_aggregate(memory(), Longest(), "longest string").new_values_stream().project("longest")
    stream = commit_stream(declared.plan.branches[0])
    rows = [("a", -1), *[(word, n) for n in range(3000) for word in ("a", "bb")]]
    total = 3000 * 2999 // 2
    sums = [("a", total), ("bb", total)]
    counted, summed, kept, _, longest = made(stream, rows)
    assert (counted, summed, kept, longest) == ([(-6000,)], sums, sums, [("bb",)])
    assert made(stream, []) == [[(0,)], [], [], [], [("",)]]
    assert made(stream, [("a", 1), ("b", 2)])[3] == [("a", "a", 1), ("b", "b", 2)]
    _, reduced, longest_place = stream.outputs.values()
    assert reduced.fields == fields("_key_word string, word string, n int")
    assert longest_place.new_values is not None
