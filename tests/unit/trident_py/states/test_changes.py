"""The effect of rows on a state: the same for all of its partitions together as for one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from attrs import field, frozen

from tests.unit.trident_py.states.aggregators import Adding
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.operations import ReducerAggregator
from trident_py.interfaces.states import StateUpdater
from trident_py.rows.schema import schema_of
from trident_py.states import changes
from trident_py.states.changes import Aggregated, Updated, rows_emitted
from trident_py.states.memory import MemoryMapState
from trident_py.states.shards import shard_numbers

WORD = schema_of("word string")


class Joining(ReducerAggregator[str]):
    def init(self) -> str:
        return ""

    def reduce(self, curr: str, row: Any) -> str:
        return f"{curr}{row.letter}"


@frozen
class Noting(StateUpdater[Any]):
    calls: list[list[str]] = field(factory=list)
    emits: Any = None

    def update_state(self, state: Any, tuples: Sequence[Any], collector: TridentCollector) -> None:
        self.calls.append([row.word for row in tuples])
        for row in tuples:
            collector.emit(self.emits or (row.word,))


def test_a_reducer_gets_the_rows_of_each_key_in_order_and_a_combiner_each_partial_value() -> None:
    change = Aggregated(aggregator=Joining(), keys=1, inputs=["letter"])
    keys, updaters = change.updaters([["a", "b", "a"], ["x", "y", "z"]])
    assert [(key, updater("-")) for key, updater in zip(keys, updaters, strict=True)] == [
        (("a",), "-xz"),
        (("b",), "-y"),
    ]
    rows = pa.table({"word": ["a", "b", "a"], "letter": ["x", "y", "z"]})
    assert change.partitions(rows, 7) == shard_numbers([["a"], ["b"], ["a"]], 7)
    combined = Aggregated(aggregator=Adding(), keys=0)
    keys, (updater,) = combined.updaters([[5]])
    assert (keys, updater(2), updater(None)) == ([()], 7, 5)
    assert len(set(combined.partitions(pa.table({"n": [5, 6, 7]}), 7))) == 1


def test_an_updater_is_called_for_each_partition_with_its_rows_also_without_rows() -> None:
    noting, words = Noting(), ["a", "b", "c", "a"]
    change = Updated(updater=noting, where="here", inputs=["word"], output=WORD, places=[0])
    state: MemoryMapState[Any] = MemoryMapState()
    assert sorted(change.spread([state] * 5, pa.table({"word": words}))) == [("a",), ("a",), ("b",), ("c",)]
    numbers = shard_numbers([[word] for word in words], 5)
    assert noting.calls == [
        [word for word, its in zip(words, numbers, strict=True) if its == part] for part in range(5)
    ]
    assert change.apply(state, pa.table({}), 0) == []
    assert noting.calls[-1] == []


def test_rows_that_an_updater_emits_in_tasks_come_to_the_driver_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "EMITTED_ROWS", 2)
    change = Updated(updater=Noting(), where="here", inputs=["word"], output=WORD, places=[0])
    emitted = change.apply(MemoryMapState(), pa.table({"word": ["a", "b", None]}), 4)
    assert [each.place for each in emitted] == [4, 4]
    assert rows_emitted(emitted, WORD) == [("a",), ("b",), (None,)]


@pytest.mark.parametrize(("emitted", "error"), [("text", TypeError), ((1, 2), ValueError)])
def test_an_updater_that_emits_another_row_than_it_declared_is_named(emitted: Any, error: type[Exception]) -> None:
    change = Updated(updater=Noting(emits=emitted), where="state 'x'", inputs=["word"], output=WORD, places=[0])
    with pytest.raises(error, match="state 'x': emitted"):
        change.apply(MemoryMapState(), pa.table({"word": ["a"]}), 0)
