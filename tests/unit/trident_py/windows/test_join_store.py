"""Joins over time over states, against a fold over the history of all rows, over crashes and replays."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.trident_py.windows.driven import Driver, driven, fated
from tests.unit.trident_py.windows.join_model import NONE, JoinModel, Outcome, SideRow, Transaction
from trident_py.graph.joining import join_of
from trident_py.graph.time_join import JoinState, JoinTimeArguments, Sides, join_state
from trident_py.interfaces.states import StateFactory
from trident_py.rows.row import row_class
from trident_py.rows.schema import schema_of
from trident_py.windows import join_keys, time_index
from trident_py.windows.window_store import LocalWindows

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
START = 1_800_000_000
LEFT = schema_of("word string, n int, at timestamp")
RIGHT = schema_of("at timestamp, m int, word string")
SOURCE = Sides("sides").output([LEFT, RIGHT])


def at(seconds: float | None) -> datetime | None:
    return None if seconds is None else EPOCH + timedelta(seconds=START + seconds)


def micros(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - EPOCH) // timedelta(microseconds=1)


def joined(
    how: str = "inner",
    within: float = 5,
    *,
    watermark: tuple[float, float] = (0, 0),
    idle: float | None = None,
    by: str | None = None,
    factory: StateFactory | None = None,
) -> JoinState:
    times = JoinTimeArguments(
        within=timedelta(seconds=within),
        timestamps=("at", "at"),
        watermark=tuple(timedelta(seconds=each) for each in watermark),
        idle=None if idle is None else timedelta(seconds=idle),
        by=by,
        max_ahead=timedelta(seconds=60),
    ).checked()
    assert times is not None
    join = join_of("join", "word", "word", ["word", "n", "left_at", "right_at", "m"], how, preserve=False)
    return join_state(join, "some", factory or LocalWindows("joins", "some"), times)


@define
class History:
    """The transactions of a driver, which it compares with the model."""

    driver: Driver
    transactions: list[Transaction] = field(factory=list)
    numbers: int = 0

    @property
    def model(self) -> JoinModel:
        operation = self.driver.operation
        assert isinstance(operation, JoinState)
        left, right = operation.join_of(SOURCE).sides
        return JoinModel(
            operation.within, (left.rules, right.rules), (left.is_kept, right.is_kept), bool(operation.times[0].by)
        )

    def rows(self, rows: Sequence[tuple[int, str | None, float | None]]) -> list[SideRow]:
        """Rows as the stream gives them: those of the left side come first."""
        self.numbers += len(rows)
        first = self.numbers - len(rows)
        made = [SideRow(side, key, first + number, micros(at(when))) for number, (side, key, when) in enumerate(rows)]
        return sorted(made, key=lambda row: row.side)

    def check(self, now: float, rows: Sequence[SideRow], emitted: Sequence[Any]) -> None:
        self.transactions.append(Transaction(round(now * 1000) * 1000, rows))
        assert outcome(emitted) == self.model.outcome(self.transactions)


LEFT_ROW, RIGHT_ROW = (row_class(tuple(each.names))._make for each in (LEFT, RIGHT))


def given_rows(rows: Sequence[SideRow]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for row in rows:
        when = None if row.at is None else EPOCH + timedelta(microseconds=row.at)
        values = RIGHT_ROW((when, row.number, row.key)) if row.side else LEFT_ROW((row.key, row.number, when))
        found.append((True, None, values) if row.side else (False, values, None))
    return found


def outcome(emitted: Sequence[Any]) -> Outcome:
    joined = [(NONE if n is None else n, NONE if m is None else m) for late, (_, n, _, _, m, *_) in emitted if not late]
    refused = [(row[4] if row[1] is None else row[1], row[6]) for late, row in emitted if late]
    return Outcome(sorted(joined), sorted(refused))


@contextmanager
def small_bins(seal: int, many: int) -> Iterator[None]:
    """Seal rows from so many bytes on, and divide bins from so many keys on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trident_py.windows.bins.SEAL_BYTES", seal)
        patch.setattr(join_keys, "SEAL_BYTES", seal)
        patch.setattr(time_index, "_FEW_ROWS", many)
        yield


hows = st.sampled_from(["inner", "left", "outer"])
times = st.integers(0, 20) | st.sampled_from([None, -30, 40, 80])
rows_of_batch = st.lists(st.tuples(st.integers(0, 1), st.sampled_from(["a", "a", "b", None]), times), max_size=6)
batches = fated(rows_of_batch, 8)
delays = st.tuples(st.sampled_from([0, 3, 20]), st.sampled_from([0, 7]))


@pytest.mark.parametrize(("seal", "many"), [(0, 0), (10**6, 1000)], ids=["sealed", "loose"])
@given(hows, st.sampled_from([0, 2, 15]), delays, st.sampled_from([None, 6]), st.sampled_from([None, "word"]), batches)
@settings(max_examples=150, deadline=None)
def test_a_join_over_time_is_a_fold_over_all_rows_and_no_crash_changes_it(
    seal: int,
    many: int,
    how: str,
    within: float,
    watermark: tuple[float, float],
    idle: float | None,
    by: str | None,
    batches: list[Any],
) -> None:
    """Attempts are given up in mid-commit, or replayed after it with other rows; the process comes and goes."""
    operation = joined(how, within, watermark=watermark, idle=idle, by=by)
    with (
        tempfile.TemporaryDirectory() as directory,
        small_bins(seal, many),
        driven(operation, SOURCE, Path(directory)) as driver,
    ):
        run(driver, History(driver), batches)


def run(driver: Driver, history: History, batches: list[Any]) -> None:
    driver.now = START
    for some, fate, others, later in batches:
        driver.now += later
        both = history.rows(some), history.rows(others)
        for (now, emitted), rows in zip(driver.meet(fate, *map(given_rows, both)), both, strict=False):
            history.check(now, rows, emitted)


@given(hows, st.sampled_from([0, 10]), batches)
@settings(max_examples=60, deadline=None)
def test_a_replay_gives_the_same_rows_in_the_same_order(how: str, within: float, batches: list[Any]) -> None:
    operation = joined(how, within, watermark=(5, 5))
    with driven(operation, SOURCE) as driver, driven(operation, SOURCE) as other:
        history = History(driver)
        for each in (driver, other):
            each.now = START
        for rows, _, _, later in batches:
            driver.now = other.now = driver.now + later
            given = given_rows(history.rows(rows))
            first = driver.commit(given)
            assert driver.commit(given, attempt=1, again=True) == first
            assert other.commit(given) == first


@given(st.sampled_from(["left", "outer"]), st.sampled_from([2, 6]), batches)
@settings(max_examples=100, deadline=None)
def test_no_row_comes_out_before_the_moment_that_it_tells_and_all_come_out_then(
    how: str, idle: float, batches: list[Any]
) -> None:
    with driven(joined(how, idle=idle, by="word"), SOURCE) as driver:
        history = History(driver)
        driver.now = START
        for rows, _, _, later in batches:
            driver.now += later
            driver.commit(given_rows(history.rows(rows)))
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


# --- what is kept -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_the_state_stays_as_large_as_the_rows_that_may_match(how: str) -> None:
    with driven(joined(how, 10, watermark=(3, 3)), SOURCE) as driver, small_bins(300, 5):
        history, sizes = History(driver), []
        for second in range(400):
            driver.now = START + second
            some = [(0, f"user {second}", second), (1, f"user {second - 4}", second), (0, "often", second - 1)]
            driver.commit(given_rows(history.rows(some)))
            sizes.append(driver.size())
        assert max(sizes[200:]) == max(sizes[100:200]) < 80


def test_when_both_sides_have_passed_nothing_but_the_head_is_left() -> None:
    with driven(joined("outer", 10), SOURCE) as driver, small_bins(0, 3):
        history = History(driver)
        driver.now = START
        for number in range(50):
            some = [(number % 2, f"user {number % 7}", number % 11 * 3 + 40), (1, "hot", number)]
            driver.commit(given_rows(history.rows(some)))
        driver.now = START + 1000
        driver.commit(given_rows(history.rows([(side, "z", 500.0) for side in (0, 1)])))
        driver.commit(given_rows(history.rows([(side, None, 900.0) for side in (0, 1)])))
        assert driver.size() == 1


# --- single cases -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seal", [0, 10**6], ids=["sealed", "loose"])
def test_a_row_that_has_found_a_partner_earlier_does_not_come_out_alone(seal: int) -> None:
    with driven(joined("outer", 10), SOURCE) as driver, small_bins(seal, 1000):
        history, driver.now = History(driver), START
        for second, some in ((1, [(0, "a", 1.0), (0, "a", 2.0)]), (2, [(1, "a", 12.0)]), (3, [(1, "a", 60.0)])):
            driver.now = START + second
            rows = history.rows(some)
            history.check(driver.now, rows, driver.commit(given_rows(rows)))


def test_rows_with_a_null_in_their_keys_match_nothing_and_come_out_at_once() -> None:
    with driven(joined("left"), SOURCE) as driver:
        history, driver.now = History(driver), START
        rows = history.rows([(0, None, 1.0), (1, None, 1.0)])
        assert outcome(driver.commit(given_rows(rows))) == Outcome([(0, NONE)], [])
        assert driver.size() == 1


def test_a_late_row_says_which_side_it_comes_from_and_by_which_watermark() -> None:
    with driven(joined(watermark=(3, 10)), SOURCE) as driver:
        history, driver.now = History(driver), START
        driver.commit(given_rows(history.rows([(0, "a", 50.0), (1, "a", 40.0)])))
        rows = history.rows([(0, "b", 46.0), (0, "b", 47.0), (1, "b", 29.0), (1, "b", 30.0), (1, "b", None)])
        late = [row for is_late, row in driver.commit(given_rows(rows)) if is_late]
        assert late == [
            ("b", 2, at(46), None, None, "left", "late", at(47)),
            ("b", None, None, at(29), 4, "right", "late", at(30)),
            ("b", None, None, None, 6, "right", "no timestamp", at(30)),
        ]


def test_one_row_of_the_year_9999_moves_nothing() -> None:
    with driven(joined("outer"), SOURCE) as driver:
        driver.now = START + 5
        far = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
        emitted = driver.commit([(True, None, RIGHT_ROW((far, 1, "a"))), (False, LEFT_ROW(("a", 2, at(1))), None)])
        assert emitted == [(True, ("a", None, None, far, 1, "right", "too far ahead", None))]
        assert driver.commit([(True, None, RIGHT_ROW((at(1), 3, "a")))]) == [(False, ("a", 2, at(1), at(1), 3))]


def test_a_side_that_is_far_behind_keeps_the_head_small() -> None:
    """Rows of one side wait for years of the other: bins become longer."""
    with driven(joined(within=1), SOURCE) as driver:
        history, driver.now = History(driver), START + 10**8
        driver.commit(given_rows(history.rows([(1, "a", 0.0)])))
        for number in range(20):
            users = range(100 * number, 100 * number + 100)
            driver.commit(given_rows(history.rows([(0, f"user {each}", each * 50_000.0) for each in users])))
        assert driver.size() < 2000 + 500
        driver.commit(given_rows(history.rows([(1, "b", 10.0**8)])))
        driver.commit(given_rows(history.rows([(0, "b", 10.0**8)])))
        assert driver.size() == 1 + 1 + 2  # the head, the key, and a bin of each side
