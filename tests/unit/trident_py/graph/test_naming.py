"""What states and sinks are called; see `trident_py.graph.naming`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.trident_py.declared import NamedFactory, Nowhere
from tests.unit.trident_py.states.stores import Store
from trident_py.errors import TopologyError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.states import StateFactory, StateUpdater
from trident_py.operations.builtin import Count
from trident_py.states.maps import OpaqueMap
from trident_py.states.memory import MemoryMapState
from trident_py.streams.stream import Stream
from trident_py.windows.windows import TumblingCount


class Append(StateUpdater[Any]):
    def update_state(self, state: Any, tuples: Any, collector: TridentCollector) -> None:
        state.extend(tuples)


def memory() -> StateFactory:
    return MemoryMapState.factory()


def test_a_state_is_called_after_its_stream_its_data_or_its_spout(words: Stream) -> None:
    def state(stream: Stream, factory: StateFactory) -> str:
        return stream.persistent_aggregate(factory, Count(), "c").name

    assert [state(words, memory()) for _ in range(2)] == ["lines-state", "lines-state-2"]
    assert state(words, NamedFactory()) == "totals"
    named = words.name("by-hand").filter(bool)
    assert [state(named, memory()) for _ in range(2)] == ["by-hand", "by-hand-2"]
    assert words.partition_persist(memory(), Append(), "word").name == "lines-state-3"


def test_data_that_has_a_name_belongs_to_one_state(words: Stream) -> None:
    factory = NamedFactory()
    words.persistent_aggregate(factory, Count(), "c")
    with pytest.raises(TopologyError, match="it takes one stream"):
        words.persistent_aggregate(factory, Count(), "c")
    with pytest.raises(TopologyError, match="it takes one stream"):
        words.partition_persist(factory, Append(), "word")


def test_a_state_that_keeps_its_values_may_be_beside_states_in_memory(words: Stream) -> None:
    def state(factory: StateFactory) -> str:
        return words.persistent_aggregate(factory, Count(), "c").name

    assert [state(memory()), state(OpaqueMap.factory(Store)), state(memory())] == [
        "lines-state",
        "lines-state-2",
        "lines-state-3",
    ]
    with pytest.raises(TopologyError, match=r"name\('lines-state-4'\) for this one"):
        state(OpaqueMap.factory(Store))


KEPT: dict[str, Any] = {
    "window": lambda words: words.window(TumblingCount(3), "word", Count(), "c"),
    "sink": lambda words: words.write_to(Nowhere()),
    "state": lambda words: words.persistent_aggregate(OpaqueMap.factory(Store), Count(), "c"),
}


@pytest.mark.parametrize("kind", KEPT)
def test_of_what_keeps_something_one_may_be_unnamed_and_two_are_told_their_stored_names(
    words: Stream, kind: str
) -> None:
    KEPT[kind](words)
    first, second = f"lines-{kind}", f"lines-{kind}-2"
    told = rf"name\('{first}'\) for the first and name\('{second}'\) for this one"
    with pytest.raises(TopologyError, match=told):
        KEPT[kind](words.filter(bool))
    with pytest.raises(TopologyError, match=told):
        KEPT[kind](words.filter(bool).name(first))
    KEPT[kind](words.filter(bool).name(second))
