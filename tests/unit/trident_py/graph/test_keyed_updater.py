"""Functions with timers over states, against a fold over the history of all rows, over crashes and replays."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.trident_py.graph.keyed_model import SCHEMA, Fold, Given, Script
from tests.unit.trident_py.windows.driven import Driver, driven, fated
from tests.unit.trident_py.windows.test_event_store import START, at
from trident_py.graph import keyed_updater
from trident_py.graph.event_time import EventTimeArguments
from trident_py.graph.keyed import KeyedState, keyed_state
from trident_py.interfaces.keyed import KeyedFunction
from trident_py.interfaces.states import StateFactory
from trident_py.windows import bins
from trident_py.windows.window_store import LocalWindows


def keyed(
    function: KeyedFunction,
    *,
    watermark: float | None = None,
    idle: float | None = None,
    by: str | None = None,
    factory: StateFactory | None = None,
) -> KeyedState:
    """The state of a function; with a delay of the watermark by the field ``at``, else by transactions."""
    given = EventTimeArguments()
    if watermark is not None:
        given = EventTimeArguments(
            timestamp="at",
            watermark=timedelta(seconds=watermark),
            idle=None if idle is None else timedelta(seconds=idle),
            by=by,
            max_ahead=timedelta(seconds=60),
        )
    return keyed_state("process", "some", factory or LocalWindows("keyed", "some"), function, ("word",), given)


@define
class History:
    """The transactions of a driver, which it compares with the fold."""

    driver: Driver
    transactions: list[Given] = field(factory=list)
    results: list[Any] = field(factory=list)

    def check(self, now: float, rows: Sequence[Any], emitted: Sequence[Any]) -> None:
        operation = self.driver.operation
        assert isinstance(operation, KeyedState)
        self.transactions.append(Given(round(now * 1000) * 1000, rows))
        results, late = Fold(operation).outcome(self.transactions)
        if operation.event_time is None:
            assert list(emitted) == results
        else:
            assert [row for is_late, row in emitted if not is_late] == results
            assert [row[:-1] for is_late, row in emitted if is_late] == late
        self.results += results


def rows_of(rows: Iterable[Any]) -> list[Any]:
    return [(word, act, more, at(when)) for word, act, more, when in rows]


rows_of_batch = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 6), st.integers(0, 9), st.none() | st.integers(-20, 70)),
    max_size=6,
)
batches = fated(rows_of_batch, 8)
events: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "watermark": st.sampled_from([0, 3, 10]),
        "idle": st.sampled_from([None, 6]),
        "by": st.sampled_from([None, "word"]),
    }
)
times: st.SearchStrategy[dict[str, Any]] = st.just({}) | events


@pytest.mark.parametrize("seal", [0, 10**6], ids=["sealed", "loose"])
@pytest.mark.parametrize("portion", [1, 1024])
@given(times, batches)
@settings(max_examples=60, deadline=None)
def test_a_function_is_a_fold_over_all_rows_and_no_crash_changes_it(
    portion: int, seal: int, time: dict[str, Any], batches: list[Any]
) -> None:
    """Attempts are given up in mid-commit, or replayed after it with other rows; the process comes and goes."""
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(bins, "SEAL_BYTES", seal)
        patch.setattr(keyed_updater, "PORTION_KEYS", portion)
        with driven(keyed(Script(), **time), SCHEMA, Path(directory)) as driver:
            history = History(driver)
            driver.now = START
            for given_rows, fate, others, later in batches:
                driver.now += later
                both = rows_of(given_rows), rows_of(others)
                for (now, emitted), rows in zip(driver.meet(fate, *both), both, strict=False):
                    history.check(now, rows, emitted)


@given(st.just({}) | st.just({"watermark": 2, "idle": 6, "by": "word"}), batches)
@settings(max_examples=100, deadline=None)
def test_it_tells_a_moment_before_which_no_timer_fires_without_more_rows(
    time: dict[str, Any], batches: list[Any]
) -> None:
    with driven(keyed(Script(), **time), SCHEMA) as driver:
        history = History(driver)
        driver.now = START
        for rows, _, _, later in batches:
            driver.now += later
            given = rows_of(rows)
            history.check(driver.now, given, driver.commit(given))
        updater = driver.operation.updater(driver.source)
        while (due := updater.next_window_at(driver.state)) is not None:
            assert due > driver.now * 1000
            driver.now = due / 1000 - 0.001
            assert driver.commit([]) == []
            driver.now = due / 1000
            driver.commit([])
        driver.now += 100_000
        assert driver.commit([]) == []
