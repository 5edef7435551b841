from __future__ import annotations

import pytest

from tests.unit.trident_py.declared import (
    Append,
    Declared,
    Nowhere,
    Ticks,
    commit_stream,
    fields,
    made,
    memory,
)
from trident_py.graph.commit_rows import CommitWay
from trident_py.graph.outputs import AggregateState, UpdatedState, WrittenSink
from trident_py.interfaces.spouts import ITridentSpout, Replay
from trident_py.operations.builtin import Count
from trident_py.operations.queries import MapGet


@pytest.fixture
def declared() -> Declared:
    return Declared()


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
