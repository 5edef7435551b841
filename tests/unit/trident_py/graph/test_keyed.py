"""Functions with timers as a user declares them: the streams, what runs, and what cannot work."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.unit.trident_py.graph.test_event_time import Fired
from tests.unit.trident_py.graph.test_keyed_updater import keyed
from tests.unit.trident_py.windows.driven import TOPOLOGY, directory, driven
from tests.unit.trident_py.windows.test_event_store import START, at
from tests.unit.trident_py.windows.test_session_store import Counting
from trident_py.errors import StateError, TopologyError
from trident_py.graph import keyed_updater
from trident_py.interfaces.keyed import KeyedFunction, KeyState, Timers
from trident_py.operations.builtin import Count, Sum
from trident_py.rows.schema import schema_of
from trident_py.spouts.feeder import FeederBatchSpout
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.maps import TransactionalMap
from trident_py.states.memory import MemoryMapState
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.streams.stream import Stream
from trident_py.testing import LocalCoordination, run_batches
from trident_py.topology import TridentTopology
from trident_py.windows.windows import TumblingCount, TumblingDuration

MINUTE = timedelta(minutes=1)
SCHEMA = "word string, n int, at timestamp"


class Silence(KeyedFunction):
    """Tells when a word has not come for a while."""

    output_schema = "word string, at timestamp, n bigint"
    state_schema = "n bigint"

    def __init__(self, after: timedelta = 5 * MINUTE) -> None:
        self.after = after

    def on_rows(self, key: Any, rows: Sequence[Any], state: KeyState, timers: Timers) -> None:
        (n,) = state.get() or (0,)
        state.update((n + len(rows),))
        for each in timers.pending:
            timers.delete(each)
        timers.set(max(row.at or timers.now for row in rows) + self.after)

    def on_timer(self, key: Any, at: datetime, state: KeyState, timers: Timers) -> Iterator[Sequence[Any]]:
        yield (key.word, at, state.get().n)
        state.clear()


def noon(minutes: float) -> datetime:
    return datetime(2020, 5, 1, 12, tzinfo=UTC) + minutes * MINUTE


@pytest.fixture
def stream() -> Stream:
    return TridentTopology("words").new_stream("words", FixedBatchSpout(SCHEMA, 2))


# --- streams ----------------------------------------------------------------------------------------------------------


def test_the_results_and_the_late_rows_are_two_streams(stream: Stream) -> None:
    silent = stream.group_by("word").process(Silence(), timestamp="at", watermark=MINUTE)
    assert silent.schema == schema_of("word string, at timestamp, n bigint")
    assert silent.late_rows().schema == schema_of(f"{SCHEMA}, late_reason string, late_watermark timestamp")


def test_explain_shows_the_function_and_its_times() -> None:
    topology = TridentTopology("words")
    stream = topology.new_stream("words", FixedBatchSpout(SCHEMA, 2))
    for name, event in (("events", {"timestamp": "at", "watermark": MINUTE, "idle": MINUTE}), ("transactions", {})):
        stream.name(name).group_by("word").process(Silence(), **event)  # type: ignore[arg-type]
    lines = topology.explain().splitlines()
    described = {line.split(":")[0].strip(): line for line in lines if "-windows.db in the state_dir" in line}
    assert described["events"].endswith(
        "'word'), by event time 'at': watermark 0:01:00, idle 0:01:00, max_ahead 1 day, 0:00:00, "
        "all rows are one partition, because FixedBatchSpout has no partition_fields"
    )
    assert described["transactions"].endswith("process(Silence, 'word'), by the times of transactions")


def run(directory: Path, coordination: LocalCoordination, *rows: Any) -> None:
    topology = TridentTopology("words")
    stream = topology.new_stream("words", FixedBatchSpout(SCHEMA, 2, *rows))
    store = SQLiteState(directory / "w.db", table="w")
    silent = stream.group_by("word").process(Silence(), store=store, timestamp="at", watermark=MINUTE)
    for name, found, keys in (("silent", silent, ("at", "word", "n")), ("late", silent.late_rows(), ("n",))):
        found.group_by(*keys).persistent_aggregate(SQLiteState(directory / "out.db", table=name), Count(), "count")
    run_batches(topology, coordination)


def select(directory: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(directory / "out.db")) as database:
        return database.execute(query).fetchall()


def test_timers_of_old_data_fire_by_its_own_time_over_a_restart(tmp_path: Path) -> None:
    def noon(minute: int) -> datetime:
        return datetime(2020, 5, 1, 12, minute, tzinfo=UTC)

    coordination = LocalCoordination()
    first = [
        ("a", 1, noon(1)),
        ("b", 2, noon(2)),
        ("a", 3, noon(4)),
        ("b", 4, noon(5)),
        ("c", 5, noon(10)),
        ("b", 6, None),
    ]
    run(tmp_path, coordination, *first)
    assert select(tmp_path, "SELECT substr(at, 12, 5), word, n, count FROM silent") == [("12:09", "a", 2, 1)]
    run(tmp_path, coordination, *first, ("c", 7, noon(30)), ("c", 8, noon(1)), ("a", 9, noon(28)))
    assert select(tmp_path, "SELECT substr(at, 12, 5), word, n, count FROM silent ORDER BY at") == [
        *[("12:09", "a", 2, 1), ("12:10", "b", 2, 1)]
    ]
    assert select(tmp_path, "SELECT n, count FROM late ORDER BY n") == [(6, 1), (8, 1), (9, 1)]


def test_an_empty_transaction_fires_a_timer_by_the_time_of_transactions() -> None:
    topology, spout, told = TridentTopology("words"), FeederBatchSpout("word string, at timestamp"), Fired()
    silent = topology.new_stream("words", spout).group_by("word").process(Silence(timedelta(milliseconds=200)))
    silent.partition_persist(told, told, "n")
    with topology.start(coordination=LocalCoordination()):
        spout.feed([("a", None)], 60)
        assert told.fired.wait(60)


def test_a_function_follows_windows_and_windows_follow_it(tmp_path: Path) -> None:
    topology, none = TridentTopology("words"), timedelta(0)
    rows = [(word, n, noon(n / 3)) for n in range(30) for word in "ab"]
    far = [("c", 1, noon(120)), ("c", 1, noon(180))]
    stream = topology.new_stream("words", FixedBatchSpout(SCHEMA, 5, *rows, *far))
    stores = [SQLiteState(tmp_path / "w.db", table=name) for name in ("first", "function", "second")]
    counted = stream.group_by("word").window(
        TumblingDuration(60), "n", Count(), "n", store=stores[0], timestamp="at", watermark=none
    )
    ends = counted.map(lambda row: (row.word, row.n, row.window_end), "word string, n bigint, at timestamp")
    silent = ends.group_by("word").process(Silence(), store=stores[1], timestamp="at", watermark=none)
    both = silent.window(TumblingCount(2), "n", Sum("n"), "n", store=stores[2])
    for name, found, keys in (("silent", silent, ("at", "word", "n")), ("two", both, ("n",))):
        found.group_by(*keys).persistent_aggregate(SQLiteState(tmp_path / "out.db", table=name), Count(), "count")
    run_batches(topology)
    assert select(tmp_path, "SELECT substr(at, 12, 5), word, n, count FROM silent") == [
        *[("12:15", "a", 10, 1), ("12:15", "b", 10, 1)]
    ]
    assert select(tmp_path, "SELECT n, count FROM two") == [(20, 1)]


# --- one transaction --------------------------------------------------------------------------------------------------


class Sets(KeyedFunction):
    """Sets the timers that its rows say, in seconds after the start; a timer sets one more, ``next`` later."""

    output_schema = "word string, at timestamp, now timestamp, watermark timestamp"
    state_schema = "n int"

    def __init__(self, following: float | None = None) -> None:
        self.following = following
        self.calls: list[str] = []

    def prepare(self) -> None:
        self.calls.append("prepare")

    def cleanup(self) -> None:
        self.calls.append("cleanup")

    def on_rows(self, key: Any, rows: Sequence[Any], state: KeyState, timers: Timers) -> None:
        for row in rows:
            when = at(row.n)
            assert when is not None
            (timers.set if row.n >= 0 else timers.delete)(at(abs(row.n)) or when)

    def on_timer(self, key: Any, when: datetime, state: KeyState, timers: Timers) -> list[Any]:
        if self.following is not None:
            timers.set(when + timedelta(seconds=self.following))
        return [(key.word, when, timers.now, timers.watermark)]


def test_timers_fire_in_the_order_of_time_then_key_after_the_rows() -> None:
    with driven(keyed(Sets()), SCHEMA) as driver:
        driver.now = START
        assert driver.commit([(word, n, None) for n in (9, 5) for word in "cab"]) == []
        driver.now = START + 9
        # b's rows delete its timer of 9, and set one of 7, which has passed.
        fired = driver.commit([("b", -9, None), ("b", 7, None)])
        assert [(word, when) for word, when, *_ in fired] == [
            *[("a", at(5)), ("b", at(5)), ("c", at(5)), ("b", at(7)), ("a", at(9)), ("c", at(9))]
        ]
        assert {(now, watermark) for *_, now, watermark in fired} == {(at(9), None)}
        assert driver.commit([]) == []


def test_in_event_time_a_timer_sees_the_watermark_by_which_it_fires() -> None:
    with driven(keyed(Sets(), watermark=2), SCHEMA) as driver:
        driver.now = START + 60
        assert driver.commit([("a", 5, at(0))]) == []
        assert driver.commit([("b", 50, at(6))]) == []
        assert driver.commit([("b", 50, at(7))]) == [(False, ("a", at(5), at(60), at(5)))]


def test_a_timer_that_a_timer_sets_for_a_passed_time_fires_in_the_same_transaction() -> None:
    with driven(keyed(Sets(following=4)), SCHEMA) as driver:
        driver.now = START + 9
        assert [when for _, when, *_ in driver.commit([("a", 0, None)])] == [at(0), at(4), at(8)]
        driver.now = START + 12
        assert [when for _, when, *_ in driver.commit([])] == [at(12)]


@pytest.mark.parametrize("portion", [1, 1024])
def test_a_timer_that_a_timer_sets_fires_in_its_place_among_those_of_other_keys(
    portion: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyed_updater, "PORTION_KEYS", portion)
    with driven(keyed(Sets(following=4)), SCHEMA) as driver:
        driver.now = START - 1
        driver.commit([("b", 3, None), ("a", 0, None), ("c", 7, None)])
        driver.now = START + 9
        fired = [(word, when) for word, when, *_ in driver.commit([("d", 8, None)])]
        times = [("a", 0), ("b", 3), ("a", 4), ("b", 7), ("c", 7), ("a", 8), ("d", 8)]
        assert fired == [(word, at(second)) for word, second in times]


def test_timers_without_end_are_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_updater, "FIRINGS_MAX", 100)
    with driven(keyed(Sets(following=0)), SCHEMA) as driver:
        driver.now = START + 9
        with pytest.raises(RuntimeError, match=r"more than 100 of its timers .* let on_timer set") as raised:
            driver.commit([("a", 0, None)])
        assert raised.value.__notes__ == ['in process, for the key ["a"], on its timers']


def test_a_function_is_prepared_only_when_it_is_called() -> None:
    function = Sets()
    with driven(keyed(function), SCHEMA) as driver:
        driver.now = START
        driver.commit([])
        assert function.calls == []
        driver.commit([("a", 5, None)])
        driver.now = START + 5
        driver.commit([])
        assert function.calls == ["prepare", "cleanup"] * 2


def test_time_that_goes_back_sets_no_timer_back() -> None:
    with driven(keyed(Sets()), SCHEMA) as driver:
        driver.now = START + 10
        driver.commit([("a", 15, None)])
        driver.now = START + 3
        assert driver.commit([("a", 9, None)]) == [("a", at(9), at(10), None)]
        driver.now = START + 15
        assert [when for _, when, *_ in driver.commit([])] == [at(15)]
        driver.now = START + 3
        assert driver.commit([("a", 4, None)]) == []


class Wrong(Sets):
    """Gives, or keeps, what it may not."""

    def __init__(self, gives: Any = None, keeps: Any = None) -> None:
        super().__init__()
        self.gives, self.keeps = gives, keeps

    def on_rows(self, key: Any, rows: Sequence[Any], state: KeyState, timers: Timers) -> Any:
        if self.keeps is not None:
            state.update(self.keeps)
        return self.gives


@pytest.mark.parametrize(
    ("function", "message", "place"),
    [
        (Wrong(gives="text"), "must give an iterable of tuples, lists or Rows, not 'text'", "over 1 rows"),
        (Wrong(gives=["text"]), "must give a tuple, list or Row for each row, not 'text'", "over 1 rows"),
        (Wrong(gives=[(1,)]), "process gave 1 values, .* for the 4 fields", "over 1 rows"),
        (Wrong(keeps=(1, 2)), "has 2 values, for the 1 fields", "over 1 rows"),
        (Wrong(keeps=("one",)), "field 'n' is declared int, got 'one'", "storing its value"),
    ],
)
def test_what_a_function_may_not_give_is_noted_with_the_key(function: Wrong, message: str, place: str) -> None:
    with driven(keyed(function), SCHEMA) as driver, pytest.raises((TypeError, ValueError), match=message) as raised:
        driver.commit([("a", 1, None)])
    assert raised.value.__notes__ == [f'in process, for the key ["a"], {place}']


def test_keys_of_any_type_come_back_for_their_timers() -> None:
    with driven(keyed(Sets()), "word struct<d: decimal(9, 2), at: timestamp>, n int, at timestamp") as driver:
        driver.now = START
        driver.commit([((7, at(1)), 3, None), (None, 4, None)])
        driver.now = START + 5
        assert [word for word, *_ in driver.commit([])] == [(7, at(1)), None]


# --- what is kept -----------------------------------------------------------------------------------------------------


def test_a_timer_that_is_put_off_with_each_row_is_one_entry() -> None:
    with driven(keyed(Silence(timedelta(seconds=50))), SCHEMA) as driver:
        for second in range(0, 500, 5):
            driver.now = START + second
            assert driver.commit([("a", 1, None)]) == []
            assert driver.size() <= 3  # the head, the record, and the one bin
        driver.now = START + 545
        assert driver.commit([]) == [("a", at(545), 100)]
        assert driver.size() == 1


def test_a_transaction_reads_only_the_keys_that_it_concerns() -> None:
    with driven(keyed(Silence(timedelta(seconds=1000))), SCHEMA) as driver:
        driver.state = state = Counting()
        state.recover(TOPOLOGY, 1)
        for number in range(1000):
            driver.now = START + number
            driver.commit([(f"user {number * 5 + more}", 1, None) for more in range(5)])
        state.reads = 0
        assert driver.commit([("user 4900", 1, None)]) == []
        assert state.reads < 5
        driver.now, state.reads = START + 1000, 0
        assert len(driver.commit([])) == 5
        assert state.reads < 200


# --- what may change, and what cannot work ----------------------------------------------------------------------------


def test_the_fields_and_the_time_are_fixed_and_the_delays_may_change() -> None:
    source = schema_of(SCHEMA)
    fixed = keyed(Silence(), watermark=1).identity(source, 1)
    assert keyed(Silence(), watermark=2, idle=3).identity(source, 1) == fixed
    assert keyed(Silence(), watermark=1).details != keyed(Silence(), watermark=2).details
    assert keyed(Silence(), watermark=1, by="word").identity(source, 1) == fixed
    assert "timestamp" not in keyed(Silence()).identity(source, 1)
    assert keyed(Silence(), factory=MemoryMapState.factory()).identity(source, 1) == {}


def test_values_of_another_function_are_refused_in_a_state(tmp_path: Path) -> None:
    with driven(keyed(Silence()), SCHEMA, tmp_path):
        pass
    with pytest.raises(StateError, match="keyed_"), driven(keyed(Sets()), SCHEMA, tmp_path, 2):
        raise AssertionError("it is refused")


class Nameless(Silence):
    output_schema = None  # type: ignore[assignment]


class Valueless(Silence):
    state_schema = None  # type: ignore[assignment]


WRONG: Mapping[str, tuple[Any, str]] = {
    "a class": (lambda words: words.process(Silence), "process takes an instance of KeyedFunction, not <class"),
    "no output": (lambda words: words.process(Nameless()), "Nameless has no output_schema: set it to the fields of"),
    "no value": (
        lambda words: words.process(Valueless()),
        "Valueless has no state_schema: set it to the fields of the",
    ),
    "no watermark": (lambda words: words.process(Silence(), timestamp="at"), "watermark= is needed: how much later"),
    "no timestamp": (lambda words: words.process(Silence(), watermark=MINUTE), "watermark= needs timestamp="),
    "unknown field": (
        lambda words: words.process(Silence(), timestamp="when", watermark=MINUTE),
        "there is no field 'when'; there are 'word'",
    ),
    "another type": (
        lambda words: words.process(Silence(), timestamp="n", watermark=MINUTE),
        "the field 'n' is int, and timestamp= needs a timestamp; convert it before, by",
    ),
    "no token": (
        lambda words: words.process(Silence(), store=TransactionalMap.factory(directory)),
        "a KeyedFunction needs a fenced state, as SQLiteState or PostgresState, and",
    ),
    "a store that forgets": (
        lambda words: words.process(Silence(), store=SQLiteState("w.db", table="w", ttl=MINUTE)),
        "forgets what is stored after 0:01:00; the values and timers of keys need it",
    ),
    "late rows of transaction times": (
        lambda words: words.process(Silence()).late_rows(),
        "it follows a window or process with timestamp=, or a join with within=, directly",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_work_is_an_error_where_it_is_declared(case: str, stream: Stream) -> None:
    declare, message = WRONG[case]
    with pytest.raises(TopologyError, match=message) as raised:
        declare(stream.group_by("word"))
    assert str(raised.value).startswith("topology 'words', ")
