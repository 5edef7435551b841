from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from coordinators.attempt import TransactionAttempt
from trident_py.graph.commit_rows import CommitWay, NodeRows
from trident_py.graph.graph import Graph
from trident_py.graph.output import CommitStream
from trident_py.graph.outputs import AggregateState, UpdatedState, WrittenSink
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey, TransactionalSink
from trident_py.interfaces.spouts import IBatchSpout, ITridentSpout, Replay
from trident_py.interfaces.states import StateUpdater
from trident_py.operations.builtin import Count
from trident_py.operations.queries import MapGet
from trident_py.participants.context import ParticipantContext
from trident_py.planner.plan import Branch, Plan, plan
from trident_py.rows.row import rows_of
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.memory import MemoryMapState, MemoryMapStateFactory
from trident_py.streams.stream import Stream
from trident_py.topology import TridentTopology


class Ticks(IBatchSpout):
    output_schema = "n int"

    def emit_batch(self, batch_id: int, collector: TridentCollector) -> None: ...


class Append(StateUpdater[Any]):
    def update_state(self, state: Any, tuples: Any, collector: TridentCollector) -> None: ...


class Nowhere(TransactionalSink[None]):
    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        return None

    def prepare(self, tx: SinkTransaction, frame: DataFrame) -> None: ...

    def commit(self, tx: SinkTransaction, receipt: None) -> None: ...

    def abort(self, tx: SinkTransaction, receipt: None) -> None: ...


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


def test_a_bare_stream_is_a_branch_that_commits_nothing(declared: Declared) -> None:
    assert declared.branches == [("lines", type(None))]
    (branch,) = declared.plan.branches
    assert (branch.spouts, branch.reads_all) == (("lines",), True)


def test_every_state_sink_and_loose_end_is_a_branch(declared: Declared) -> None:
    declared.words.group_by("word").persistent_aggregate(memory(), Count(), "count")
    declared.words.partition_persist(memory(), Append(), "word")
    declared.words.filter("n > 1").write_to(Nowhere())
    declared.words.peek(print)
    declared.words.name("seen").map(tuple, "a int").peek(print)
    declared.stream("others", "a int").name("lines-sink")
    assert declared.branches == [
        ("lines-state", AggregateState),
        ("lines-state-2", UpdatedState),
        ("lines-sink", WrittenSink),
        ("lines", type(None)),
        ("seen", type(None)),
        ("others", type(None)),
    ]


def test_spouts_are_planned_in_order_and_a_batch_spout_is_adapted(declared: Declared) -> None:
    declared.topology.new_stream("ticks", Ticks())
    lines, ticks = declared.plan.spouts
    assert (lines.tx_id, lines.schema, lines.spout.replay) == ("lines", fields("word string, n int"), Replay.EXACT)
    assert (ticks.tx_id, ticks.schema, ticks.spout.replay) == ("ticks", fields("n int"), Replay.OPAQUE)
    assert isinstance(ticks.spout, ITridentSpout)


def test_only_what_needs_spark_behind_new_values_runs_there(declared: Declared) -> None:
    values = declared.words.group_by("word").persistent_aggregate(memory(), Count(), "count").new_values_stream()
    mapped = values.map(lambda row: (row.word,), "word string")
    native = mapped.transform(lambda frame: frame, "word string")
    native.filter(lambda row: row.word > "a").write_to(Nowhere())
    values.filter("count > 1")
    stream = commit_stream(declared.plan.branches[0])
    way = CommitWay.of(stream.origins, stream.ends)
    assert sorted(node.operation.title.partition("(")[0] for node in way.by_spark) == [
        "filter",
        "transform",
        "write_to",
    ]
    assert way.kept == stream.origins


def test_what_several_ways_read_behind_new_values_is_made_once(declared: Declared) -> None:
    values = declared.words.group_by("word").persistent_aggregate(memory(), Count(), "count").new_values_stream()
    shared = values.map(lambda row: row, "word string, count bigint")
    other = declared.words.group_by("word").persistent_aggregate(memory(), Count(), "count")
    asked = shared.state_query(other, "word", MapGet(), "found bigint")
    declared.topology.merge(shared.project("word"), shared.project("word")).peek(print)
    stream = commit_stream(declared.plan.branches[0])
    kept = {node.operation.title.partition("(")[0] for node in CommitWay.of(stream.origins, stream.ends).kept}
    assert kept == {"new_values_stream", "map", "state_query"}
    assert asked.schema == fields("word string, count bigint, found bigint")


def test_what_is_wrong_with_new_values_names_the_field(declared: Declared) -> None:
    state = declared.words.group_by("word").persistent_aggregate(memory(), Count(), "count")
    state.new_values_stream()
    with pytest.raises(TypeError, match="field 'count' is declared bigint, got 'many'"):
        made(commit_stream(declared.plan.branches[0]), [("a", "many")])


def test_what_is_behind_a_transform_without_schema_waits_for_spark(declared: Declared) -> None:
    declared.words.group_by("word").persistent_aggregate(memory(), Count(), "count")
    declared.words.transform(lambda frame: frame).group_by("x").persistent_aggregate(memory(), Count(), "count")
    assert [name for name, _ in declared.branches] == ["lines-state"]


def test_a_transform_may_leave_rows_unread(declared: Declared) -> None:
    declared.words.transform(lambda frame: frame.limit(1), "word string, n int").peek(print)
    declared.words.peek(print)
    assert [branch.reads_all for branch in declared.plan.branches] == [False, True]
