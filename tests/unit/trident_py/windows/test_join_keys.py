"""The rows of single keys: what is read and written of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from attrs import define, field

from tests.unit.trident_py.windows.stored import Stored
from trident_py.rows.schema import schema_of
from trident_py.windows import join_keys
from trident_py.windows.event_store import TimedRow
from trident_py.windows.join_keys import JoinedKeys, JoinSide
from trident_py.windows.time_index import TimeIndex
from trident_py.windows.watermark import Watermark

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 10**6
SCHEMA = schema_of("n int, at timestamp, tags array<string>")


@define
class Keys:
    """Rows of keys, with a bound for each side."""

    is_kept: bool = True
    state: Stored = field(factory=Stored)
    due: tuple[TimeIndex, TimeIndex] = field(init=False)

    @due.default
    def _empty(self) -> tuple[TimeIndex, TimeIndex]:
        return TimeIndex.stored(self.state, {}, 0), TimeIndex.stored(self.state, {}, 1)

    def touch(
        self, key: str, left: Sequence[int] = (), right: Sequence[int] = (), bound: int | None = None
    ) -> list[Any]:
        """Add rows of one key with these times, and return the times of what comes out."""
        rules = Watermark(delay=0, idle=None, max_ahead=0)
        side = JoinSide(schema=SCHEMA, keys=("n",), timestamp="at", rules=rules, is_kept=self.is_kept)
        limit = None if bound is None else bound * SECOND
        joined = JoinedKeys(
            state=self.state, within=10 * SECOND, sides=(side, side), due=self.due, bounds=(limit, limit)
        )
        self.state.read.clear()
        self.state.written.clear()
        found = joined.touch({key: ([_row(each) for each in left], [_row(each) for each in right])})
        return [tuple(None if row is None else row[0] for row in pair) for pair in found]

    def slots(self) -> list[int]:
        return sorted(slot for text, slot in self.state.values if text == '["a"]')


def _row(second: int) -> TimedRow:
    return TimedRow(
        second * SECOND, second * SECOND, "", "", (second, EPOCH + timedelta(seconds=second), [str(second), None])
    )


def test_a_key_without_new_pairs_and_without_rows_that_go_is_not_written_again() -> None:
    keys = Keys()
    assert keys.touch('["a"]', [1, 2]) == []
    assert keys.touch('["a"]', bound=5) == []
    assert keys.state.written == []


def test_a_key_is_put_among_the_due_ones_once_while_its_first_row_stays() -> None:
    keys = Keys()
    for second in range(5):
        keys.touch('["a"]', [second])
    keys.touch('["a"]', [-3])
    assert list(keys.due[0].take(100 * SECOND)) == [[(7 * SECOND, '["a"]'), (10 * SECOND, '["a"]')]]


@pytest.mark.parametrize("is_kept", [True, False])
def test_only_slots_near_a_new_row_are_read(is_kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_keys, "SEAL_BYTES", 0)
    keys = Keys(is_kept)
    for second in range(0, 100, 20):
        keys.touch('["a"]', [second])
    assert keys.slots() == [0, 1, 2, 3, 4, 5]
    assert keys.touch('["a"]', right=[45]) == [(40, 45)]
    assert [slot for text, slot in keys.state.read if text == '["a"]'] == [0, 3]


def test_a_slot_goes_when_all_of_its_rows_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_keys, "SEAL_BYTES", 0)
    keys = Keys()
    keys.touch('["a"]', [1, 5, 9])
    assert keys.touch('["a"]', bound=14) == [(1, None)]
    assert keys.slots() == [0, 1]
    assert keys.touch('["a"]', right=[15], bound=14) == [(5, 15), (9, 15)]
    assert keys.touch('["a"]', [16], bound=20) == [(16, 15)]
    assert keys.slots() == [0, 2, 3]
    assert keys.touch('["a"]', bound=27) == []
    assert keys.slots() == []


def test_rows_in_slots_that_never_come_out_alone_go_without_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_keys, "SEAL_BYTES", 0)
    keys = Keys(is_kept=False)
    keys.touch('["a"]', [1, 2])
    assert keys.touch('["a"]', bound=13) == []
    assert keys.state.read == [('["a"]', 0)]
    assert keys.state.values.keys().isdisjoint({('["a"]', 0), ('["a"]', 1)})
