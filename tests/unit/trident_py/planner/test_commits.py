"""Where outputs are, and what follows their new values; see `trident_py.planner.plan`."""

from __future__ import annotations

import pytest

from tests.unit.trident_py.declared import Append, Declared, commit_stream, fields, made, memory
from trident_py.operations.builtin import Count


@pytest.fixture
def declared() -> Declared:
    return Declared()


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
