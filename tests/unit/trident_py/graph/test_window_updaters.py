"""What updaters of windows emit: the results by key, with bounds; and times as datetimes and milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.unit.trident_py.windows.driven import All, declared, driven
from tests.unit.trident_py.windows.test_event_store import SCHEMA, START, at, by_event_time
from trident_py.graph.event_time import EventTimeArguments
from trident_py.rows.moments import in_millis, moment
from trident_py.windows.windows import SlidingDuration, TumblingDuration


def test_keys_are_in_the_order_of_their_first_rows_in_time() -> None:
    with driven(by_event_time(SlidingDuration(20, 10), keys=("word",)), SCHEMA) as driver:
        driver.now = START
        driver.commit([("b", 1, at(5)), ("a", 2, at(3)), ("b", 3, at(1))])
        fired = [row for _, row in driver.commit([("c", 4, at(11))])]
        end = (START + 10) * 1_000_000
        assert fired == [
            ("b", end, [(3,), (1,)], at(-10), at(10)),
            ("a", end, [(2,)], at(-10), at(10)),
        ]


def test_rows_of_one_time_are_in_the_order_in_which_they_came() -> None:
    with driven(by_event_time(SlidingDuration(20, 20)), SCHEMA) as driver:
        driver.now = START
        for number in range(5):
            driver.commit([("a", number, at(5)), ("a", number + 10, at(4))])
        ((_, fired),) = driver.commit([("a", 99, at(40))])
        assert [number for (number,) in fired[1]] == [10, 11, 12, 13, 14, 0, 1, 2, 3, 4]


def test_times_are_rounded_up_and_stay_in_the_calendar() -> None:
    assert [in_millis(micros) for micros in (None, 0, 1, 1000, 1001)] == [None, 0, 1, 1, 2]
    assert moment(-(10**18)) == datetime(1, 1, 1, tzinfo=UTC)
    assert moment(10**18) == datetime(9999, 12, 31, tzinfo=UTC)
    assert moment(1) == datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)


class Prepared(All):
    """Notes when it is prepared and cleaned up."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def prepare(self) -> None:
        self.calls.append("prepare")

    def cleanup(self) -> None:
        self.calls.append("cleanup")


def test_an_aggregator_is_prepared_only_for_windows_that_fire() -> None:
    aggregator = Prepared()
    given = EventTimeArguments(timestamp="at", watermark=timedelta(0))
    with driven(declared(TumblingDuration(10), aggregator, event_time=given), SCHEMA) as driver:
        driver.now = START
        driver.commit([("a", 1, at(1))])
        assert aggregator.calls == []
        driver.commit([("a", 2, at(11))])
        assert aggregator.calls == ["prepare", "cleanup"]
