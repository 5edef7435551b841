"""What `MemoryMapState` has beyond the contract of `test_fenced_state`."""

from __future__ import annotations

from coordinators.values.attempt import TransactionAttempt
from tests.transactions import begin
from tests.unit.trident_py.states.aggregators import Adding
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.sinks import SinkTransaction, TopologyKey, TransactionKey
from trident_py.states.memory import MemoryMapState, MemoryMapStateFactory


def transaction(txid: int) -> SinkTransaction:
    return SinkTransaction(TransactionKey("8d1f", 1, txid), TransactionAttempt(txid, 0), 1)


def started(factory: MemoryMapStateFactory) -> MemoryMapState[int]:
    state = factory.make_state(TridentConfig(), Metrics(), 0, 1)
    assert state.recover(TopologyKey("wordcount", "8d1f", 1), 1) is None
    return state


def test_the_factory_shows_committed_values_only() -> None:
    factory = MemoryMapState.factory()
    state = started(factory)
    begin(state, transaction(1))
    state.multi_merge([("a", 1), (None, 2)], [5, 6], Adding())
    assert factory.values() == {}
    state.commit_group()
    assert factory.values() == {("a", 1): 5, (None, 2): 6}


def test_what_is_not_grouped_has_the_empty_key() -> None:
    factory = MemoryMapState.factory()
    state = started(factory)
    begin(state, transaction(1))
    state.multi_merge([()], [5], Adding())
    state.commit_group()
    assert factory.values() == {(): 5}


def test_arrays_and_structs_in_a_key_are_shown_as_tuples() -> None:
    factory = MemoryMapState.factory()
    state = started(factory)
    begin(state, transaction(1))
    state.multi_merge([(["a", ["b"]], {"x": 1})], [5], Adding())
    state.commit_group()
    assert factory.values() == {(("a", ("b",)), (1,)): 5}


def test_each_run_starts_empty_and_does_not_mind_an_older_one() -> None:
    factory = MemoryMapState.factory()
    older = started(factory)
    begin(older, transaction(1))
    older.multi_merge([("a",)], [5], Adding())
    newer = started(factory)
    older.commit_group()
    assert factory.values() == {}
    assert newer.multi_get([("a",)]) == [None]
    assert newer.volatile


def test_the_guarantee_says_that_it_is_lost_with_the_process() -> None:
    assert MemoryMapState.factory().guarantee == "exactly-once while the process lives; lost with the process"


def test_st8_st28_what_was_removed_is_gone_and_comes_back_in_a_replay() -> None:
    state = started(MemoryMapState.factory())
    begin(state, transaction(1))
    state.multi_merge([("a",), ("b",)], [5, 6], Adding())
    state.commit_group()
    begin(state, transaction(2))
    state.multi_remove([("a",)])
    state.multi_remove([("b",)])
    state.multi_put([("b",)], [7])
    assert state.multi_get([("a",), ("b",)]) == [None, 7]
    state.commit_group()
    assert state.get_tuples() == [("b", 7)]
    replay = SinkTransaction(TransactionKey("8d1f", 1, 2), TransactionAttempt(2, 1), 1)
    begin(state, replay)
    assert state.multi_get([("a",), ("b",)]) == [5, 6]
    state.commit_group()
    assert sorted(state.get_tuples()) == [("a", 5), ("b", 6)]
