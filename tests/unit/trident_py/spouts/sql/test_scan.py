"""Which rows of a table are new: each counts once, however late within the lookback its transaction commits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinators.values.canonical import json_copy
from trident_py.errors import SpoutError
from trident_py.spouts.sql import scan as scanning
from trident_py.spouts.sql.scan import Cursor, IdCursor, Position, Scan, TimeCursor

START = datetime(2026, 11, 28, tzinfo=UTC)


def read(table: list[Any], cursor: Cursor, stored: Any, most: int) -> tuple[list[Any], Any]:
    """One batch, as a SELECT in the order of the cursor gives it."""
    scan = Scan(cursor, Position.of(stored, cursor), most)
    there = [row for row in table if scan.begin is None or row[cursor.place] > scan.begin]
    new = list(scan.new_rows(sorted(there, key=lambda row: row[cursor.place])))
    return new, None if scan.end.upto is None else json_copy(scan.end.stored(cursor))


def read_all(table: list[Any], cursor: Cursor, stored: Any, most: int) -> tuple[list[Any], Any]:
    found: list[Any] = []
    while True:
        new, stored = read(table, cursor, stored, most)
        if not new:
            return found, stored
        found += new


@given(
    late=st.lists(st.integers(0, 5), min_size=1, max_size=40), most=st.integers(1, 7), looks=st.sets(st.integers(0, 45))
)
def test_ids_that_are_visible_after_later_ones_are_read_once(late: list[int], most: int, looks: set[int]) -> None:
    """Row n becomes visible ``late[n]`` moments after n; some moments, and the last, have a look."""
    cursor, stored, found = IdCursor(0, 6), None, list[Any]()
    for moment in range(len(late) + 6):
        visible = [(n, f"row {n}") for n, delay in enumerate(late) if n + delay <= moment]
        if moment in looks or moment == len(late) + 5:
            new, stored = read_all(visible, cursor, stored, most)
            found += new
    assert sorted(found) == [(n, f"row {n}") for n in range(len(late))]


def test_rows_that_were_seen_after_the_end_of_a_batch_stay_seen() -> None:
    cursor, late = IdCursor(0, 6), [(0,), (1,)]
    _, stored = read([(2,), (3,)], cursor, None, 9)
    found, stored = read([*late, (2,), (3,)], cursor, stored, 1)
    assert (found, read([*late, (2,), (3,)], cursor, stored, 9)[0]) == ([(0,)], [(1,)])


@given(
    changes=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=30), most=st.integers(1, 5)
)
def test_each_version_of_a_row_that_is_there_at_a_look_is_read_once(changes: list[tuple[int, int]], most: int) -> None:
    """Keys change at rising times, some at the same time; after each change there is a look."""
    cursor, stored, table, found = TimeCursor(1, timedelta(seconds=10)), None, dict[int, Any](), list[Any]()
    second, wanted = 0, list[Any]()
    for number, (key, pause) in enumerate(changes):
        second += pause
        table[key] = (key, START + timedelta(seconds=second), number)
        wanted.append(table[key])
        new, stored = read_all(list(table.values()), cursor, stored, most)
        found += new
    assert sorted(found, key=lambda row: row[2]) == wanted


def test_rows_of_one_time_stay_together_and_equal_rows_count_as_often_as_they_are_there() -> None:
    cursor, twin = TimeCursor(0, timedelta(0)), (START, "twin")
    table = [twin, twin, (START, "third"), (START + timedelta(1), "later")]
    new, stored = read(table, cursor, None, 1)
    assert new == table[:3]
    assert read(table, cursor, stored, 1)[0] == table[3:]
    near = TimeCursor(0, timedelta(days=2))
    _, stored = read(table, near, None, 9)
    assert read([*table, twin], near, stored, 9)[0] == [twin]


def test_texts_of_times_are_cursors_too() -> None:
    cursor = TimeCursor(0, timedelta(minutes=1), str)
    table = [("2026-11-28 12:00:00", 1), ("2026-11-28 12:00:30", 2)]
    new, stored = read(table, cursor, None, 9)
    assert (new, stored["upto"]) == (table, "2026-11-28 12:00:30")
    late = ("2026-11-28 11:59:59.5", 3)
    assert read([*table, late], cursor, stored, 9)[0] == [late]
    assert read([*table, ("2026-11-28 11:59:29", 4)], cursor, stored, 9)[0] == []
    with pytest.raises(SpoutError, match="the text 'soon', which is no time"):
        read([("soon", 1)], cursor, None, 9)


def test_more_rows_within_the_lookback_than_a_position_names_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "SEEN_MAX", 3)
    table = [(n,) for n in range(5)]
    assert len(read(table, IdCursor(0, 3), None, 9)[0]) == 5
    with pytest.raises(SpoutError, match=r"4 rows are within the lookback.*a shorter lookback"):
        read(table, IdCursor(0, 4), None, 9)


def test_a_table_without_new_rows_keeps_its_position() -> None:
    cursor = IdCursor(0, 2)
    assert read([], cursor, None, 9) == ([], None)
    _, stored = read([(7,)], cursor, None, 9)
    assert read([(7,)], cursor, stored, 9) == ([], stored)
    assert Position.of(stored, cursor) == Position(7, {7: 1})
    assert read([], cursor, stored, 9)[1]["upto"] == 7
