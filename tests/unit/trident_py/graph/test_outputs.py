"""What outputs are given, and what they say of themselves; see `trident_py.graph.outputs`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.trident_py.declared import CONTEXT, Append, Declared, Nowhere, fields, memory
from tests.unit.trident_py.worker.aggregators import Longest, Total
from trident_py.graph.output import OutputPlace
from trident_py.operations.builtin import Sum


@pytest.fixture
def declared() -> Declared:
    return Declared()


def participant(place: OutputPlace | None) -> Any:
    assert place is not None
    return place.participant(CONTEXT)


def test_a_combiner_is_given_keys_and_a_partial_value(declared: Declared) -> None:
    factory = memory()
    declared.words.group_by("word").persistent_aggregate(factory, Sum("n"), "total")
    declared.words.persistent_aggregate(memory(), Longest(), "longest string")
    grouped, whole = (branch.output for branch in declared.plan.branches)
    assert grouped is not None
    assert whole is not None
    assert (grouped.output.factory, grouped.new_values) == (factory, None)
    assert grouped.fields == fields("word string, total bigint")
    assert whole.fields == fields("longest string")
    assert [(each.keys, each.inputs) for each in map(participant, (grouped, whole))] == [(1, ()), (0, ())]


def test_a_reducer_is_given_keys_and_what_it_sees_of_every_row(declared: Declared) -> None:
    declared.words.group_by("word").persistent_aggregate(memory(), Total(), "total int", in_fields="n")
    declared.words.group_by("word").persistent_aggregate(memory(), Total(), "total int")
    declared.words.persistent_aggregate(memory(), Total(), "total int")
    places = [branch.output for branch in declared.plan.branches]
    assert [place and place.fields for place in places] == [
        fields("word string, n int"), fields("_key_word string, word string, n int"), fields("word string, n int"),
    ]  # fmt: skip
    assert [(each.keys, each.inputs) for each in map(participant, places)] == [
        (1, ["n"]), (1, ["word", "n"]), (0, ["word", "n"]),
    ]  # fmt: skip


def test_an_updater_is_given_its_fields_and_a_sink_all(declared: Declared) -> None:
    declared.words.partition_persist(memory(), Append(), ["n", "word"], "size int")
    sink = Nowhere()
    declared.words.write_to(sink)
    persist, write = (branch.output for branch in declared.plan.branches)
    assert persist is not None
    assert persist.fields == fields("n int, word string")
    assert participant(persist).output == fields("size int")
    assert write is not None
    assert write.fields == fields("word string, n int")
    assert participant(write).sink is sink
