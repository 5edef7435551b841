"""Queries of states and streams of requests, as they are declared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.trident_py.graph.asking import Lengths, LengthsFactory
from trident_py.errors import TopologyError
from trident_py.graph.queries import StateQuery, requests
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.states import QueryFunction
from trident_py.operations.builtin import Count, Max
from trident_py.operations.queries import MapGet, SnapshotGet, TupleCollectionGet
from trident_py.planner.plan import plan
from trident_py.rows.schema import schema_of
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.memory import MemoryMapState
from trident_py.testing import run_batches
from trident_py.topology import TridentTopology


class Short(QueryFunction[Any, Any]):
    def batch_retrieve(self, state: Any, args: Sequence[Any]) -> Sequence[Any]:
        return []

    def execute(self, row: Any, result: Any, collector: TridentCollector) -> None: ...


def asked(function: QueryFunction[Any, Any], state: Any, rows: list[Any], out: str) -> list[tuple[Any, ...]]:
    query = StateQuery(title="state_query", state="s", function=function, in_fields=("word",), out=schema_of(out))
    return [tuple(row) for row in query.answered(state, rows, schema_of("n int, word string"))]


def test_s15_state_query_appends_what_the_query_emits_and_b4_keeps_rows_without_value() -> None:
    rows = [(1, "ab"), (2, ""), (3, "abc")]
    assert asked(MapGet(), Lengths(), rows, "length bigint") == [(1, "ab", 2), (2, "", None), (3, "abc", 3)]
    assert asked(MapGet(), Lengths(), [], "length bigint") == []


def test_s15_a_query_must_give_a_result_for_each_row() -> None:
    with pytest.raises(ValueError, match=r"Short\.batch_retrieve gave 0 results for 1 rows"):
        asked(Short(), Lengths(), [(1, "a")], "x int")


def test_s15_mistakes_are_errors_where_they_are_declared(topology: TridentTopology) -> None:
    stream = topology.new_stream("lines", FixedBatchSpout("word string", 1))
    state = topology.new_static_state(LengthsFactory())
    other = TridentTopology("other").new_static_state(LengthsFactory())
    with pytest.raises(TopologyError, match=r"'wordcount', state_query\(.*there is no field 'wrod'"):
        stream.state_query(state, "wrod", MapGet(), "n int")
    with pytest.raises(TopologyError, match="there is a field 'word' already"):
        stream.state_query(state, "word", MapGet(), "word int")
    with pytest.raises(TopologyError, match="a TridentState of this topology"):
        stream.state_query(other, "word", MapGet(), "n int")
    with pytest.raises(TopologyError, match="a TridentState of this topology"):
        stream.state_query(LengthsFactory(), "word", MapGet(), "n int")  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="a query is an instance of QueryFunction"):
        stream.state_query(state, "word", MapGet, "n int")  # type: ignore[arg-type]


def test_s15_a_query_without_input_answers_each_row_the_same() -> None:
    topology, seen = TridentTopology("models"), MemoryMapState.factory()
    words = topology.new_stream("words", FixedBatchSpout("word string", 1, ("a",), ("b",)))
    count = words.persistent_aggregate(MemoryMapState.factory(), Count(), "count")
    known = words.state_query(count, [], SnapshotGet(), "known bigint")
    known.group_by("word").persistent_aggregate(seen, Max("known"), "known")
    run_batches(topology)
    assert set(seen.values()) == {("a",), ("b",)}
    assert set(seen.values().values()) <= {None, 1, 2}  # what is committed when it is asked


def test_s15_what_a_state_can_t_be_asked_is_an_error_where_it_is_declared(topology: TridentTopology) -> None:
    stream = topology.new_stream("lines", FixedBatchSpout("word string, n int, at timestamp", 1))
    total = stream.persistent_aggregate(MemoryMapState.factory(), Count(), "count")
    by_two = stream.group_by("word", "n").persistent_aggregate(MemoryMapState.factory(), Count(), "count")
    unknown = stream.transform(lambda frame: frame).group_by("word").persistent_aggregate(
        MemoryMapState.factory(), Count(), "count"
    )  # fmt: skip
    asked: list[tuple[Any, Any, QueryFunction[Any, Any], str, str]] = [
        (
            by_two,
            "word",
            MapGet(),
            "c long",
            "keys of the state are struct<word:string,n:int>, and what is asked for is",
        ),
        (by_two, ["n", "word"], MapGet(), "c long", "is struct<n:int,word:string>; name a field for each part of the"),
        (by_two, ["word", "at"], MapGet(), "c long", "a field for each part of the key, of its type"),
        (by_two, ["word", "n"], MapGet(), "c long, d long", r"MapGet gives one value: one field, not \['c', 'd'\]"),
        (total, "word", MapGet(), "c long", r"the state is not grouped, so it has no keys; query it with SnapshotGet"),
        (by_two, "word", SnapshotGet(), "c long", r"a value for each struct<word:string,n:int>; query it with MapGet"),
        (total, "word", SnapshotGet(), "c long, d long", "SnapshotGet gives one value"),
        (
            by_two,
            "word",
            TupleCollectionGet(),
            "w string, c long",
            r"holds \['word', 'n'\] and a value: so many fields",
        ),
        (unknown, "word", MapGet(), "c long, d long", "MapGet gives one value"),
    ]
    for state, names, function, out, message in asked:
        with pytest.raises(TopologyError, match=message):
            stream.state_query(state, names, function, out)
    small = stream.map(lambda row: (row.word, 1), "w string, s smallint")
    assert small.state_query(by_two, ["w", "s"], MapGet(), "c long").schema == schema_of("w string, s smallint, c long")
    assert stream.state_query(unknown, "at", SnapshotGet(), "c long").schema is not None
    assert stream.state_query(by_two, "at", TupleCollectionGet(), "a string, b int, c long").schema is not None


def test_t9_mistakes_with_static_states_are_errors_where_they_are_declared(topology: TridentTopology) -> None:
    with pytest.raises(TopologyError, match="a state factory is an instance of StateFactory"):
        topology.new_static_state(LengthsFactory)  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="is written by a topology"):
        topology.new_static_state(MemoryMapState.factory())
    with pytest.raises(TopologyError, match="nothing in this topology writes the state"):
        topology.new_static_state(LengthsFactory()).new_values_stream()
    assert topology.new_static_state(LengthsFactory()).name != topology.new_static_state(LengthsFactory()).name


def test_t7_mistakes_with_drpc_streams_are_errors_where_they_are_declared(topology: TridentTopology) -> None:
    asked = topology.new_drpc_stream("length")
    lines = topology.new_stream("lines", FixedBatchSpout("word string", 1))
    assert asked.schema == schema_of("args string")
    with pytest.raises(TopologyError, match="there is a function 'length' already"):
        topology.new_drpc_stream("length")
    with pytest.raises(TopologyError, match="a function's name is a string"):
        topology.new_drpc_stream("")
    with pytest.raises(TopologyError, match="a request is no transaction"):
        asked.persistent_aggregate(MemoryMapState.factory(), Count(), "count")
    with pytest.raises(TopologyError, match="a request is no transaction"):
        asked.group_by("args").persistent_aggregate(MemoryMapState.factory(), Count(), "count")
    with pytest.raises(TopologyError, match="can't be combined with streams of spouts"):
        topology._graph.add(asked.map(len, "n int")._node.operation, asked._node, lines._node)  # type: ignore[arg-type]


def test_t7_the_stream_declared_last_answers_and_only_queries_wait_for_states(topology: TridentTopology) -> None:
    state = topology.new_static_state(LengthsFactory())
    words = topology.new_drpc_stream("lengths").flat_map(lambda row: [(w,) for w in row.args.split()], "word string")
    words.map(lambda row: row, "unused string")
    asked = words.state_query(state, "word", MapGet(), "n int").project("n")
    asked.filter(lambda row: row.n > 1)
    (found,) = requests(topology._graph)
    titles = [
        [node.operation.title.split("(")[0] for node in part] for part in (found.before, found.reading, found.after)
    ]
    assert titles == [["new_drpc_stream", "flat_map"], ["state_query"], ["project", "filter"]]
    assert plan(topology._graph).branches == ()
