"""One contract for every fenced state: keys that are removed, and keys that expire."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.transactions import begin
from tests.unit.trident_py.states.aggregators import Adding
from tests.unit.trident_py.states.sql.everywhere import STORES, factory_over
from tests.unit.trident_py.states.sql.test_fenced_state import TOPOLOGY, made_by, transaction
from trident_py.errors import TopologyError
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.removal import REMOVE
from trident_py.interfaces.sinks import SinkTransaction, TopologyKey
from trident_py.interfaces.states import FencedState, ITupleCollection, RemovableMapState, StateFactory
from trident_py.operations.builtin import Count
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.fenced import PORTION_KEYS
from trident_py.states.memory import MemoryMapState
from trident_py.states.sql.reading import TableReader
from trident_py.states.sql.sharded_state import ShardedSQLMapState
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.states.sql.staging import StagingSQLMapState
from trident_py.states.sql.state import SQLMapState
from trident_py.topology import TridentTopology

SECOND = 1_000
START = 1_700_000_000 * SECOND
TTL = timedelta(seconds=10)


class Balance(Adding):
    """A sum whose key goes when it is zero."""

    def __init__(self) -> None:
        super().__init__(None)

    def combine(self, left: Any, right: Any) -> Any:
        return left + right or REMOVE


def at(
    seconds: float,
    txid: int,
    attempt: int = 0,
    epoch: int = 1,
    group_first: int | None = None,
    topology: TopologyKey = TOPOLOGY,
) -> SinkTransaction:
    tx = transaction(txid, attempt, epoch, topology, group_first)
    return evolve(tx, time=START + int(seconds * SECOND))


def commit(state: FencedState[Any], tx: SinkTransaction, changes: dict[str, Any]) -> bool:
    due = begin(state, tx)
    if due:
        write(state, changes)
        state.commit_group()
    return due


def write(state: FencedState[Any], changes: dict[str, Any]) -> None:
    merged = {word: value for word, value in changes.items() if value is not REMOVE}
    state.multi_merge([(word,) for word in merged], list(merged.values()), Balance())
    gone = [(word,) for word, value in changes.items() if value is REMOVE]
    state.multi_update(gone, [lambda old: REMOVE] * len(gone))


def contents(state: FencedState[Any]) -> dict[str, Any]:
    assert isinstance(state, ITupleCollection)
    found = {key: value for key, value in state.get_tuples()}
    words = [*found, "a", "b", "c"]
    assert state.multi_get([(word,) for word in words]) == [found.get(word) for word in words]
    return found


Make = Callable[..., FencedState[Any]]


@pytest.fixture(params=STORES)
def factories(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[timedelta | None], StateFactory]:
    """Factories over one store, with a ttl or without."""
    return partial(factory_over, request, tmp_path)


@pytest.fixture
def make(factories: Callable[[timedelta | None], StateFactory]) -> Iterator[Make]:
    """A state that was recovered; of the same store each time, where there is one."""
    opened: list[FencedState[Any]] = []

    def made(ttl: timedelta | None = None, epoch: int = 1) -> FencedState[Any]:
        state = made_by(factories(ttl))
        opened.append(state)
        state.recover(TOPOLOGY, epoch)
        return state

    yield made
    for state in opened:
        state.close()


# --- removed ----------------------------------------------------------------------------------------------------------


def test_an_updater_that_returns_remove_deletes_its_key(make: Make) -> None:
    state = make()
    commit(state, at(0, 1), {"a": 1, "b": 2})
    tx = at(1, 2)
    begin(state, tx)
    assert state.multi_update([["a"], ["c"]], [lambda old: REMOVE, lambda old: REMOVE]) == [None, None]
    assert state.multi_get([["a"], ["b"]]) == [None, 2]
    state.commit_group()
    assert contents(state) == {"b": 2}


def test_a_combiner_removes_where_a_partial_value_meets_the_stored_one(make: Make) -> None:
    state = make()
    commit(state, at(0, 1), {"a": 1, "b": 2})
    commit(state, at(1, 2), {"a": -1, "b": 1, "c": 1})
    assert contents(state) == {"b": 3, "c": 1}


def test_a_key_that_was_removed_begins_anew(make: Make) -> None:
    state = make()
    commit(state, at(0, 1), {"a": 5})
    commit(state, at(1, 2), {"a": REMOVE})
    commit(state, at(2, 3), {"a": 7})
    assert contents(state) == {"a": 7}


def test_what_comes_last_for_a_key_in_one_transaction_counts(make: Make) -> None:
    state = make()
    commit(state, at(0, 1), {"a": 5, "b": 6})
    tx = at(1, 2)
    begin(state, tx)
    updaters = [lambda old: REMOVE, lambda old: 1 if old is None else 0, lambda old: 9, lambda old: REMOVE]
    assert state.multi_update([["a"], ["a"], ["b"], ["b"]], updaters) == [None, 1, 9, None]
    assert state.multi_get([["a"], ["b"]]) == [1, None]
    state.multi_put([["b"]], [3])
    assert isinstance(state, RemovableMapState)
    state.multi_remove([["a"]])
    state.commit_group()
    assert contents(state) == {"b": 3}


@pytest.mark.parametrize("again", [{"a": 1}, {"b": 1}, {"a": REMOVE, "c": 1}, {}])
def test_a_redo_finds_what_its_attempt_before_removed(make: Make, again: dict[str, Any]) -> None:
    state = make()
    commit(state, at(0, 1), {"a": 5, "b": 6})
    commit(state, at(1, 2), {"a": REMOVE, "b": REMOVE, "c": 3})
    assert commit(state, at(1, 2, 1), again)
    values: dict[str, Any] = {"a": 5, "b": 6}
    for word, change in again.items():
        values[word] = 0 if change is REMOVE else values.get(word, 0) + change
    assert contents(state) == {word: value for word, value in values.items() if value}


def test_a_redo_finds_a_key_that_was_changed_and_removed_in_one_transaction_as_it_was(make: Make) -> None:
    state = make()
    commit(state, at(0, 1), {"a": 5})
    tx = at(1, 2)
    begin(state, tx)
    for changes in ({"a": 1, "b": 1}, {"a": REMOVE, "b": REMOVE}, {"a": 2}, {"a": REMOVE}):
        write(state, changes)
    state.commit_group()
    assert contents(state) == {}
    assert commit(state, at(1, 2, 1), {"c": 1})
    assert contents(state) == {"a": 5, "c": 1}
    assert commit(state, at(1, 2, 2), {})
    assert contents(state) == {"a": 5}


def test_a_redo_under_another_leader_finds_it_too(make: Make) -> None:
    state = make()
    commit(state, at(0, 1), {"a": 5})
    commit(state, at(1, 2), {"a": REMOVE})
    if not state.volatile:
        state = make(epoch=2)
    assert commit(state, at(1, 2, 1, epoch=2), {"a": 1})
    assert contents(state) == {"a": 6}


def test_only_what_the_last_of_a_group_removed_comes_back(make: Make) -> None:
    state = make()
    if not state.takes_groups:
        pytest.skip("it commits one transaction after the other")
    commit(state, at(0, 1), {"a": 5, "b": 6})
    members = [at(each, each, group_first=2) for each in (2, 3)]
    for tx, changes in zip(state.begin_group(members), ({"a": REMOVE}, {"b": REMOVE}), strict=True):
        state.begin_member(tx)
        write(state, changes)
    state.commit_group()
    assert contents(state) == {}
    commit(state, at(3, 3, 1), {})
    assert contents(state) == {"b": 6}


def test_nothing_is_removed_by_a_transaction_that_was_given_up(make: Make) -> None:
    state = make()
    commit(state, at(0, 1), {"a": 5})
    begin(state, at(1, 2))
    write(state, {"a": REMOVE})
    state.rollback()
    assert contents(state) == {"a": 5}


# --- expired ----------------------------------------------------------------------------------------------------------


def test_a_key_that_was_not_written_for_so_long_counts_as_absent(make: Make) -> None:
    state = make(TTL)
    commit(state, at(0, 1), {"a": 1, "b": 1})
    commit(state, at(9, 2), {"b": 1})
    assert contents(state) == {"a": 1, "b": 2}
    plus_one: Callable[[Any], Any] = lambda old: old + 1  # noqa: E731
    tx = at(10, 3)
    begin(state, tx)
    assert state.multi_get([["a"], ["b"]]) == [None, 2]
    state.multi_merge([["a"], ["b"]], [5, 5], Adding())
    assert state.multi_update([["a"]], [plus_one]) == [6]
    state.commit_group()
    assert contents(state) == {"a": 6, "b": 7}
    commit(state, at(30, 4), {})
    assert contents(state) == {}


def test_a_redo_finds_what_had_expired_and_when_it_was_written(make: Make) -> None:
    state = make(TTL)
    commit(state, at(0, 1), {"a": 1})
    commit(state, at(5, 2), {"b": 1})
    commit(state, at(12, 3), {"a": 5, "b": 5})
    assert contents(state) == {"a": 5, "b": 6}
    commit(state, at(12, 3, 1), {"c": 1})
    assert contents(state) == {"b": 1, "c": 1}
    commit(state, at(15, 4), {})
    assert contents(state) == {"c": 1}


def test_keys_without_a_time_count_as_written_by_the_first_transaction_with_a_ttl(make: Make) -> None:
    state = make()
    if state.volatile:
        pytest.skip("it begins empty")
    commit(state, at(0, 1), {"a": 1, "b": 1})
    state = make(TTL, epoch=2)
    assert contents(state) == {"a": 1, "b": 1}
    commit(state, at(100, 2, epoch=2), {"b": 1})
    commit(state, at(109, 3, epoch=2), {"b": 1})
    assert contents(state) == {"a": 1, "b": 3}
    commit(state, at(110, 4, epoch=2), {"a": 7})
    assert contents(state) == {"a": 7, "b": 3}
    commit(state, at(110, 4, 1, epoch=2), {})
    assert contents(state) == {"b": 3}
    state = make(epoch=3)
    commit(state, at(200, 5, epoch=3), {"c": 1})
    assert contents(state) == {"b": 3, "c": 1}


def test_a_ttl_is_a_length_of_time(factories: Callable[[Any], StateFactory]) -> None:
    for wrong in (0, 5, "1 day", timedelta(0), timedelta(seconds=-1)):
        with pytest.raises(TopologyError, match="ttl is how long a key stays without a write"):
            factories(wrong)


@pytest.mark.parametrize("hint", [True, False])
def test_what_tasks_have_staged_begins_anew_for_keys_that_have_expired(make: Make, hint: bool) -> None:
    state = make(TTL)
    if not isinstance(state, StagingSQLMapState):
        pytest.skip("tasks stage nothing for it")
    aggregator = Adding("sum" if hint else None)
    for tx, count in ((at(0, 1), 1), (at(5, 2), 2), (at(15, 3), 4), (at(15, 3, 1), 8)):
        rows = arrow_table([("a", count), ("b", count)], schema_of("word string, count bigint"))
        report = state.staging_task(tx).staged(7, iter(rows.to_batches()))
        assert begin(state, tx)
        state.merge_staged([(7, report)], aggregator)
        state.commit_group()
    assert contents(state) == {"a": 8, "b": 8}
    commit(state, at(16, 4), {"b": 1})
    assert contents(state) == {"a": 8, "b": 9}


def test_a_reader_of_the_table_sees_no_key_that_has_expired(
    make: Make, factories: Callable[[timedelta | None], StateFactory]
) -> None:
    state = make(TTL)
    if not isinstance(state, SQLMapState | ShardedSQLMapState):
        pytest.skip("only tables are read by other topologies")
    many = {f"k{number:05}": 1 for number in range(PORTION_KEYS + 10)}
    commit(state, at(0, 1), many)
    commit(state, at(1, 2), {"a": 1})
    commit(state, at(10, 3), {})
    reader = factories(None).for_reading().make_state(TridentConfig(), Metrics(), 0, 1)
    assert isinstance(reader, TableReader)
    with closing(reader):
        assert reader.get_tuples() == [("a", 1)]
        assert reader.multi_get([["a"], [f"k{PORTION_KEYS + 5:05}"]]) == [1, None]


def test_a_state_stays_as_large_as_what_is_alive(make: Make) -> None:
    state = make(TTL)
    assert isinstance(state, FencedState)
    per = 50
    for txid in range(1, 41):
        commit(state, at(txid, txid), {f"k{txid * per + number}": 1 for number in range(per)})
        assert len(contents(state)) == per * min(txid, 10)


def test_as_many_as_may_be_are_deleted_by_each_transaction_those_first_that_were_written_first(tmp_path: Path) -> None:
    state = made_by(SQLiteState(tmp_path / "s.db", table="counts", ttl=TTL))
    with closing(state), closing(sqlite3.connect(tmp_path / "s.db")) as client:
        state.recover(TOPOLOGY, 1)
        names = [f"k{number:05}" for number in range(PORTION_KEYS + 500)]
        commit(state, at(0, 1), dict.fromkeys(reversed(names), 1))
        commit(state, at(1, 2), {"a": 1})
        for txid, left in ((3, [*names[PORTION_KEYS:], "a"]), (4, [])):
            commit(state, at(10 * txid, txid), {})
            rows = client.execute("SELECT word FROM counts ORDER BY _time, _key").fetchall()
            assert [word for (word,) in rows] == sorted(left, key=lambda word: (word == "a", word))
            assert contents(state) == {}


def test_explain_says_how_long_keys_stay(tmp_path: Path) -> None:
    topology = TridentTopology("sessions")
    stream = topology.new_stream("lines", FixedBatchSpout("word string", 1)).group_by("word")
    stream.persistent_aggregate(SQLiteState(tmp_path / "s.db", table="counts", ttl=timedelta(days=1)), Count(), "n")
    stream.persistent_aggregate(MemoryMapState.factory(), Count(), "n")
    assert topology.explain().count("keys go after 1 day, 0:00:00 without a write") == 1


# --- against a model --------------------------------------------------------------------------------------------------

WORDS = st.sampled_from(["a", "b", "c", "d", "e"])
CHANGES = st.dictionaries(WORDS, st.one_of(st.integers(-3, 3), st.just(REMOVE)), max_size=4)


class RemovingModel(RuleBasedStateMachine):
    """A state beside a dict of values and times, and the one before its last transaction."""

    state: FencedState[Any]
    topology: TopologyKey
    ttl: timedelta | None

    @initialize()
    def begin(self) -> None:
        self.txid, self.attempt, self.now = 0, 0, 0
        self.values: dict[str, tuple[Any, int]] = {}
        self.before = self.values

    def applied(self, changes: dict[str, Any]) -> None:
        self.values = {key: (value, time) for key, (value, time) in self.values.items() if not self.expired(time)}
        for key, change in changes.items():
            old = self.values.pop(key, None)
            value = change if old is None or change is REMOVE else Balance().combine(old[0], change)
            if value is not REMOVE:
                self.values[key] = value, self.now
        assert commit(
            self.state,
            at(self.now, self.txid, self.attempt, self.topology.incarnation, topology=self.topology),
            changes,
        )

    def expired(self, time: int) -> bool:
        return self.ttl is not None and time <= self.now - self.ttl.total_seconds()

    @rule(changes=CHANGES, passed=st.integers(0, 6))
    def next(self, changes: dict[str, Any], passed: int) -> None:
        self.txid, self.attempt, self.before, self.now = self.txid + 1, 0, self.values, self.now + passed
        self.applied(changes)

    @rule(changes=CHANGES)
    def redo(self, changes: dict[str, Any]) -> None:
        if self.txid:
            self.attempt, self.values = self.attempt + 1, self.before
            self.applied(changes)

    @rule(changes=CHANGES)
    def give_up(self, changes: dict[str, Any]) -> None:
        if begin(self.state, at(self.now, self.txid + 1, 0, self.topology.incarnation, topology=self.topology)):
            write(self.state, changes)
            self.state.rollback()

    @invariant()
    def agrees(self) -> None:
        assert contents(self.state) == {key: value for key, (value, _) in self.values.items()}


@pytest.mark.parametrize("ttl", [None, TTL])
def test_it_does_what_a_dict_with_an_undo_does(
    request: pytest.FixtureRequest, factories: Callable[[Any], StateFactory], ttl: timedelta | None
) -> None:
    made = iter(range(1, 10_000))

    class Model(RemovingModel):
        def __init__(self) -> None:
            super().__init__()
            self.ttl = ttl
            self.state, self.topology = made_by(factories(ttl)), evolve(TOPOLOGY, incarnation=next(made))
            self.state.recover(self.topology, self.topology.incarnation)

        def teardown(self) -> None:
            self.state.close()

    quick = "memory" in request.node.name or "sqlite" in request.node.name
    run_state_machine_as_test(
        Model, settings=settings(max_examples=20 if quick else 5, stateful_step_count=25, deadline=None, database=None)
    )
