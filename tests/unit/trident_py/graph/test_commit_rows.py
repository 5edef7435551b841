"""What becomes of new values on their way to where they end; see `trident_py.graph.commit_rows`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.trident_py.declared import Append, Declared, commit_stream, fields, made, memory
from tests.unit.trident_py.worker.aggregators import Longest, Total
from trident_py.operations.builtin import Count, Sum


@pytest.fixture
def declared() -> Declared:
    return Declared()


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
