"""How branches are divided at ``on_error``."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.trident_py.worker.test_sieve import numbers, positive
from trident_py import Count, FixedBatchSpout, MemoryMapState, Stream, TridentTopology
from trident_py.errors import TopologyError
from trident_py.planner.plan import Branch, plan


def end(stream: Stream, name: str, *keys: str) -> None:
    stream.name(name).group_by(*keys or ("n",)).persistent_aggregate(MemoryMapState.factory(), Count(), "count")


def branches(stream: Stream) -> dict[str, Branch]:
    return {branch.name: branch for branch in plan(stream._graph).branches}


def double(row: Any) -> tuple[int]:
    return (2 * row.n,)


def test_the_row_functions_run_before_the_branch_and_the_rest_in_it() -> None:
    stream = numbers(TridentTopology("t"))
    end(stream.map(positive, "n bigint").map(double, "n bigint").shuffle().map(double, "n bigint"), "a")
    end(stream.on_error(), "bad")
    found = branches(stream)
    assert [step.title.partition(" at ")[0] for step in found["a"].leading["numbers"].pipeline.steps] == [
        "map(positive",
        "map(double",
    ]
    behind = found["a"].begun(["numbers"]).ancestry
    begun = [node.operation.title.partition(" at ")[0] for node in behind]
    assert begun[1:] == ["map(double", "shuffle()", "new_stream('numbers')"]  # the last one has the rows of the sieve
    assert found["bad"].collects == {"a"}
    assert found["bad"].end.sources[0].schema.names == ["n", "_error", "_operation", "_txid"]


def test_a_stream_that_only_on_error_reads_is_a_branch_too() -> None:
    stream = numbers(TridentTopology("t"))
    checked = stream.map(positive, "n bigint")
    end(checked.on_error(), "bad")
    assert branches(stream)["bad"].collects == {"numbers"}


def test_a_branch_beside_on_error_keeps_its_bad_rows() -> None:
    stream = numbers(TridentTopology("t"))
    checked = stream.map(positive, "n bigint")
    end(checked, "a")
    end(checked.on_error(), "bad")
    end(stream.map(double, "n bigint"), "b")
    found = branches(stream)
    assert found["bad"].collects == {"a"}
    assert not found["b"].leading


def test_of_two_spouts_that_are_joined_each_has_its_own_bad_rows() -> None:
    topology = TridentTopology("t")
    left, right = numbers(topology, "left"), numbers(topology, "right")
    checked = left.map(positive, "n bigint"), right.map(positive, "n bigint")
    end(topology.join(checked[0], "n", checked[1], "n", ["n"]), "joined")
    end(left.on_error(), "bad")
    found = branches(left)
    assert [*found["joined"].leading] == ["left"]
    assert found["bad"].spouts == ("left",)


def test_what_cannot_be_divided_is_refused_by_name() -> None:
    topology = TridentTopology("t")
    stream = numbers(topology)
    stream.on_error()
    with pytest.raises(TopologyError, match="no row function is between the spout"):
        plan(stream._graph)
    end(stream.map(positive, "n bigint"), "a")
    stream.on_error()
    with pytest.raises(TopologyError, match=r"another on_error\(\) takes the same rows"):
        plan(stream._graph)


def test_paths_of_one_spout_that_meet_are_refused() -> None:
    topology = TridentTopology("t")
    stream = topology.new_stream("numbers", FixedBatchSpout("n bigint", 2))
    end(topology.merge(stream.map(positive, "n bigint"), stream.map(double, "n bigint")), "both")
    stream.on_error()
    with pytest.raises(TopologyError, match="'both' reads spout 'numbers' by several paths that meet"):
        plan(stream._graph)
