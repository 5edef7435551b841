"""The aggregation by panes over rows in Python; tests/integration compares it with Spark's expressions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from trident_py.graph.aggregation import aggregate_call
from trident_py.graph.graph import RowFlow
from trident_py.graph.panes import PaneAggregation
from trident_py.operations.builtin import NativeAggregator, Sum
from trident_py.rows.moments import micros_of
from trident_py.rows.row import rows_of
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.windows.windows import PanedWindow, SessionWindow, TumblingDuration

SCHEMA = schema_of("batch bigint, device string, town string, n bigint, at timestamp")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ROWS = [
    (n % 2, "ab"[n % 3 > 0], None if n % 5 == 0 else "x", None if n % 4 == 0 else n, EPOCH + timedelta(seconds=n * 1.3))
    for n in range(-30, 30)
] + [(0, "a", "x", 1, None), (1, None, None, 2, None)]


def panes(window: PanedWindow, aggregator: NativeAggregator[Any]) -> PaneAggregation:
    return PaneAggregation(
        title="window",
        window=window,
        keys=("device",),
        by=("town", "device"),
        timestamp="at",
        call=aggregate_call(aggregator, "result", None),
        aggregator=aggregator,
    )


def of_rows(made: PaneAggregation) -> list[tuple[Any, ...]]:
    table = made.on_rows(RowFlow.of(arrow_table(ROWS, SCHEMA).to_batches(), SCHEMA), None).table()
    return listed([row for batch in table.to_batches() for row in rows_of(batch)])


def listed(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, rows), key=repr)


def test_a_pane_has_the_values_of_its_rows_and_their_greatest_time() -> None:
    made = of_rows(panes(TumblingDuration(7), Sum("n")))
    seven = timedelta(seconds=7)
    for device, town, pane, value, newest in made:
        inside = [row for row in ROWS if row[1:3] == (device, town) and begins(row[4], seven) == pane]
        assert (value, newest) == (
            sum(row[3] or 0 for row in inside),
            max((row[4] for row in inside if row[4]), default=None),
        )
    assert len(made) == len({(*row[1:3], begins(row[4], seven)) for row in ROWS})


def test_rows_of_a_session_are_combined_by_32nds_of_the_gap_with_their_first_and_last_times() -> None:
    made = of_rows(panes(SessionWindow(64), Sum("n")))
    two = timedelta(seconds=2)
    for device, town, pane, value, newest, oldest in made:
        inside = [row for row in ROWS if row[1:3] == (device, town) and begins(row[4], two) == pane]
        times = [row[4] for row in inside if row[4]]
        assert (value, newest) == (sum(row[3] or 0 for row in inside), max(times, default=None))
        assert oldest == min(times, default=None)
    assert any(newest != oldest for *_, newest, oldest in made)


def begins(at: datetime | None, length: timedelta) -> int | None:
    return None if at is None else micros_of(EPOCH + (at - EPOCH) // length * length)
