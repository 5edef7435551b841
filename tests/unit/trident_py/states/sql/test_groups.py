"""A group of commits leaves what its members would, each alone."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from tests.unit.trident_py.states.aggregators import Adding, Extreme
from tests.unit.trident_py.states.sql.everywhere import STORES, factory_over
from tests.unit.trident_py.states.sql.test_fenced_state import TOPOLOGY, made_by, transaction
from trident_py.errors import StateError, StoreBusyException
from trident_py.interfaces.operations import CombinerAggregator
from trident_py.interfaces.removal import REMOVE
from trident_py.interfaces.sinks import SinkTransaction
from trident_py.interfaces.states import FencedState, StateFactory
from trident_py.states.redis.redis import RedisState
from trident_py.states.sql.mysql import MySQLState
from trident_py.states.sql.postgres import PostgresState
from trident_py.states.sql.sqlite import SQLiteState

AGGREGATORS: list[CombinerAggregator[Any]] = [Adding(), Adding(None), Extreme("min"), Extreme("max")]


@pytest.fixture(params=[each for each in STORES if each != "shards"])
def factories(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[StateFactory, StateFactory]:
    """Two factories over the same store, with data of their own."""
    together: Any = factory_over(request, tmp_path)
    match together:
        case RedisState():
            return together, evolve(together, prefix="alone")
        case SQLiteState() | PostgresState() | MySQLState():
            return together, evolve(together, table="alone")
    return together, factory_over(request, tmp_path)


class Change:
    """What a transaction does: some merges, each with an aggregator, and sometimes a removal between two of them."""

    def __init__(self, chance: random.Random) -> None:
        words = chance.choices("abcdefgh", k=chance.randint(0, 6))
        self.merges = [
            (chance.choice(AGGREGATORS), {word: chance.choice([None, -3, -1, 1, 2, 5]) for word in words})
            for _ in range(chance.randint(1, 2))
        ]
        self.removed = chance.choice(words) if words and chance.random() < 0.2 else None

    def make(self, state: FencedState[Any]) -> None:
        for aggregator, changes in self.merges:
            state.multi_merge([(word,) for word in changes], list(changes.values()), aggregator)
        if self.removed is not None:
            state.multi_update([(self.removed,)], [lambda _: REMOVE])


def commit(state: FencedState[Any], members: list[tuple[SinkTransaction, Change]]) -> None:
    due = state.begin_group([tx for tx, _ in members])
    for tx, change in members:
        if tx in due:
            state.begin_member(tx)
            change.make(state)
    if due:
        state.commit_group()


def values(state: FencedState[Any]) -> list[Any]:
    return state.multi_get([(word,) for word in "abcdefgh"])


@pytest.mark.parametrize("seed", range(3))
def test_a_group_leaves_what_its_members_would_alone(factories: tuple[StateFactory, StateFactory], seed: int) -> None:
    chance, txid = random.Random(seed), 0
    together, alone = map(made_by, factories)
    for state in (together, alone):
        state.recover(TOPOLOGY, 1)
    for _ in range(12):
        group = [(transaction(txid + 1 + number), Change(chance)) for number in range(chance.randint(1, 6))]
        txid += len(group)
        commit(together, group)
        for member in group:
            commit(alone, [member])
        assert values(together) == values(alone)
        if chance.random() < 0.5:  # the last one again: what it left must be undone
            again = [(transaction(txid, 1), Change(chance)), (transaction(txid + 1, 1), Change(chance))]
            txid += 1
            commit(together, again)
            for member in again:
                commit(alone, [member])
            assert values(together) == values(alone)
    together.close()
    alone.close()


def test_rows_and_their_books_are_the_same(tmp_path: Path) -> None:
    chance = random.Random(7)
    group = [(transaction(txid), Change(chance)) for txid in range(1, 30)]
    rows = []
    for name, groups in (("together", [group]), ("alone", [[member] for member in group])):
        state = made_by(SQLiteState(tmp_path / f"{name}.db", table="counts"))
        state.recover(TOPOLOGY, 1)
        for members in groups:
            commit(state, members)
        state.close()
        with closing(sqlite3.connect(tmp_path / f"{name}.db")) as client:
            rows.append(sorted(client.execute("SELECT * FROM counts").fetchall(), key=repr))
    assert rows[0] == rows[1]
    assert rows[0]


def test_a_member_whose_change_can_t_be_written_is_named(tmp_path: Path) -> None:
    state = made_by(SQLiteState(tmp_path / "s.db", table="counts"))
    state.recover(TOPOLOGY, 1)
    most = 2**63 - 1
    changes: list[dict[str, int]] = [{"a": most}, {"b": 1}, {"a": 1}, {"b": 1}]

    def merge(attempt: int) -> None:
        for tx in state.begin_group([transaction(txid, attempt) for txid in range(1, 5)]):
            state.begin_member(tx)
            change = changes[tx.txid - 1]
            state.multi_merge([(word,) for word in change], list(change.values()), Adding())
        state.commit_group()

    with pytest.raises(StoreBusyException, match="are tried again, one by one"):
        merge(0)
    state.rollback()
    with pytest.raises(StateError, match="attempt 3:1"):
        merge(1)
    state.rollback()
    assert state.multi_get([("a",)]) == [None]
    state.close()
