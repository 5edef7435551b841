"""The matrix of spout and state: part (c) of the feature inventory."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from tests.unit.trident_py.declared import Nowhere, Words
from trident_py.interfaces.spouts import Replay
from trident_py.interfaces.states import State, StateFactory, StateKind
from trident_py.operations.builtin import Count, Max
from trident_py.operations.queries import MapGet
from trident_py.planner.guarantees import guarantee, warnings
from trident_py.states.maps import IBackingMap, NonTransactionalMap, OpaqueMap, TransactionalMap
from trident_py.states.memory import MemoryMapState
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.topology import TridentTopology


def store() -> IBackingMap[Any]:
    raise AssertionError("nothing is started here")


FACTORIES: dict[StateKind, StateFactory] = {
    StateKind.NON_TRANSACTIONAL: NonTransactionalMap.factory(store),
    StateKind.TRANSACTIONAL: TransactionalMap.factory(store),
    StateKind.OPAQUE: OpaqueMap.factory(store),
    StateKind.FENCED: SQLiteState("counts.db", table="counts"),
}
EXACTLY, AT_LEAST, NOT, NONE = "exactly-once", "at-least-once", "not exactly-once", "no guarantee"
MATRIX = {
    Replay.EXACT: [AT_LEAST, EXACTLY, EXACTLY, EXACTLY, EXACTLY],
    Replay.OPAQUE: [AT_LEAST, NOT, EXACTLY, EXACTLY, EXACTLY],
    Replay.NON_TRANSACTIONAL: [NONE] * 5,
}


@pytest.mark.parametrize(("replay", "kind"), list(product(Replay, [*StateKind, None])))
def test_c_every_combination_says_what_holds_and_warns_if_it_is_not_exactly_once(
    replay: Replay, kind: StateKind | None
) -> None:
    expected = MATRIX[replay][[*StateKind, None].index(kind)]
    topology = TridentTopology("matrix")
    stream = topology.new_stream("words", Words(replay)).name("counted")
    if kind is None:
        stream.write_to(Nowhere())
    else:
        stream.group_by("word").persistent_aggregate(FACTORIES[kind], Count(), "count")
    found = guarantee(replay, kind)
    assert found.promise.startswith(expected)
    assert f"    {found.promise}: {found.reason}\n" in topology.explain()
    (*warned,) = warnings(topology._graph)
    assert len(warned) == (expected != EXACTLY)
    for warning in warned:
        what = "sink" if kind is None else "state"
        assert warning.startswith(f"topology 'matrix': {what} 'counted' behind spout 'words': {expected}: ")
        assert warning.endswith(f"; use {found.instead}, instead")
        assert found.instead


def test_c_the_weakest_spout_decides() -> None:
    topology = TridentTopology("weakest")
    streams = [topology.new_stream(replay.value, Words(replay)) for replay in (Replay.EXACT, Replay.OPAQUE)]
    for stream in streams:
        stream.group_by("word").persistent_aggregate(TransactionalMap.factory(store), Count(), "count")
    (warning,) = warnings(topology._graph)
    assert "state 'opaque-state' behind spout 'opaque': not exactly-once" in warning


def test_c_s15_what_a_state_answered_makes_a_stream_opaque() -> None:
    topology = TridentTopology("asking")
    words = topology.new_stream("words", Words(Replay.EXACT))
    counts = words.group_by("word").persistent_aggregate(MemoryMapState.factory(), Count(), "count")
    asked = words.state_query(counts, "word", MapGet(), "before bigint").name("asked").group_by("word")
    asked.persistent_aggregate(TransactionalMap.factory(store), Count(), "count")
    asked.persistent_aggregate(MemoryMapState.factory(), Count(), "count")
    (warning,) = warnings(topology._graph)
    assert "behind spout 'words' and state_query('words-state', MapGet): not exactly-once" in warning
    assert topology.explain().count("exactly-once while the process lives; lost with the process") == 2
    assert "state_query('words-state', MapGet)" in topology.explain()


def fed(first: StateFactory, then: StateFactory, replay: Replay = Replay.EXACT) -> TridentTopology:
    """A topology in which the state ``then`` keeps the new values of the state ``first``."""
    topology = TridentTopology("fed")
    counted = topology.new_stream("words", Words(replay)).name("first").group_by("word")
    values = counted.persistent_aggregate(first, Count(), "n").new_values_stream()
    values.name("second").group_by("word").persistent_aggregate(then, Max("n"), "n")
    return topology


@pytest.mark.parametrize(
    ("first", "promise"),
    [
        (NonTransactionalMap.factory(store), "at-least-once"),
        (MemoryMapState.factory(), "exactly-once while the process lives; lost with the process"),
        (TransactionalMap.factory(store), "exactly-once unless a leader that was paused in mid-write wakes up"),
        (OpaqueMap.factory(store), "exactly-once unless a leader that was paused in mid-write wakes up"),
    ],
)
def test_c_a_state_keeps_at_most_what_the_state_keeps_that_feeds_it(first: StateFactory, promise: str) -> None:
    topology = fed(first, SQLiteState("last.db", table="last"))
    why = f"{promise}: it is fed by the new values of state 'first', for which no more holds"
    assert f"        {why}\n" in topology.explain()
    *_, warning = warnings(topology._graph)
    where = "topology 'fed': state 'second' behind spout 'words'"
    assert warning == f"{where}: {why}; use SQLiteState or PostgresState for state 'first', instead"


def test_c_a_transactional_state_behind_an_opaque_spout_spoils_what_it_feeds() -> None:
    topology = fed(TransactionalMap.factory(store), SQLiteState("last.db", table="last"), Replay.OPAQUE)
    first, second = warnings(topology._graph)
    assert ": not exactly-once: a replay may have" in first
    assert ": not exactly-once: it is fed by the new values of state 'first'" in second


def test_c_the_weakest_of_several_states_in_a_row_is_named() -> None:
    topology = TridentTopology("chain")
    stream: Any = topology.new_stream("words", Words(Replay.EXACT))
    for number, factory in enumerate(
        [NonTransactionalMap.factory(store), MemoryMapState.factory(), SQLiteState("last.db", table="last")]
    ):
        grouped = stream.name(f"state-{number}").group_by("word")
        stream = grouped.persistent_aggregate(factory, Count(), "n").new_values_stream()
    _, *warned = warnings(topology._graph)
    assert len(warned) == 2
    assert all(": at-least-once: it is fed by the new values of state 'state-0'" in warning for warning in warned)


def test_c_a_state_that_keeps_less_than_the_one_before_it_is_warned_of_as_if_it_were_alone() -> None:
    sqlite = SQLiteState("first.db", table="first")
    assert list(warnings(fed(sqlite, MemoryMapState.factory())._graph)) == []
    assert list(warnings(fed(MemoryMapState.factory(), MemoryMapState.factory())._graph)) == []
    assert list(warnings(fed(sqlite, SQLiteState("last.db", table="last"))._graph)) == []
    (warning,) = warnings(fed(sqlite, NonTransactionalMap.factory(store))._graph)
    assert "nothing says that its commits compare the txid" in warning


class Own(StateFactory):
    def __init__(self, **said: Any) -> None:
        for name, value in said.items():
            setattr(self, name, value)

    def make_state(self, conf: Any, metrics: Any, partition_index: int, num_partitions: int) -> State:
        raise AssertionError("nothing is started here")


@pytest.mark.parametrize(
    ("said", "promise"),
    [
        ({}, "at-least-once: nothing says that its commits compare the txid"),
        ({"kind": StateKind.TRANSACTIONAL}, "exactly-once unless a leader that was paused in mid-write wakes up: data"),
        ({"kind": StateKind.OPAQUE}, "exactly-once unless a leader that was paused in mid-write wakes up: data"),
        ({"guarantee": "exactly-once"}, "exactly-once unless a leader that was paused in mid-write wakes up: data"),
        ({"guarantee": "as often as the mail server likes"}, "as often as the mail server likes"),
    ],
)
def test_a_state_of_the_user_s_counts_at_least_once_unless_its_factory_says_more(said: Any, promise: str) -> None:
    topology = TridentTopology("own")
    words = topology.new_stream("words", Words(Replay.EXACT)).group_by("word")
    words.persistent_aggregate(Own(**said), Count(), "count")
    assert f"    {promise}" in topology.explain()
    assert len(list(warnings(topology._graph))) == (not said)


def test_t7_t9_explain_shows_requests_and_the_states_that_are_only_asked() -> None:
    topology = TridentTopology("answers")
    state = topology.new_static_state(OpaqueMap.factory(store))
    topology.new_drpc_stream("count").state_query(state, "args", MapGet(), "n bigint")
    lines = [" ".join(line.split()) for line in topology.explain().splitlines()]
    at = lines.index("static states, which are only queried")
    assert lines[at:] == [
        "static states, which are only queried",
        "static-state: OpaqueMap over store",
        "",
        "requests: independent of batches, all states at one committed transaction",
        "count",
        "new_drpc_stream('count') args string",
        "state_query('static-state', MapGet) driver args string, n bigint",
    ]
