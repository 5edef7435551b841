"""Rows of states."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field

from coordinators.values.attempt import TransactionAttempt
from tests.transactions import begin
from trident_py import (
    Count,
    IBackingMap,
    ITupleCollection,
    MemoryMapState,
    NonTransactionalMap,
    PostgresState,
    ReadOnlyState,
    ReducerAggregator,
    SinkTransaction,
    SQLiteState,
    StateError,
    StateFactory,
    TopologyError,
    TopologyKey,
    TransactionKey,
    TridentConfig,
    combiner_updater,
    reducer_updater,
)
from trident_py.interfaces.context import Metrics
from trident_py.rows.schema import schema_of
from trident_py.states import FencedState, MicroBatchIBackingMap

TOPOLOGY = TopologyKey("wordcount", "8d1f", 1)


@pytest.mark.parametrize("kind", ["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_ST10_the_committed_values_of_a_state_can_be_gone_through(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    factories: dict[str, Any] = {
        "memory": MemoryMapState.factory,
        "sqlite": lambda: SQLiteState(tmp_path / "counts.db", table="counts"),
        "postgres": lambda: PostgresState(request.getfixturevalue("postgres"), table="counts"),
    }
    factory: StateFactory = factories[kind]().for_fields(
        schema_of("word string, at timestamp"), schema_of("total decimal(9, 2)").fields[0]
    )
    state = factory.make_state(TridentConfig(), Metrics(), 0, 1)
    assert isinstance(state, FencedState)
    assert isinstance(state, ITupleCollection)
    state.recover(TOPOLOGY, 1)
    assert list(state.get_tuples()) == []
    for txid in (1, 2):
        tx = SinkTransaction(TransactionKey(TOPOLOGY.uuid, 1, txid), TransactionAttempt(txid, 0), 1)
        begin(state, tx)
        state.multi_put([("a", None), (None, None), ("it's ü", None)][:txid], [txid] * txid)
        if txid == 1:
            state.commit_group()
    assert list(state.get_tuples()) == [("a", None, 1)]  # the second isn't committed
    state.commit_group()
    assert sorted(state.get_tuples(), key=repr) == [("a", None, 2), (None, None, 2)]
    state.close()


class Joined(ReducerAggregator[str]):
    def init(self) -> str:
        return ">"

    def reduce(self, curr: str, row: Any) -> str:
        return curr + str(row)


class FromTen(Count):
    def zero(self) -> int:
        return 10


def test_ST11_a_first_value_is_the_partial_itself() -> None:
    update = combiner_updater(FromTen(), 3)
    assert [update(None), update(4)] == [3, 7]  # zero() is not combined


def test_ST12_a_first_value_is_reduced_from_init() -> None:
    update = reducer_updater(Joined(), ["a", "b"])
    assert [update(None), update("x"), reducer_updater(Joined(), [])(None)] == [">ab", "xab", ">"]


@define
class Picky(IBackingMap[int]):
    """Takes two keys at once."""

    stored: dict[str, int] = field(factory=dict)
    calls: list[int] = field(factory=list)

    def multi_get(self, keys: Sequence[Any]) -> list[int | None]:
        self.calls.append(len(keys))
        return [self.stored.get(key) for (key,) in keys][: 2 if "short" not in self.stored else 1]

    def multi_put(self, keys: Sequence[Any], values: Sequence[int]) -> None:
        self.calls.append(-len(keys))
        assert len(keys) <= 2
        self.stored.update(zip([key for (key,) in keys], values, strict=True))


def test_ST23_large_calls_of_a_backing_map_are_split() -> None:
    store = Picky()
    split = MicroBatchIBackingMap(store, max_multi_get=2, max_multi_put=2)
    state: NonTransactionalMap[int] = NonTransactionalMap(split)
    state.begin_commit(1)
    keys = [[letter] for letter in "abcde"]
    assert state.multi_update(keys, [lambda old: (old or 0) + 1] * 5) == [1] * 5
    assert store.calls == [2, 2, 1, -2, -2, -1]
    assert state.multi_get([["e"], ["x"], ["a"]]) == [1, None, 1]
    store.calls.clear()
    assert MicroBatchIBackingMap(store).multi_get(keys[:2]) == [1, 1]
    assert split.multi_get([]) == []
    assert store.calls == [2]
    store.stored["short"] = 1
    with pytest.raises(StateError, match=r"Picky\.multi_get gave 1 values for 2 keys"):
        split.multi_get(keys)
    with pytest.raises(TopologyError, match="max_multi_put is a number of keys, 0 for no limit, not -1"):
        MicroBatchIBackingMap(store, max_multi_put=-1)


def test_ST24_a_read_only_state_refuses_transactions() -> None:
    class Fixed(ReadOnlyState):
        """Nothing changes it."""

    for change in (Fixed().begin_commit, Fixed().commit):
        with pytest.raises(StateError, match="Fixed is read only; no transaction can change it"):
            change(1)
