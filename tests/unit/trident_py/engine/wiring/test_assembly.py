"""What factories make is looked at before anything is emitted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import define

from trident_py.engine.wiring.assembly import participant_of, states_of
from trident_py.errors import StateError
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.states import ReadOnlyState, Snapshottable, State, StateFactory
from trident_py.operations.builtin import Count
from trident_py.participants.context import ParticipantContext
from trident_py.planner.plan import plan
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.memory import MemoryMapState
from trident_py.streams.stream import Stream
from trident_py.topology import TridentTopology


@define(eq=False)
class Made(StateFactory):
    """Makes whatever it is told to."""

    made: Any

    def make_state(self, *_: Any) -> State:
        return self.made  # type: ignore[no-any-return]


class OneValue(Snapshottable[int]):
    def get(self) -> int | None:
        return None

    def update(self, updater: Any) -> int:
        return int(updater(None))

    def set(self, value: int) -> None: ...

    def begin_commit(self, txid: int) -> None: ...

    def commit(self, txid: int) -> None: ...


def made(declare: Callable[[TridentTopology, Stream], object]) -> dict[str, State]:
    topology = TridentTopology("wordcount")
    declare(topology, topology.new_stream("lines", FixedBatchSpout("word string", 1)))
    context = ParticipantContext(config=TridentConfig(), metrics=Metrics())
    participants = [participant_of(branch, context) for branch in plan(topology._graph).branches]
    return states_of(participants, topology._graph, context)


WRONG: dict[str, tuple[Callable[[TridentTopology, Stream], object], str]] = {
    "groups in one value": (
        lambda t, s: s.group_by("word").persistent_aggregate(Made(OneValue()), Count(), "n"),
        r"'wordcount', state 'lines-state': persistent_aggregate needs a MapState, its factory made .*\(OneValue\)",
    ),
    "a value in none": (
        lambda t, s: s.persistent_aggregate(Made(ReadOnlyState()), Count(), "n"),
        r"needs a Snapshottable or MapState, its factory made .*\(ReadOnlyState\)",
    ),
    "no state": (
        lambda t, s: s.persistent_aggregate(Made(None), Count(), "n"),
        r"state 'lines-state': its factory must make a State, it made None \(NoneType\)",
    ),
    "a class": (
        lambda t, s: t.new_static_state(Made(ReadOnlyState)),
        r"'wordcount', state 'static-state': its factory must make a State, it made <class",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_state_of_the_wrong_kind_stops_the_start_by_name(case: str) -> None:
    declare, message = WRONG[case]
    with pytest.raises(StateError, match=message) as raised:
        made(declare)
    assert raised.value.topology == "wordcount"
    assert f"state {raised.value.state!r}" in str(raised.value)


def test_what_fits_is_taken() -> None:
    def declare(topology: TridentTopology, stream: Stream) -> None:
        stream.persistent_aggregate(Made(OneValue()), Count(), "n")
        stream.persistent_aggregate(MemoryMapState.factory(), Count(), "n")
        stream.group_by("word").persistent_aggregate(MemoryMapState.factory(), Count(), "n")

    assert list(made(declare)) == ["lines-state", "lines-state-2", "lines-state-3"]
