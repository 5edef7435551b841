"""Windows by event time over states, against a fold over the history of all rows, over crashes and replays."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.trident_py.windows.driven import Driver, declared, driven, fated
from tests.unit.trident_py.windows.event_model import Model, ModelRow, Outcome, Transaction, Window
from trident_py.graph.aggregation import AnyAggregator
from trident_py.graph.event_time import EventTimeArguments
from trident_py.graph.windowing import WindowState
from trident_py.interfaces.states import StateFactory
from trident_py.operations.builtin import Sum
from trident_py.states.memory import MemoryMapState
from trident_py.windows import bins, session_store
from trident_py.windows.windows import DurationWindow, SessionWindow, SlidingDuration, TumblingDuration

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
START = 1_800_000_000
SCHEMA = "word string, n int, at timestamp"


def at(seconds: float | None) -> datetime | None:
    return None if seconds is None else EPOCH + timedelta(seconds=START + seconds)


def micros(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def by_event_time(
    window: DurationWindow | SessionWindow,
    *,
    keys: tuple[str, ...] = (),
    watermark: float = 0,
    idle: float | None = None,
    by: str | None = None,
    max_ahead: float = 60,
    factory: StateFactory | None = None,
    aggregator: AnyAggregator | None = None,
) -> WindowState:
    given = EventTimeArguments(
        timestamp="at",
        watermark=timedelta(seconds=watermark),
        idle=None if idle is None else timedelta(seconds=idle),
        by=by,
        max_ahead=timedelta(seconds=max_ahead),
    )
    out = "total" if aggregator else "id bigint, rows array<string>"
    return declared(window, aggregator, out, keys=keys, event_time=given, factory=factory)


@define
class History:
    """The transactions of a driver, which it compares with the model."""

    driver: Driver
    transactions: list[Transaction] = field(factory=list)
    fired: list[Window] = field(factory=list)
    numbers: int = 0

    @property
    def model(self) -> Model:
        operation = self.driver.operation
        assert isinstance(operation, WindowState)
        assert operation.event_time is not None
        assert isinstance(operation.window, DurationWindow | SessionWindow)
        time = operation.event_time
        return Model(operation.window, time.rules, bool(time.by), bool(operation.keys))

    def rows(self, rows: Sequence[tuple[str, float | None]]) -> list[tuple[str, int, datetime | None]]:
        self.numbers += len(rows)
        return [(word, self.numbers - len(rows) + number, at(when)) for number, (word, when) in enumerate(rows)]

    def check(self, now: float, rows: Sequence[tuple[str, int, datetime | None]], emitted: Sequence[Any]) -> None:
        made = [ModelRow(word, number, None if when is None else micros(when)) for word, number, when in rows]
        self.transactions.append(Transaction(round(now * 1000) * 1000, made))
        outcome = self.outcome(emitted)
        self.fired += outcome.fired
        assert outcome == self.model.outcome(self.transactions)

    def outcome(self, emitted: Sequence[Any]) -> Outcome:
        refused = [(row[1], row[3]) for is_late, row in emitted if is_late]
        fired = []
        for *key, end, rows, start, stop in (row for is_late, row in emitted if not is_late):
            assert end == micros(stop)
            numbers = tuple(number for (number,) in rows)
            fired.append(Window(micros(start), end, key[0] if key else "", numbers))
        return Outcome(sorted(fired), refused)

    def check_whole(self) -> None:
        """All windows that have fired are those of a batch over all rows that were not refused."""
        model, bound = self.model, self.model.bound(self.transactions)
        answer = model.windows(model.accepted(self.transactions))
        assert sorted(self.fired) == sorted(each for each in answer if model.is_closed(each, bound))


rows_of_batch = st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.integers(-30, 80)), max_size=5)
batches = fated(rows_of_batch, 8)
kinds = st.sampled_from(
    [TumblingDuration(5), SlidingDuration(7, 2), SlidingDuration(6, 3), SessionWindow(4), SessionWindow(9)]
)
delays = st.sampled_from([0, 3, 10])


@pytest.mark.parametrize("keys", [(), ("word",)], ids=["whole", "grouped"])
@pytest.mark.parametrize("seal", [0, 10**6], ids=["sealed", "loose"])
@given(kinds, delays, st.sampled_from([None, 6]), st.sampled_from([None, "word"]), batches)
@settings(max_examples=60, deadline=None)
def test_windows_by_event_time_are_a_fold_over_all_rows_and_no_crash_changes_them(
    keys: tuple[str, ...],
    seal: int,
    window: DurationWindow | SessionWindow,
    delay: float,
    idle: float | None,
    by: str | None,
    batches: list[Any],
) -> None:
    """Attempts are given up in mid-commit, or replayed after it with other rows; the process comes and goes."""
    operation = by_event_time(window, keys=keys, watermark=delay, idle=idle, by=by)
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(bins, "SEAL_BYTES", seal)
        patch.setattr(session_store, "SEAL_BYTES", seal)
        with driven(operation, SCHEMA, Path(directory)) as driver:
            history = History(driver)
            driver.now = START
            for given_rows, fate, others, later in batches:
                driver.now += later
                rows, other_rows = history.rows(given_rows), history.rows(others)
                for (now, emitted), given in zip(driver.meet(fate, rows, other_rows), (rows, other_rows), strict=False):
                    history.check(now, given, emitted)
            history.check_whole()


@pytest.mark.parametrize("keys", [(), ("word",)], ids=["whole", "grouped"])
@pytest.mark.parametrize("seal", [0, 10**6], ids=["sealed", "loose"])
@given(kinds, delays, st.sampled_from([None, 6]), st.sampled_from([None, "word"]), batches)
@settings(max_examples=30, deadline=None)
def test_partial_values_give_what_the_rows_give_also_if_tasks_make_them(
    keys: tuple[str, ...],
    seal: int,
    window: DurationWindow | SessionWindow,
    delay: float,
    idle: float | None,
    by: str | None,
    batches: list[Any],
) -> None:
    facts: dict[str, Any] = {"keys": keys, "watermark": delay, "idle": idle, "by": by, "max_ahead": 1000}
    by_rows, summed = (by_event_time(window, **facts, aggregator=each) for each in (None, Sum("n")))
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setattr(bins, "SEAL_BYTES", seal)
        drivers = []
        for operation in (by_rows, summed, summed.settled([])):
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            drivers.append(stack.enter_context(driven(operation, SCHEMA, directory)))
        history, now = History(drivers[0]), START
        for given_rows, fate, others, later in batches:
            now += later
            rows, other_rows = history.rows(given_rows), history.rows(others)
            whole, *partial = (list(_fired(each, now, fate, rows, other_rows)) for each in drivers)
            for fired in partial:
                assert fired == [(*row[:-4], sum(n for (n,) in row[-3]), *row[-2:]) for row in whole]


def _fired(driver: Driver, now: float, fate: str, rows: Sequence[Any], others: Sequence[Any]) -> Iterator[Any]:
    """Yield the windows that fire, in the order of their ends and keys."""
    driver.now = now
    emitted = [each for _, one in driver.meet(fate, rows, others) for each in one]
    yield from sorted((row for is_late, row in emitted if not is_late), key=lambda row: (row[-1], row[0]))


def test_a_pane_is_too_far_ahead_if_it_begins_there_and_moves_the_watermark_no_further() -> None:
    summed = by_event_time(TumblingDuration(10), aggregator=Sum("n"), max_ahead=60)
    for operation in (summed, summed.settled([])):
        with driven(operation, SCHEMA) as driver:
            driver.now = START
            emitted = driver.commit([("a", 1, at(5)), ("a", 2, at(59)), ("a", 4, at(69)), ("a", 8, at(70))])
            assert [is_late for is_late, _ in emitted] == [True, False, False]
            assert driver.operation.updater(driver.source).watermarks(driver.state) == {"watermark": START + 60}


def test_the_state_of_partial_values_is_as_large_as_the_keys_that_are_open() -> None:
    with driven(by_event_time(TumblingDuration(10**6), aggregator=Sum("n"), keys=("word",)), SCHEMA) as driver:
        driver.now = START
        rows = [(word, 1, at(1)) for word in "abc"]
        sizes = []
        for _ in range(50):
            driver.commit(rows)
            assert isinstance(driver.state, MemoryMapState)
            sizes.append([len(value) for value in driver.state.values().values()])
        assert sizes[-1] == sizes[1]


@given(kinds, st.sampled_from([2, 6]), batches)
@settings(max_examples=100, deadline=None)
def test_it_tells_the_first_moment_at_which_a_window_fires_without_more_rows(
    window: DurationWindow | SessionWindow, idle: float, batches: list[Any]
) -> None:
    with driven(by_event_time(window, idle=idle, by="word"), SCHEMA) as driver:
        history = History(driver)
        driver.now = START
        for rows, _, _, later in batches:
            driver.now += later
            driver.commit(history.rows(rows))
        updater = driver.operation.updater(driver.source)
        for _ in range(100):
            due = updater.next_window_at(driver.state)
            last, driver.now = driver.now, max(driver.now, (due or 0) / 1000 - 0.001)
            if driver.now > last:
                assert not driver.commit([])
            if due is None:
                break
            driver.now = max(driver.now, due / 1000)
            driver.commit([])
        assert updater.next_window_at(driver.state) is None
        driver.now += 1000
        assert driver.commit([]) == []


# --- Storm's WindowManagerTest, with windows of length 20 and slide 10 ------------------------------------------------

FIRST = [(1, 603), (2, 605), (3, 607), (4, 618), (5, 626)]

STORM: dict[str, tuple[int, list[tuple[list[tuple[int, int]], list[list[int]]]]]] = {
    "testEventTimeBasedWindow": (
        5,
        [
            (FIRST[:3], []),
            ([*FIRST[3:], (6, 636)], [[1, 2, 3], [1, 2, 3, 4], [4, 5]]),
            ([(7, 825), (8, 826), (9, 827), (10, 839)], [[5, 6], [6], [7, 8, 9]]),
        ],
    ),
    "testEventTimeLag": (
        5,
        [([*FIRST, (6, 632), (7, 629), (8, 636)], [[1, 2, 3], [1, 2, 3, 4], [4, 5, 7]])],
    ),
    "testScanStop": (
        8,
        [([*FIRST, (6, 629), (7, 636), (8, 637), (9, 638), (10, 639)], [[1, 2, 3], [1, 2, 3, 4], [4, 5, 6]])],
    ),
}
"""By test: how far its watermarks are before the newest row, then rows with their times, and the windows that fire."""


@pytest.mark.parametrize("name", STORM)
def test_storm_window_manager_test_by_event_time(name: str) -> None:
    watermark, batches = STORM[name]
    with driven(by_event_time(SlidingDuration(20, 10), watermark=watermark), SCHEMA) as driver:
        driver.now = START + 900
        for rows, expected in batches:
            emitted = driver.commit([("a", number, at(second)) for number, second in rows])
            assert [[number for (number,) in row[1]] for _, row in emitted] == expected


# --- what is kept -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [TumblingDuration(10), SlidingDuration(20, 5)])
def test_the_state_stays_as_large_as_the_windows_that_are_open(
    window: DurationWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bins, "SEAL_BYTES", 300)
    with driven(by_event_time(window, keys=("word",), watermark=3), SCHEMA) as driver:
        sizes = []
        for second in range(400):
            driver.now = START + second
            driver.commit([(f"user {second}", second, at(second)), ("late", second, at(second - 20))])
            sizes.append(driver.size())
        assert max(sizes[200:]) == max(sizes[100:200]) < 20


def test_one_row_of_the_year_9999_moves_nothing() -> None:
    with driven(by_event_time(TumblingDuration(10)), SCHEMA) as driver:
        driver.now = START + 5
        far = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
        assert driver.commit([("a", 1, at(1)), ("a", 2, far)]) == [(True, ("a", 2, far, "too far ahead", None))]
        assert driver.commit([("a", 3, at(2))]) == []
        assert driver.size() == 2


def test_rows_of_the_first_year_are_in_a_window_that_has_bounds() -> None:
    with driven(by_event_time(SlidingDuration(10**9, 10**9)), SCHEMA) as driver:
        driver.now = START
        driver.commit([("a", 1, datetime(1, 1, 1, tzinfo=UTC))])
        ((is_late, row),) = driver.commit([("a", 2, at(0))])
        assert not is_late
        assert row[1:3] == ([(1,)], datetime(1, 1, 1, tzinfo=UTC))


def test_a_row_that_is_late_says_by_which_watermark() -> None:
    with driven(by_event_time(TumblingDuration(10), watermark=4), SCHEMA) as driver:
        driver.now = START + 30
        driver.commit([("a", 1, at(25))])
        late = driver.commit([("a", 2, at(19)), ("a", 3, at(20)), ("a", 4, None)])
        assert late == [
            (True, ("a", 2, at(19), "late", at(21))),
            (True, ("a", 4, None, "no timestamp", at(21))),
        ]
