"""The time of a transaction: at which rate it goes on, and when it is set to the clock."""

from __future__ import annotations

from coordinators.values.transaction_time import LeaderClock, TransactionTimes
from tests.unit.coordinators.world import World

DAY_SECONDS = 24 * 3600
NOON_MS = 1_760_000_000_000


def led(wall_ms: int, known: dict[int, int] | None = None, *, zookeeper_ms: int | None = None) -> TransactionTimes:
    """The times of a leadership that begins at the monotonic second 100."""
    times = TransactionTimes(LeaderClock(wall_ms if zookeeper_ms is None else zookeeper_ms, 100), dict(known or {}))
    times.start(100, wall_ms / 1000)
    return times


def fixed(times: TransactionTimes, txid: int, now: float, wall_ms: int, *, is_held: bool) -> int:
    times.fix(txid, now, wall_ms / 1000, is_held=is_held)
    return times.known[txid]


def test_the_first_transaction_of_all_has_the_time_of_the_clock() -> None:
    assert fixed(led(NOON_MS), 1, 100, NOON_MS, is_held=True) == NOON_MS


def test_a_time_once_fixed_stays() -> None:
    times = led(NOON_MS)
    assert fixed(times, 1, 101, NOON_MS + 1000, is_held=False) == NOON_MS + 1000
    assert fixed(times, 1, 150, NOON_MS + 50_000, is_held=False) == NOON_MS + 1000


def test_while_rows_are_held_time_goes_on_at_the_monotonic_rate_whatever_the_clock_does() -> None:
    times = led(NOON_MS)
    assert fixed(times, 1, 100.25, NOON_MS + DAY_SECONDS * 1000, is_held=True) == NOON_MS + 250
    assert fixed(times, 2, 101, NOON_MS - DAY_SECONDS * 1000, is_held=True) == NOON_MS + 1000


def test_moments_far_shorter_than_a_millisecond_add_up() -> None:
    times = led(NOON_MS)
    for number in range(1, 10_001):
        times.fix(number, 100 + number / 10_000, NOON_MS / 1000, is_held=True)
    assert times.known[10_000] == NOON_MS + 1000


def test_where_no_rows_are_held_time_is_set_to_the_clock_forward_and_back() -> None:
    times = led(NOON_MS)
    assert fixed(times, 1, 101, NOON_MS + 50_000, is_held=False) == NOON_MS + 50_000
    assert fixed(times, 2, 102, NOON_MS, is_held=False) == NOON_MS


def test_a_takeover_goes_on_from_a_time_that_is_ahead_and_says_by_how_much() -> None:
    ahead = NOON_MS + DAY_SECONDS * 1000
    times = led(NOON_MS, {7: ahead})
    assert times.ahead == DAY_SECONDS * 1000
    assert fixed(times, 8, 101, NOON_MS + 1000, is_held=True) == ahead + 1000
    assert times.ahead == DAY_SECONDS * 1000
    assert fixed(times, 9, 102, NOON_MS + 2000, is_held=False) == NOON_MS + 2000
    assert times.ahead == 0


def test_a_takeover_takes_the_clock_where_that_is_later() -> None:
    times = led(NOON_MS + 3600_000, {7: NOON_MS})
    assert fixed(times, 8, 100, NOON_MS + 3600_000, is_held=True) == NOON_MS + 3600_000


def test_a_clock_up_to_a_minute_ahead_of_zookeepers_is_taken() -> None:
    times = led(NOON_MS + 60_000, zookeeper_ms=NOON_MS)
    assert fixed(times, 1, 100, NOON_MS + 60_000, is_held=True) == NOON_MS + 60_000
    assert times.clock.ahead_of_zookeeper(100, (NOON_MS + 60_000) / 1000) == 0


def test_of_a_clock_that_is_further_ahead_zookeepers_counts() -> None:
    wall_ms = NOON_MS + DAY_SECONDS * 1000
    times = led(wall_ms, zookeeper_ms=NOON_MS)
    assert fixed(times, 1, 105, wall_ms + 5000, is_held=False) == NOON_MS + 5000
    assert times.clock.ahead_of_zookeeper(105, wall_ms / 1000 + 5) == DAY_SECONDS * 1000


def test_a_start_warns_of_clocks_that_are_ahead() -> None:
    times = TransactionTimes(LeaderClock(NOON_MS, 100), {7: NOON_MS + DAY_SECONDS * 1000})
    beyond, ahead = times.start(100, NOON_MS / 1000 + 3600)
    assert "clock is 3,600 s ahead of ZooKeeper's" in beyond
    assert "transactions is 86,400 s ahead of the clock" in ahead
    assert TransactionTimes(LeaderClock(NOON_MS, 100), {}).start(100, NOON_MS / 1000 + 59) == []


def test_a_clock_behind_zookeepers_is_taken() -> None:
    times = led(NOON_MS, zookeeper_ms=NOON_MS + DAY_SECONDS * 1000)
    assert fixed(times, 1, 100, NOON_MS, is_held=True) == NOON_MS


def test_a_replay_and_a_takeover_keep_the_time_that_the_record_has() -> None:
    first = World(wall=1000.0).start(max_spout_pending=2)
    first.run_until_quiet()
    fixed_then = [first.times["1:0"], first.times["2:0"]]
    first.after(5)
    second = World(coordination=first.coordination, wall=4000.0).start(max_spout_pending=2)
    second.run_until_quiet()
    assert [second.times["1:1"], second.times["2:1"]] == fixed_then == [1_000_000, 1_000_000]


def test_while_a_window_holds_rows_the_time_never_goes_back() -> None:
    world = World(wall=1000.0, window_at=10_000_000).start()
    world.run_until_quiet()
    world.wall = 500.0
    world.processed("1:0")
    world.committed("1:0")
    assert world.times["2:0"] == 1_000_000
    world.window_at = None
    world.processed("2:0")
    world.committed("2:0")
    assert world.times["3:0"] == 500_000


def test_while_an_earlier_transaction_is_on_its_way_the_time_does_not_go_back() -> None:
    world = World(wall=1000.0).start(max_spout_pending=3)
    world.spouts["lines"].upto = 2
    world.run_until_quiet()
    world.wall, world.spouts["lines"].upto = 500.0, 3
    world.after(1)
    assert world.times["3:0"] == 1_001_000
