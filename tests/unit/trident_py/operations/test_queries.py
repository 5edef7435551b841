"""The queries that come with the product, and what they give for rows."""

from __future__ import annotations

from typing import Any

from coordinators.values.attempt import TransactionAttempt
from tests.transactions import begin
from trident_py.graph.queries import StateQuery
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.sinks import SinkTransaction, TopologyKey, TransactionKey
from trident_py.interfaces.states import QueryFunction
from trident_py.operations.queries import SnapshotGet, TupleCollectionGet
from trident_py.rows.schema import schema_of
from trident_py.states.maps import IBackingMap, OpaqueMap, SnapshottableMap
from trident_py.states.memory import MemoryMapState
from trident_py.states.values import OpaqueValue


def asked(function: QueryFunction[Any, Any], state: Any, rows: list[Any], out: str) -> list[tuple[Any, ...]]:
    query = StateQuery(title="state_query", state="s", function=function, in_fields=("word",), out=schema_of(out))
    return [tuple(row) for row in query.answered(state, rows, schema_of("n int, word string"))]


def filled(values: dict[tuple[Any, ...], int]) -> MemoryMapState[Any]:
    state = MemoryMapState.factory().make_state(TridentConfig(), Metrics(), 0, 1)
    state.recover(TopologyKey("wordcount", "8d1f", 1), 1)
    tx = SinkTransaction(TransactionKey("8d1f", 1, 1), TransactionAttempt(1, 0), 1)
    begin(state, tx)
    state.multi_put(list(values), list(values.values()))
    state.commit_group()
    return state


def test_b5_snapshot_get_gives_the_one_value_and_b6_tuple_collection_get_all() -> None:
    assert asked(SnapshotGet(), filled({}), [(1, "a")], "total int") == [(1, "a", None)]
    assert asked(SnapshotGet(), filled({(): 7}), [(1, "a"), (2, "b")], "total int") == [(1, "a", 7), (2, "b", 7)]
    state = filled({("x",): 1, ("y",): 2})
    assert asked(TupleCollectionGet(), state, [(1, "a")], "key string, count int") == [
        (1, "a", "x", 1),
        (1, "a", "y", 2),
    ]
    only: SnapshottableMap[int] = SnapshottableMap(OpaqueMap(_Sevens()), ["k"])
    assert asked(SnapshotGet(), only, [(1, "a")], "total int") == [(1, "a", 7)]


class _Sevens(IBackingMap[OpaqueValue[int]]):
    def multi_get(self, keys: Any) -> list[OpaqueValue[int]]:
        return [OpaqueValue(1, 7)] * len(keys)

    def multi_put(self, keys: Any, values: Any) -> None: ...
