"""Event time in the stores of servers: windows, joins and functions are folds over all rows, over crashes, replays."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.trident_py.graph import keyed_model, test_keyed_updater
from tests.unit.trident_py.graph.keyed_model import Script
from tests.unit.trident_py.graph.test_keyed_updater import keyed
from tests.unit.trident_py.windows import test_join_store as joins
from tests.unit.trident_py.windows.driven import TOPOLOGY, driven
from tests.unit.trident_py.windows.test_event_store import SCHEMA, START, History, by_event_time
from trident_py import MySQLState, PostgresState, RedisState, StateFactory
from trident_py.windows import SessionWindow, SlidingDuration

STORES: dict[str, Callable[[str], StateFactory]] = {
    "postgres": lambda place: PostgresState(place, table="w"),
    "mysql": lambda place: MySQLState(place, table="w"),
    "redis": lambda place: RedisState(place, prefix="w"),
}


pytestmark = pytest.mark.slow


@pytest.mark.parametrize("window", [SlidingDuration(6, 3), SessionWindow(1.5)], ids=["sliding", "sessions"])
@pytest.mark.parametrize("name", [pytest.param(name, marks=getattr(pytest.mark, name)) for name in STORES])
def test_windows_by_event_time_are_the_same_in_every_store(
    name: str, window: Any, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    factory = STORES[name](request.getfixturevalue(name))
    operation = by_event_time(window, keys=("word",), watermark=2, factory=factory)
    with driven(operation, SCHEMA, tmp_path) as driver:
        history = History(driver)
        for second in range(0, 60, 2):
            driver.now = START + second
            words = [("a", second), ("b", second + 1 if second % 8 else second - 20), ("c", 2 * (second // 10))]
            rows, other = history.rows(words), history.rows([("a", second + 30)])
            again = second % 3 == 0
            if again:
                driver.commit(other)
            if second % 9 == 0:
                driver.epoch += 1
                driver.state.close()
                driver.state.recover(TOPOLOGY, driver.epoch)
            history.check(driver.now, rows, driver.commit(rows, attempt=1, again=again))
        history.check_whole()
        assert len(history.fired) > 20


@pytest.mark.parametrize("watermark", [None, 2], ids=["transactions", "events"])
@pytest.mark.parametrize("name", [pytest.param(name, marks=getattr(pytest.mark, name)) for name in STORES])
def test_functions_with_timers_are_the_same_in_every_store(
    name: str, watermark: float | None, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    operation = keyed(Script(), watermark=watermark, factory=STORES[name](request.getfixturevalue(name)))
    dice = random.Random(40)
    with driven(operation, keyed_model.SCHEMA, tmp_path) as driver:
        history = test_keyed_updater.History(driver)
        for second in range(0, 40, 2):
            driver.now = START + second
            given, other = (
                test_keyed_updater.rows_of(
                    (dice.choice("abc"), dice.randrange(7), dice.randrange(10), second - dice.randrange(6))
                    for _ in range(3)
                )
                for _ in range(2)
            )
            again = second % 3 == 0
            if again:
                driver.commit(other)
            if second % 9 == 0:
                driver.epoch += 1
                driver.state.close()
                driver.state.recover(TOPOLOGY, driver.epoch)
            history.check(driver.now, given, driver.commit(given, attempt=1, again=again))
        assert len([row for row in history.results if row[1] == "timer"]) > 5


@pytest.mark.parametrize("name", [pytest.param(name, marks=getattr(pytest.mark, name)) for name in STORES])
def test_joins_over_time_are_the_same_in_every_store(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    factory = STORES[name](request.getfixturevalue(name))
    operation = joins.joined("outer", 6, watermark=(2, 4), factory=factory)
    with joins.small_bins(600, 3), driven(operation, joins.SOURCE, tmp_path) as driver:
        history = joins.History(driver)
        for second in range(0, 60, 2):
            driver.now = START + second
            lefts = [(0, "a", second), (0, f"user {second}", second), (0, None, second)]
            rights = [(1, "a", second + 1 if second % 8 else second - 20), (1, f"user {second - 4}", second)]
            rows, other = history.rows([*lefts, *rights]), history.rows([(0, "a", second + 30)])
            again = second % 3 == 0
            if again:
                driver.commit(joins.given_rows(other))
            if second % 9 == 0:
                driver.epoch += 1
                driver.state.close()
                driver.state.recover(TOPOLOGY, driver.epoch)
            history.check(driver.now, rows, driver.commit(joins.given_rows(rows), attempt=1, again=again))
