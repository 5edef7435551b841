"""One contract for every fenced state, by example and against a model."""

from __future__ import annotations

import functools
import itertools
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from coordinators.values.attempt import TransactionAttempt
from tests.transactions import begin
from tests.unit.trident_py.states.aggregators import Adding, Extreme
from tests.unit.trident_py.states.sql.everywhere import STORES, factory_over
from trident_py.errors import FencedError, StateError
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.operations import CombinerAggregator
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey, TransactionKey
from trident_py.interfaces.states import FencedState, StateFactory
from trident_py.rows.schema import schema_of
from trident_py.states.memory import MemoryMapState
from trident_py.states.sql.postgres import PostgresState
from trident_py.states.sql.sqlite import SQLiteState

TOPOLOGY = TopologyKey("wordcount", "8d1f", 1)


def transaction(
    txid: int,
    attempt: int = 0,
    epoch: int = 1,
    topology: TopologyKey = TOPOLOGY,
    group_first: int | None = None,
) -> SinkTransaction:
    key = TransactionKey(topology.uuid, topology.incarnation, txid)
    return SinkTransaction(key, TransactionAttempt(txid, attempt), epoch, group_first=group_first)


def made_by(factory: StateFactory, keys: str = "word string", value: str = "count bigint") -> FencedState[Any]:
    typed = factory.for_fields(schema_of(keys), schema_of(value).fields[0])
    state = typed.make_state(TridentConfig(), Metrics(), 0, 1)
    assert isinstance(state, FencedState)
    return state


def commit(
    state: FencedState[Any],
    tx: SinkTransaction,
    changes: dict[str, Any],
    aggregator: CombinerAggregator[Any] | None = None,
) -> bool:
    due = begin(state, tx)
    if due:
        state.multi_merge([(word,) for word in changes], list(changes.values()), aggregator or Adding())
        state.commit_group()
    return due


@pytest.fixture(params=STORES)
def factory(request: pytest.FixtureRequest, tmp_path: Path) -> StateFactory:
    return factory_over(request, tmp_path)


@pytest.fixture
def fresh(factory: StateFactory) -> Iterator[FencedState[Any]]:
    state = made_by(factory)
    yield state
    state.close()


@pytest.fixture
def state(fresh: FencedState[Any]) -> FencedState[Any]:
    assert fresh.recover(TOPOLOGY, 1) is None
    return fresh


@pytest.fixture
def grouping(state: FencedState[Any]) -> FencedState[Any]:
    """A state that takes groups."""
    if not state.takes_groups:
        pytest.skip("it commits one transaction after the other")
    return state


def values(state: FencedState[Any], *words: str) -> list[Any]:
    return state.multi_get([(word,) for word in words])


# --- one transaction --------------------------------------------------------------------------------------------------


def test_what_was_committed_is_there_and_the_token_with_it(state: FencedState[Any]) -> None:
    assert commit(state, transaction(1), {"a": 1, "b": 2})
    assert commit(state, transaction(2), {"b": 3})
    assert values(state, "a", "b", "c") == [1, 5, None]
    assert state.recover(TOPOLOGY, 2) == CommitToken(2, 1, 0)


def test_a_transaction_without_changes_moves_the_token(state: FencedState[Any]) -> None:
    commit(state, transaction(1), {})
    assert state.recover(TOPOLOGY, 2) == CommitToken(1, 1, 0)


def test_a_state_that_joins_later_starts_at_any_transaction(state: FencedState[Any]) -> None:
    assert commit(state, transaction(42), {"a": 1})
    assert commit(state, transaction(43), {"a": 1})
    assert values(state, "a") == [2]


def test_a_transaction_reads_what_it_wrote_and_nobody_else_does(state: FencedState[Any]) -> None:
    commit(state, transaction(1), {"a": 1})
    tx = transaction(2)
    begin(state, tx)
    state.multi_merge([("a",), ("b",)], [1, 1], Adding())
    assert values(state, "a", "b") == [2, 1]
    with ThreadPoolExecutor(1) as other:
        assert other.submit(values, state, "a", "b").result() == [1, None]
        state.commit_group()
        assert other.submit(values, state, "a", "b").result() == [2, 1]


def test_nothing_stays_of_a_transaction_that_was_given_up(state: FencedState[Any]) -> None:
    commit(state, transaction(1), {"a": 1})
    begin(state, transaction(2))
    state.multi_merge([("a",), ("b",)], [1, 1], Adding())
    state.rollback()
    state.rollback()
    assert values(state, "a", "b") == [1, None]
    assert commit(state, transaction(2, 1), {"a": 5})
    assert values(state, "a", "b") == [6, None]


def test_beginning_anew_gives_up_what_was_left_open(state: FencedState[Any]) -> None:
    begin(state, transaction(1))
    state.multi_merge([("a",)], [1], Adding())
    commit(state, transaction(1, 1), {"b": 1})
    assert values(state, "a", "b") == [None, 1]


def test_nothing_changes_outside_a_transaction(state: FencedState[Any]) -> None:
    for change in (
        lambda: state.multi_merge([("a",)], [1], Adding()),
        lambda: state.multi_put([("a",)], [1]),
        lambda: state.multi_update([("a",)], [lambda old: 1]),
        lambda: state.commit_group(),
    ):
        with pytest.raises(StateError, match="only between begin_group and commit_group"):
            change()


def test_nothing_begins_before_recovery(fresh: FencedState[Any]) -> None:
    with pytest.raises(StateError, match="not recovered"):
        begin(fresh, transaction(1))


def test_updaters_see_the_old_value_and_give_the_new_one(state: FencedState[Any]) -> None:
    commit(state, transaction(1), {"a": 10})
    tx = transaction(2)
    begin(state, tx)
    seen: list[Any] = []

    def doubled(old: Any) -> Any:
        seen.append(old)
        return 1 if old is None else 2 * old

    assert state.multi_update([["a"], ["b"], ["b"]], [doubled, doubled, doubled]) == [20, 1, 2]
    assert seen == [10, None, 1]
    state.multi_put([("c",), ("a",)], [7, 8])
    state.commit_group()
    assert values(state, "a", "b", "c") == [8, 2, 7]


def test_a_value_of_none_is_no_value(state: FencedState[Any]) -> None:
    for txid, partial in enumerate([None, 3, None, 4], 1):
        commit(state, transaction(txid), {"a": partial})
    assert values(state, "a") == [7]


@pytest.mark.parametrize("hint", [True, False])
def test_least_and_greatest_values(state: FencedState[Any], hint: bool) -> None:
    for txid, partial in enumerate([None, 5, 3, 9, None], 1):
        tx = transaction(txid)
        begin(state, tx)
        state.multi_merge([("least",)], [partial], Extreme("min", hint=hint))
        state.multi_merge([("most",)], [partial], Extreme("max", hint=hint))
        state.commit_group()
    assert values(state, "least", "most") == [3, 9]


# --- the decision table -----------------------------------------------------------------------------------------------


def test_the_same_attempt_again_is_applied_already(state: FencedState[Any]) -> None:
    commit(state, transaction(1), {"a": 1})
    assert not commit(state, transaction(1), {"a": 1})
    assert values(state, "a") == [1]


@pytest.mark.parametrize("again", [transaction(2, attempt=1), transaction(2, attempt=0, epoch=2)])
def test_a_later_attempt_replaces_what_an_earlier_one_did(state: FencedState[Any], again: SinkTransaction) -> None:
    commit(state, transaction(1), {"a": 1, "kept": 1})
    commit(state, transaction(2), {"a": 10, "born": 10, "gone": 10})
    state.recover(TOPOLOGY, again.epoch)
    assert commit(state, again, {"a": 2, "born": 2})
    assert values(state, "a", "born", "gone", "kept") == [3, 2, None, 1]
    assert commit(state, transaction(3, epoch=again.epoch), {"a": 1, "gone": 1})
    assert values(state, "a", "gone") == [4, 1]


def test_a_replay_can_itself_be_replaced(state: FencedState[Any]) -> None:
    commit(state, transaction(1), {"a": 1})
    for attempt in range(4):
        commit(state, transaction(2, attempt), {f"only {attempt}": 1, "a": attempt})
    assert values(state, "a", *(f"only {attempt}" for attempt in range(4))) == [4, None, None, None, 1]


def test_a_replay_that_is_given_up_leaves_what_it_would_have_replaced(state: FencedState[Any]) -> None:
    commit(state, transaction(1), {"a": 1})
    begin(state, transaction(1, 1))
    assert values(state, "a") == [None]
    state.rollback()
    assert values(state, "a") == [1]
    assert not commit(state, transaction(1), {"a": 1})


def test_a_key_touched_several_times_in_a_transaction_is_restored_to_what_it_was_before_it(
    state: FencedState[Any],
) -> None:
    commit(state, transaction(1), {"a": 1})
    tx = transaction(2)
    begin(state, tx)
    for aggregator in (Adding(), Adding(None), Extreme("max"), Adding()):
        state.multi_merge([("a",), ("a",)], [5, 7], aggregator)
    state.multi_put([("a",)], [99])
    state.commit_group()
    commit(state, transaction(2, 1), {"a": 1})
    assert values(state, "a") == [2]


@pytest.mark.parametrize("late", [transaction(2, 0), transaction(2, 1, epoch=1)])
def test_a_late_attempt_is_refused(state: FencedState[Any], late: SinkTransaction) -> None:
    commit(state, transaction(1), {"a": 1})
    commit(state, transaction(2, 2), {"a": 1})
    with pytest.raises(StateError, match=r"attempt 2:\d: .* the newer attempt 2:2 of epoch 1 already"):
        commit(state, late, {"a": 1})
    assert values(state, "a") == [2]


@pytest.mark.parametrize("txid", [1, 2, 5])
def test_what_does_not_follow_is_refused(state: FencedState[Any], txid: int) -> None:
    for done in (1, 2, 3):
        commit(state, transaction(done), {"a": 1})
    with pytest.raises(StateError, match=r"'wordcount'.* is at 3:0 of epoch 1, so 4 comes next.*trident reset"):
        commit(state, transaction(txid), {"a": 1})
    assert values(state, "a") == [3]


def test_an_older_leader_is_refused_once_a_newer_one_was_here(state: FencedState[Any]) -> None:
    commit(state, transaction(1), {"a": 1})
    state.recover(TOPOLOGY, 2)
    for tx in (transaction(2), transaction(1), transaction(1, 9)):
        with pytest.raises(FencedError, match=r"epoch 2.* this leader is of epoch 1"):
            commit(state, tx, {"a": 1})
    assert values(state, "a") == [1]


def test_another_incarnation_is_refused(state: FencedState[Any]) -> None:
    with pytest.raises(FencedError, match="incarnation 1, this leader is of epoch 1 of incarnation 2"):
        commit(state, transaction(1, topology=TopologyKey("wordcount", "8d1f", 2)), {"a": 1})


def test_a_fence_above_ours_stops_the_takeover(state: FencedState[Any]) -> None:
    state.recover(TOPOLOGY, 7)
    with pytest.raises(FencedError, match=r"'wordcount'.* epoch 7, ours is 6: .* ZooKeeper was restored from the past"):
        state.recover(TOPOLOGY, 6)


def test_a_newer_incarnation_starts_empty_handed(state: FencedState[Any]) -> None:
    commit(state, transaction(5), {"a": 1})
    newer = TopologyKey("wordcount", "8d1f", 2)
    assert state.recover(newer, 2) is None
    assert commit(state, transaction(1, epoch=2, topology=newer), {"a": 1})
    assert state.recover(newer, 3) == CommitToken(1, 2, 0)
    with pytest.raises(StateError, match="incarnation 2, this is incarnation 1: ZooKeeper was restored from the past"):
        state.recover(TOPOLOGY, 4)


# --- runs -------------------------------------------------------------------------------------------------------------


def commit_run(state: FencedState[Any], *changes: tuple[SinkTransaction, dict[str, Any]]) -> list[int]:
    """Commit these in one step; returns the txids that were applied."""
    assert isinstance(state, FencedState)
    due = state.begin_group([tx for tx, _ in changes])
    for tx, words in changes:
        if tx in due:
            state.begin_member(tx)
            state.multi_merge([(word,) for word in words], list(words.values()), Adding())
    if due:
        state.commit_group()
    return [tx.txid for tx in due]


@pytest.mark.usefixtures("grouping")
def test_a_run_is_committed_in_one_step_and_the_state_knows_where_it_began(state: FencedState[Any]) -> None:
    assert isinstance(state, FencedState)
    commit(state, transaction(1), {"a": 1})
    seen: list[Any] = []
    tx = [transaction(2), transaction(3), transaction(4)]
    due = state.begin_group(tx)
    for each in due:
        state.begin_member(each)
        state.multi_merge([("a",), (f"b{each.txid}",)], [1, 1], Adding())
        with ThreadPoolExecutor(1) as other:
            seen.append(other.submit(values, state, "a", "b2").result())
    state.commit_group()
    assert seen == [[1, None]] * 3
    assert values(state, "a", "b2", "b3", "b4") == [4, 1, 1, 1]
    assert state.recover(TOPOLOGY, 2) == CommitToken(4, 1, 0)


@pytest.mark.usefixtures("grouping")
def test_a_run_that_is_given_up_leaves_nothing(state: FencedState[Any]) -> None:
    assert isinstance(state, FencedState)
    commit(state, transaction(1), {"a": 1})
    state.begin_group([transaction(2), transaction(3)])
    for txid in (2, 3):
        state.begin_member(transaction(txid))
        state.multi_merge([("a",)], [1], Adding())
    state.rollback()
    assert values(state, "a") == [1]
    assert state.recover(TOPOLOGY, 2) == CommitToken(1, 1, 0)


@pytest.mark.usefixtures("grouping")
def test_members_that_come_again_are_skipped_and_the_last_one_is_done_again(state: FencedState[Any]) -> None:
    run = [(transaction(txid), {"a": 1, f"b{txid}": 1}) for txid in (1, 2, 3)]
    assert commit_run(state, *run) == [1, 2, 3]
    state.recover(TOPOLOGY, 2)
    again = [transaction(txid, 0, epoch=2) for txid in (1, 2, 3, 4)]
    assert not commit(state, again[0], {"a": 7})
    assert commit_run(state, *[(tx, {"a": 1, f"b{tx.txid}": 1}) for tx in again[1:]]) == [3, 4]
    assert values(state, "a", "b1", "b2", "b3", "b4") == [4, 1, 1, 1, 1]
    assert commit_run(state, (again[1], {"a": 7}), (again[2], {"a": 7})) == []
    assert values(state, "a") == [4]


@pytest.mark.usefixtures("grouping")
def test_after_a_run_only_its_last_transaction_is_rolled_back(state: FencedState[Any]) -> None:
    commit_run(state, (transaction(1), {"a": 1, "b": 1}), (transaction(2), {"a": 1, "c": 1}))
    assert commit(state, transaction(2, 1), {"a": 5})
    assert values(state, "a", "b", "c") == [6, 1, None]


@pytest.mark.parametrize("first", [1, 3])
def test_a_run_that_does_not_follow_is_refused(state: FencedState[Any], first: int) -> None:
    commit(state, transaction(1), {"a": 1})
    commit(state, transaction(2), {"a": 1})
    with pytest.raises(StateError, match=r"is at \d:0 of epoch 1, so \d comes next"):
        commit_run(state, (transaction(first), {"a": 1}), (transaction(first + 2), {"a": 1}))
    assert values(state, "a") == [2]


@pytest.mark.usefixtures("grouping")
def test_a_transaction_alone_ends_what_was_known_of_a_run(state: FencedState[Any]) -> None:
    commit_run(state, (transaction(1), {"a": 1}), (transaction(2), {"a": 1}))
    commit(state, transaction(3), {"a": 1})
    with pytest.raises(StateError, match=r"is at 3:0 of epoch 1, so 4 comes next"):
        commit(state, transaction(2, 1), {"a": 1})


@pytest.mark.usefixtures("grouping")
def test_the_steps_of_a_group_know_the_members_of_the_steps_before(state: FencedState[Any]) -> None:
    commit(state, transaction(1), {"a": 1})
    steps = [[2], [3, 4], [5]]
    for step in steps:
        assert commit_run(state, *[(transaction(txid, group_first=2), {"a": 1}) for txid in step]) == step
    state.recover(TOPOLOGY, 2)
    for txid in (2, 3, 4):
        assert not commit(state, transaction(txid, 1, epoch=2), {"a": 7})
    assert commit(state, transaction(5, 1, epoch=2), {"a": 1})
    assert values(state, "a") == [5]


def test_decimals_add_up_exactly(factory: StateFactory) -> None:
    state = made_by(factory, value="total decimal(38,2)")
    state.recover(TOPOLOGY, 1)
    commit(state, transaction(1), {"a": Decimal("900000000000000000000000000000000000.01")})
    commit(state, transaction(2), {"a": Decimal("0.01")})
    assert values(state, "a") == [Decimal("900000000000000000000000000000000000.02")]
    state.close()


# --- the model --------------------------------------------------------------------------------------------------------

Accumulator = Callable[[int | None, int], int]

WORDS = ["a", "b", "c", "d", None]
COMBINERS: list[tuple[CombinerAggregator[Any], Accumulator]] = [
    (Adding(), lambda old, new: (old or 0) + new),
    (Adding(None), lambda old, new: (old or 0) + new),
    (Extreme("min"), lambda old, new: new if old is None else min(old, new)),
    (Extreme("max"), lambda old, new: new if old is None else max(old, new)),
    (Extreme("max", hint=False), lambda old, new: new if old is None else max(old, new)),
]
steps = st.lists(
    st.tuples(
        st.sampled_from(range(len(COMBINERS) + 1)),
        st.lists(st.tuples(st.sampled_from(WORDS), st.integers(-5, 5)), max_size=5),
    ),
    max_size=4,
)
Steps = list[tuple[int, list[tuple[str | None, int]]]]


class MemoryAgainstModel(RuleBasedStateMachine):
    """Transactions, failed attempts, replays, takeovers and crashes; the model is a dict and a fold over it."""

    def __init__(self) -> None:
        super().__init__()
        self.committed: dict[str | None, int] = {}
        self.before: dict[str | None, int] = {}
        self.token = CommitToken(0, 1, 0)
        self.group_first = 0
        self.epoch = 1
        self.attempts = itertools.count(1)

    def opened(self) -> FencedState[Any]:
        """The state, empty."""
        return made_by(MemoryMapState.factory())

    def reopened(self) -> FencedState[Any]:
        """The state as a new leader finds it, perhaps after a crash."""
        self.state.rollback()
        return self.state

    @initialize()
    def start(self) -> None:
        self.state = self.opened()
        assert self.state.recover(TOPOLOGY, self.epoch) is None

    def tx(self, txid: int) -> SinkTransaction:
        return transaction(txid, next(self.attempts), self.epoch)

    def apply(self, base: dict[str | None, int], changes: Steps) -> dict[str | None, int]:
        expected = dict(base)
        for which, pairs in changes:
            keys, numbers = [(word,) for word, _ in pairs], [number for _, number in pairs]
            if which == len(COMBINERS):
                self.state.multi_put(keys, numbers)
            else:
                self.state.multi_merge(keys, numbers, COMBINERS[which][0])
            for word, number in pairs:
                accumulator: Accumulator = COMBINERS[which][1] if which < len(COMBINERS) else lambda _, new: new
                expected[word] = accumulator(expected.get(word), number)
            assert self.state.multi_get([(word,) for word in WORDS]) == [expected.get(word) for word in WORDS]
        return expected

    def run(self, tx: SinkTransaction, base: dict[str | None, int], changes: Steps) -> None:
        assert begin(self.state, tx)
        result = self.apply(base, changes)
        self.state.commit_group()
        self.committed, self.before, self.token, self.group_first = result, dict(base), tx.token, tx.txid

    @rule(changes=st.lists(steps, min_size=2, max_size=3), again=st.booleans())
    def commit_together(self, changes: list[Steps], again: bool) -> None:
        """Several transactions in one step; perhaps behind the last one, again."""
        assert isinstance(self.state, FencedState)
        first = self.token.txid + (0 if again and self.token.txid else 1)
        run = [self.tx(first + number) for number in range(len(changes))]
        base = self.before if first == self.token.txid else self.committed
        assert self.state.begin_group(run) == run
        for tx, change in zip(run, changes, strict=True):
            self.state.begin_member(tx)
            self.before, base = base, self.apply(base, change)
        self.state.commit_group()
        self.committed, self.token, self.group_first = base, run[-1].token, first

    @precondition(lambda self: self.group_first < self.token.txid)
    @rule()
    def repeat_a_member(self) -> None:
        """It was committed with its run."""
        for txid in range(self.group_first, self.token.txid):
            assert not begin(self.state, self.tx(txid))

    @rule(changes=steps)
    def commit(self, changes: Steps) -> None:
        self.run(self.tx(self.token.txid + 1), self.committed, changes)

    @rule(changes=steps)
    def fail(self, changes: Steps) -> None:
        assert begin(self.state, self.tx(self.token.txid + 1))
        self.apply(self.committed, changes)
        self.state.rollback()

    @precondition(lambda self: self.token.txid > 0)
    @rule(changes=steps)
    def replay(self, changes: Steps) -> None:
        self.run(self.tx(self.token.txid), self.before, changes)

    @precondition(lambda self: self.token.txid > 0)
    @rule(changes=steps)
    def fail_a_replay(self, changes: Steps) -> None:
        assert begin(self.state, self.tx(self.token.txid))
        self.apply(self.before, changes)
        self.state.rollback()

    @precondition(lambda self: self.token.txid > 0 and self.token.epoch == self.epoch)
    @rule()
    def repeat(self) -> None:
        assert not begin(self.state, transaction(self.token.txid, self.token.attempt_id, self.epoch))

    @precondition(lambda self: self.token.txid > 0)
    @rule(txid=st.integers(-2, 2), attempt=st.integers(0, 3), back=st.integers(0, 2))
    def come_late(self, txid: int, attempt: int, back: int) -> None:
        tx = transaction(self.token.txid + txid, self.token.attempt_id - attempt, self.epoch - back)
        follows = txid == 1 or (txid == 0 and tx.token >= self.token)
        is_member = self.group_first <= tx.txid < self.token.txid
        if back == 0 and (follows or is_member):
            return
        with pytest.raises((StateError, FencedError)):
            begin(self.state, tx)

    @rule(changes=steps, cut=st.sampled_from(["no transaction", "next", "replay"]))
    def take_over(self, changes: Steps, cut: str) -> None:
        if cut == "next":
            begin(self.state, self.tx(self.token.txid + 1))
            self.apply(self.committed, changes)
        elif cut == "replay" and self.token.txid > 0:
            begin(self.state, self.tx(self.token.txid))
            self.apply(self.before, changes)
        self.state = self.reopened()
        self.epoch += 1
        expected = self.token if self.token.txid else None
        assert self.state.recover(TOPOLOGY, self.epoch) == expected

    @invariant()
    def committed_values_are_those_of_the_model(self) -> None:
        if hasattr(self, "state"):
            assert self.state.multi_get([(word,) for word in WORDS]) == [self.committed.get(word) for word in WORDS]

    def teardown(self) -> None:
        if hasattr(self, "state"):
            self.state.close()


class SQLiteAgainstModel(MemoryAgainstModel):
    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()

    def opened(self) -> FencedState[Any]:
        return made_by(SQLiteState(Path(self.directory.name, "s.db"), table="counts"))

    def reopened(self) -> FencedState[Any]:
        self.state.close()
        return self.opened()

    def teardown(self) -> None:
        super().teardown()
        self.directory.cleanup()


class PostgresAgainstModel(MemoryAgainstModel):
    tables = itertools.count()

    def __init__(self, dsn: str) -> None:
        super().__init__()
        self.factory = PostgresState(dsn, table=f"counts{next(self.tables)}")

    def opened(self) -> FencedState[Any]:
        return made_by(self.factory)

    def reopened(self) -> FencedState[Any]:
        self.state.close()
        return self.opened()


few = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestMemoryAgainstModel = MemoryAgainstModel.TestCase
TestMemoryAgainstModel.settings = few
TestSQLiteAgainstModel = SQLiteAgainstModel.TestCase
TestSQLiteAgainstModel.settings = settings(few, max_examples=20)  # each commit waits for the disk


@pytest.mark.postgres
def test_postgres_against_model(postgres: str) -> None:
    machine: Any = functools.partial(PostgresAgainstModel, postgres)
    run_state_machine_as_test(machine, settings=settings(few, max_examples=10))


def test_readers_and_commits_run_side_by_side(state: FencedState[Any]) -> None:
    words = [f"w{number}" for number in range(200)]
    done = threading.Event()

    def read() -> int:
        reads = 0
        while not done.is_set():
            found = set(values(state, *words))
            assert len(found) == 1, found
            reads += 1
        return reads

    with ThreadPoolExecutor(2) as readers:
        reading = [readers.submit(read) for _ in range(2)]
        try:
            for txid in range(1, 31):
                commit(state, transaction(txid), dict.fromkeys(words, 1))
        finally:
            done.set()
        assert all(reader.result() > 0 for reader in reading)
    assert set(values(state, *words)) == {30}
