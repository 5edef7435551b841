"""The graph that a topology declares: what comes before a node, and in which phase it runs."""

from __future__ import annotations

from typing import Any

import pytest

from trident_py.errors import StateError, TopologyError
from trident_py.graph.graph import Graph, Node, Phase, RequestSource, Source
from trident_py.graph.rowwise import map_rows, transformed
from trident_py.rows.schema import schema_of
from trident_py.spouts.fixed import FixedBatchSpout

FIELDS = schema_of("n bigint")


def source(graph: Graph, name: str) -> Node:
    return graph.add(Source(f"new_stream({name!r})", name, FixedBatchSpout("n bigint", 1), FIELDS))


def mapped(graph: Graph, *inputs: Node) -> Node:
    return graph.add(map_rows("map(f)", lambda row: row, "n bigint"), *inputs)


def test_a_node_knows_all_that_it_depends_on_and_two_ways_twice() -> None:
    graph = Graph("t")
    lines, others = source(graph, "lines"), source(graph, "others")
    both = mapped(graph, mapped(graph, lines), mapped(graph, lines), others)
    assert [each.tx_id for each in both.sources] == ["lines", "lines", "others"]
    assert both.spouts == ("lines", "others")
    assert [node.number for node in graph.nodes] == list(range(5))
    assert graph.consumers(lines) == [graph.nodes[2], graph.nodes[3]]
    assert [each.tx_id for each in graph.sources] == ["lines", "others"]


def test_fields_that_only_spark_can_tell_make_those_behind_unknown() -> None:
    graph = Graph("t")
    unknown = graph.add(transformed("transform(f)", lambda frame: frame, None), source(graph, "lines"))
    assert unknown.schema is None
    assert mapped(graph, unknown).schema is None


def request(graph: Graph, function: str) -> Node:
    return graph.add(RequestSource(f"new_drpc_stream({function!r})", function))


def test_what_follows_a_request_is_part_of_it_and_nothing_else_can_join() -> None:
    graph = Graph("t")
    asked = mapped(graph, request(graph, "count"))
    assert asked.phase is Phase.REQUEST
    assert asked.requests == {"count"}
    for other in (source(graph, "lines"), request(graph, "other")):
        with pytest.raises(TopologyError, match="can't be combined"):
            mapped(graph, asked, other)


@pytest.mark.parametrize("kind", [TopologyError, StateError])
def test_what_is_wrong_is_said_with_topology_and_operation_and_once(kind: Any) -> None:
    graph = Graph("t")
    with (
        pytest.raises(kind, match=r"^topology 't', map\(f\): no such field$") as raised,
        graph.declaring("apply(a)"),
        graph.declaring("map(f)", state="counts"),
    ):
        raise kind("no such field")
    assert (raised.value.topology, raised.value.state) == ("t", "counts")


def test_sources_are_where_rows_come_from_and_are_never_built() -> None:
    graph = Graph("t")
    for node in (source(graph, "lines"), request(graph, "count")):
        assert node.operation.origin([]) == node.schema
        with pytest.raises(AssertionError):
            node.operation.build([], None)
    assert mapped(graph, graph.nodes[0]).operation.origin([FIELDS]) is None
