"""Key groups on the driver: who gets which rows, and how a state without groups is left as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from attrs import define, field

from tests.unit.trident_py.windows.stored import Stored
from trident_py.graph.timed_updater import KeyGroups, Newests, TimedUpdater
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.states import Key, RemovableMapState
from trident_py.rows.row import Row, keys_in
from trident_py.rows.schema import schema_of
from trident_py.states.changes import UpdateCollector
from trident_py.states.shards import shard_numbers

FIELDS = schema_of("word string")
WORDS = ["a", "b", "c", "a"]


@define
class Noting(TimedUpdater):
    fed: list[tuple[list[str], Newests | None]] = field(factory=list)

    def feed(
        self,
        state: RemovableMapState[bytes],
        tuples: Sequence[Row],
        time: int,
        collector: TridentCollector,
        newest: Newests | None = None,
    ) -> None:
        self.fed.append(([row.word for row in tuples], newest))
        state.multi_put([("head", 0)], [b"fed"])

    def next_window_at(self, state: RemovableMapState[bytes]) -> int | None:
        return None

    def keys(self, rows: pa.Table) -> Sequence[Key]:
        return keys_in(rows, ["word"])

    def newest(self, rows: pa.Table, time: int) -> Newests:
        return [{"": rows.num_rows}]


def fed(count: int, among: range | None = None) -> tuple[Noting, Stored]:
    updater, state, collector = Noting(), Stored(), UpdateCollector("here", ["word"])
    numbers: Any = KeyGroups(updater, FIELDS, count).feeding(state, pa.table({"_0": WORDS}), 0, collector, None, among)
    assert list(numbers) == list(among or range(count))
    return updater, state


def test_each_group_gets_the_rows_of_its_keys_and_where_all_rows_move_the_watermark() -> None:
    updater, state = fed(4)
    numbers = shard_numbers([[word] for word in WORDS], 4)
    assert updater.fed == [
        ([word for word, its in zip(WORDS, numbers, strict=True) if its == group], [{"": 4}]) for group in range(4)
    ]
    assert sorted(state.values) == [(f"{group}:head", 0) for group in range(4)]


def test_one_group_is_the_state_itself() -> None:
    updater, state = fed(1)
    assert updater.fed == [(["a", "b", "c", "a"], None)]
    assert list(state.values) == [("head", 0)]
