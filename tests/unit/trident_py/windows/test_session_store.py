"""Sessions: which rows belong together, and that what is stored of them goes with them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.unit.trident_py.windows.driven import TOPOLOGY, driven
from tests.unit.trident_py.windows.test_event_store import SCHEMA, START, History, at, by_event_time
from trident_py.interfaces.states import Key
from trident_py.operations.builtin import Max, Sum
from trident_py.states.memory import MemoryMapState
from trident_py.windows import session_store
from trident_py.windows.windows import DurationWindow, SessionWindow, TumblingDuration


def test_rows_at_a_distance_of_the_gap_are_in_one_session_as_in_spark() -> None:
    with driven(by_event_time(SessionWindow(10)), SCHEMA) as driver:
        driver.now = START
        driver.commit([("a", 1, at(0)), ("a", 2, at(10)), ("a", 3, at(20.000001))])
        (fired,) = [row for _, row in driver.commit([("a", 4, at(60))])][:1]
        assert fired[1:] == ([(1,), (2,)], at(0), at(20))


def test_a_row_in_between_joins_two_sessions() -> None:
    with driven(by_event_time(SessionWindow(10), watermark=100), SCHEMA) as driver:
        history = History(driver)
        driver.now = START
        for when in ([0, 30], [15], [22, 8], [25], [200], [500]):
            rows = history.rows([("a", each) for each in when])
            driver.now = START + max(when)
            history.check(driver.now, rows, driver.commit(rows))
        assert [each.numbers for each in history.fired] == [(0, 4, 2, 3, 5, 1), (6,)]


def test_a_session_that_continues_is_one_however_long_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_store, "SEAL_BYTES", 500)
    with driven(by_event_time(SessionWindow(10)), SCHEMA) as driver:
        history, sizes = History(driver), []
        for second in range(0, 600, 5):
            driver.now = START + second
            rows = history.rows([("a", second), ("a", second + 1)])
            assert driver.commit(rows) == []
            sizes.append(driver.size())
        driver.now = START + 2000
        ((_, fired),) = driver.commit([("a", 1000, at(2000))])
        assert fired[1] == [(number,) for number in range(240)]
        assert driver.size() == 3, "the head, the new session, and its bin"
        assert max(sizes) < 20


def test_the_state_stays_as_large_as_the_sessions_that_are_open() -> None:
    with driven(by_event_time(SessionWindow(10), keys=("word",), watermark=2), SCHEMA) as driver:
        sizes, fired = [], 0
        for second in range(500):
            driver.now = START + second
            rows = [(f"user {second // 3}", second, at(second)), (f"other {second % 20}", second, at(second))]
            fired += len(driver.commit(rows))
            sizes.append(driver.size())
        assert max(sizes[200:]) == max(sizes[100:200])
        assert fired > 600


@pytest.mark.parametrize("by_tasks", [False, True], ids=["on the driver", "by tasks"])
def test_a_session_of_a_sum_is_one_value_however_many_rows_it_has(by_tasks: bool) -> None:
    summed = by_event_time(SessionWindow(10), keys=("word",), aggregator=Sum("n"))
    with driven(summed.settled([]) if by_tasks else summed, SCHEMA) as driver:
        sizes = []
        for second in range(100):
            driver.now = START + second
            assert driver.commit([(word, n, at(second)) for word in "ab" for n in range(50)]) == []
            assert isinstance(driver.state, MemoryMapState)
            sizes.append(sum(len(value) for key, value in driver.state.values().items() if key[0].startswith("[")))
        assert max(sizes) < 2 * 60
        driver.now = START + 1000
        fired = driver.commit([("a", 1, at(1000))])
        total = 100 * sum(range(50))
        assert fired == [(False, (word, total, at(0), at(109))) for word in "ab"]


@pytest.mark.parametrize("window", [SessionWindow(10), TumblingDuration(10)])
def test_partial_values_keep_all_digits_of_a_decimal(window: DurationWindow | SessionWindow) -> None:
    most = Decimal(10**29 + 1)
    with driven(by_event_time(window, aggregator=Sum("n")), SCHEMA.replace("n int", "n decimal(30,0)")) as driver:
        driver.now = START
        driver.commit([("a", most, at(1)), ("a", most, at(2))])
        driver.commit([("a", most, at(3))])
        driver.now = START + 100
        ((_, fired),) = driver.commit([("a", most, at(100))])
        assert fired[0] == 3 * 10**29 + 3


VALUES: dict[str, list[Any]] = {
    "double": [1.5, -0.5, float("inf")],
    "decimal(10,3)": [Decimal("1.500"), Decimal(-7)],
    "date": [date(2024, 5, 1), date(1, 1, 1)],
    "timestamp": [at(0), at(-1.5)],
    "timestamp_ntz": [datetime(2024, 5, 1), datetime(1, 1, 1)],  # noqa: DTZ001 - without a zone
    "binary": [b"\x00\xff", b""],
    "string": ["é\n", ""],
    "boolean": [True, False],
    "bigint": [2**62, None],
}


@pytest.mark.parametrize("kind", VALUES)
def test_a_partial_value_of_each_type_is_read_as_it_was_stored(kind: str) -> None:
    given = VALUES[kind]
    operation = by_event_time(SessionWindow(10), keys=("n",), aggregator=Max("n"))
    with driven(operation, SCHEMA.replace("n int", f"n {kind}")) as driver:
        driver.now = START
        driver.commit([("a", value, at(1)) for value in given])
        driver.now = START + 100
        fired = driver.commit([("a", given[0], at(100))])
        assert [row[:2] for _, row in fired] == [(value, value) for value in given]


class Counting(MemoryMapState[bytes]):
    """Counts the values that are read."""

    reads = 0

    def multi_get(self, keys: Sequence[Key]) -> list[bytes | None]:
        self.reads += len(keys)
        return super().multi_get(keys)


def test_a_transaction_reads_only_the_sessions_that_it_concerns() -> None:
    with driven(by_event_time(SessionWindow(1000), keys=("word",)), SCHEMA) as driver:
        driver.state = state = Counting()
        state.recover(TOPOLOGY, 1)
        driver.now = START
        driver.commit([(f"user {number}", number, at(0)) for number in range(5000)])
        state.reads, driver.now = 0, START + 500
        driver.commit([("user 7", 1, at(500))])
        assert state.reads < 10
