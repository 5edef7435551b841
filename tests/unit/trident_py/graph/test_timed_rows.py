"""Rows with their times: as columns, they move the watermark as they do one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.trident_py.windows.test_event_store import at, by_event_time, micros
from trident_py.graph.graph import RowFlow
from trident_py.graph.window_updaters import EventUpdater
from trident_py.graph.windowing import WindowState
from trident_py.operations.builtin import Sum
from trident_py.rows.row import rows_of
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.windows.event_store import judge
from trident_py.windows.watermark import WatermarkProgress
from trident_py.windows.windows import SessionWindow, SlidingDuration

SOURCE = schema_of("word string, n int, at timestamp")
WINDOWS = [SlidingDuration(5, 2), SessionWindow(3)]


def state(window: Any, kind: str, by: str | None) -> WindowState:
    made = by_event_time(window, keys=("word",), by=by, max_ahead=10, aggregator=None if kind == "whole" else Sum("n"))
    return made.settled([]) if kind == "panes" else made


@pytest.mark.parametrize("kind", ["whole", "values", "panes"])
@given(
    st.sampled_from(WINDOWS),
    st.sampled_from([None, "word"]),
    st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 3), st.none() | st.integers(-20, 40))),
)
@settings(max_examples=60, deadline=None)
def test_rows_in_columns_move_the_watermark_as_one_by_one(
    kind: str, window: Any, by: str | None, rows: Sequence[tuple[Any, int, int | None]]
) -> None:
    operation = state(window, kind, by)
    given_rows = arrow_table([(word, n, at(when)) for word, n, when in rows], SOURCE).to_batches()
    table = operation.on_rows([RowFlow.of(given_rows, SOURCE, travels=False)], None).table()
    updater, start = operation.updater(SOURCE), at(0)
    assert isinstance(updater, EventUpdater)
    assert start is not None
    now = micros(start) + 1
    timed, rules = updater.timed(rows_of(table)), updater.rows.rules
    moved = updater.timed.newest(table, rules, now)
    one_by_one, in_columns = (judge(rules, WatermarkProgress(), timed, now, None, newest) for newest in (None, moved))
    assert one_by_one == in_columns
