"""The rows of windows, kept in a state: what is written, and that every value comes back."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.unit.trident_py.windows.driven import declared, driven
from trident_py.operations.builtin import Count, Sum
from trident_py.states.memory import MemoryMapState
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.windows import window_store
from trident_py.windows.window_store import LocalWindows
from trident_py.windows.windows import SlidingCount, TumblingCount

VALUES: Mapping[str, Sequence[Any]] = {
    "boolean": [True],
    "tinyint": [-128],
    "bigint": [2**62],
    "double": [0.1, float("inf")],
    "decimal(38,10)": [Decimal("1234567890123456789012345678.0123456789")],
    "string": ["wörd", ""],
    "binary": [b"\x00\n\xff"],
    "date": [date(1582, 10, 4)],
    "timestamp": [datetime(2026, 7, 1, 12, 30, 15, 123456, UTC)],
    "timestamp_ntz": [datetime(1969, 7, 20, 20, 17, 40)],  # noqa: DTZ001
    "array<int>": [[1, None], []],
    "map<string, int>": [{"a": 1, "b": None}],
    "struct<a: int, b: array<timestamp>>": [(1, [datetime(2026, 1, 1, tzinfo=UTC)])],
}


@pytest.mark.parametrize("kind", VALUES)
def test_values_of_every_type_come_back_as_they_were(kind: str, tmp_path: Path) -> None:
    with driven(declared(TumblingCount(4)), f"n {kind}", tmp_path) as driver:
        first, last = VALUES[kind][0], VALUES[kind][-1]
        assert driver.commit([(first,), (None,), (last,)]) == []
        assert driver.commit([(first,)]) == [(1, [(first,), (None,), (last,), (first,)])]
    with driven(declared(TumblingCount(3), keys=("key",)), f"key int, n {kind}", tmp_path, epoch=2) as driver:
        assert driver.commit([(1, first), (2, None), (1, last), (2, first)]) == []
        assert driver.commit([(2, last), (1, None)]) == [
            (2, 1, [(None,), (first,), (last,)]),
            (1, 1, [(first,), (last,), (None,)]),
        ]


def test_a_long_window_is_written_once_and_its_slots_are_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_store, "SEAL_BYTES", 100)
    with driven(declared(SlidingCount(1000, 50), Sum("n"), "sum"), "n bigint") as driver:
        sizes, sums = [], []
        for batch in range(100):
            sums += driver.commit([(30 * batch + n,) for n in range(30)])
            sizes.append(driver.size())
        assert sums == [(sum(range(max(0, end - 1000), end)),) for end in range(50, 3001, 50)]
        assert max(sizes) <= 1000 // 13 + 5
        assert sizes[-1] == max(sizes) == sizes[50]


def test_windows_that_fire_at_once_are_made_one_by_one() -> None:
    """Together they have 160 000 rows, of which there are eight hundred."""
    with driven(declared(SlidingCount(400, 1), Count(), "count"), "n bigint") as driver:
        driver.commit([(n,) for n in range(400)])
        tracemalloc.start()
        try:
            assert driver.commit([(n,) for n in range(400)]) == [(400,)] * 400
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 1 << 19


def test_what_waits_takes_no_more_room_than_its_rows() -> None:
    """Also where it is a part of a large batch."""
    with driven(declared(TumblingCount(2), keys=("key",), in_fields="word"), "key int, word string") as driver:
        driver.commit([(key, "w" * 100) for key in range(1000)])
        assert isinstance(driver.state, MemoryMapState)
        assert max(len(value) for *_, value in driver.state.get_tuples()) < 700


def test_each_name_has_a_table_of_its_own() -> None:
    names = ["words-window", "words.window", "Words-Window", "wörter", "x" * 200, "x" * 201]
    tables = {LocalWindows("t", name).table for name in names}
    assert len(tables) == len(names)
    for table in tables:
        assert SQLiteState("a.db", table=table).table.startswith("w_")
