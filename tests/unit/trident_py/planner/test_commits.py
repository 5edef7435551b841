"""Where outputs are, and what follows their new values; see `trident_py.planner.commits`."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import StructType

from coordinators.attempt import TransactionAttempt
from trident_py.graph.commit_rows import CommitWay, NodeRows
from trident_py.graph.graph import Graph
from trident_py.graph.output import CommitStream
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.states import StateUpdater
from trident_py.operations.builtin import Count
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


def test_new_values_go_through_their_operations_into_the_next_state(declared: Declared) -> None:
    state = declared.words.group_by("word").persistent_aggregate(memory(), Count(), "count")
    often = state.new_values_stream().filter(lambda row: row.count > 1)
    often.map(lambda row: (row.word * row.count,), "text string").partition_persist(memory(), Append(), "text")
    (branch,) = declared.plan.branches
    stream = commit_stream(branch)
    assert made(stream, [("a", 1), ("b", 2)]) == [[("bb",)]]
    (place,) = stream.outputs.values()
    assert (place.output.name, place.fields) == ("lines-state-2", fields("text string"))


def test_several_streams_of_new_values_are_ways_of_one(declared: Declared) -> None:
    state = declared.words.group_by("word").persistent_aggregate(memory(), Count(), "count")
    state.new_values_stream().project("word")
    state.new_values_stream().project("count")
    assert made(commit_stream(declared.plan.branches[0]), [("a", 1)]) == [[("a",)], [(1,)]]
