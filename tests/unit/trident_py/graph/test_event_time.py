"""Windows by event time as a user declares them: the streams, and what cannot work."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field
from pyspark.sql.types import LongType, StructField, StructType

from tests.unit.trident_py.windows.driven import declared, driven
from trident_py.errors import StateError, TopologyError
from trident_py.graph.event_time import EventTimeArguments
from trident_py.graph.graph import RowFlow
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.states import State, StateFactory, StateUpdater
from trident_py.operations.builtin import Count, Sum
from trident_py.rows.schema import schema_of
from trident_py.spouts.feeder import FeederBatchSpout
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.streams.stream import Stream
from trident_py.testing import LocalCoordination, run_batches
from trident_py.topology import TridentTopology
from trident_py.windows.windows import SessionWindow, SlidingDuration, TumblingCount, TumblingDuration

MINUTE = timedelta(minutes=1)
SCHEMA = "device string, n int, at timestamp, text string, tags map<string, int>"


def at(hour: int, minute: int) -> datetime:
    return datetime(2020, 5, 1, hour, minute, tzinfo=UTC)


@pytest.fixture
def readings() -> Stream:
    return TridentTopology("readings").new_stream("readings", FixedBatchSpout(SCHEMA, 2))


def test_the_window_and_its_late_rows_are_two_streams(readings: Stream) -> None:
    grouped = readings.group_by("device")
    fired = grouped.window(TumblingDuration(60), "n", Sum("n"), "total", timestamp="at", watermark=MINUTE)
    assert fired.schema is not None
    assert fired.schema.names == ["device", "total", "window_start", "window_end"]
    late = fired.late_rows()
    assert late.schema is not None
    assert late.schema.names == ["device", "n", "at", "text", "tags", "late_reason", "late_watermark"]


def test_explain_says_by_which_times_a_window_fires() -> None:
    topology = TridentTopology("readings")
    readings = topology.new_stream("readings", FixedBatchSpout(SCHEMA, 2))
    window = readings.name("sessions").window(
        SessionWindow(60), "n", Count(), "n", timestamp="at", watermark=MINUTE, idle=2 * MINUTE, by="device"
    )
    window.late_rows()
    lines = topology.explain().splitlines()
    described = next(line for line in lines if line.startswith("  sessions: "))
    assert described.endswith(
        "window(SessionWindow(gap=60.0), Count()), by event time 'at': watermark 0:01:00, idle 0:02:00, "
        "max_ahead 1 day, 0:00:00, the least over the values of device, kept as one value for each key and session"
    )
    assert lines[-1].strip() == "late_rows()"


def run(directory: Path, coordination: LocalCoordination, *rows: tuple[str, int, datetime | None]) -> list[Any]:
    """Windows of five minutes; a table of the results, and one of the late rows."""
    topology = TridentTopology("readings")
    stream = topology.new_stream("readings", FixedBatchSpout("device string, n int, at timestamp", 2, *rows))
    fired = stream.group_by("device").window(
        TumblingDuration(5 * MINUTE),
        "n",
        Sum("n"),
        "total",
        store=SQLiteState(directory / "w.db", table="w"),
        timestamp="at",
        watermark=MINUTE,
    )
    totals = fired.map(
        lambda row: (f"{row.window_start:%H:%M}", row.device, row.total), "start string, device string, total bigint"
    )
    for name, found, keys in (
        ("totals", totals, ("start", "device", "total")),
        ("late", fired.late_rows(), ("n", "late_reason")),
    ):
        found.group_by(*keys).persistent_aggregate(SQLiteState(directory / "out.db", table=name), Count(), "count")
    return run_batches(topology, coordination)


def select(directory: Path, table: str, keys: str) -> list[Any]:
    with closing(sqlite3.connect(directory / "out.db")) as database:
        return database.execute(f"SELECT {keys}, count FROM {table} ORDER BY {keys}").fetchall()  # noqa: S608 - ours


def test_windows_of_old_data_are_those_of_its_own_time_over_a_restart(tmp_path: Path) -> None:
    coordination = LocalCoordination()
    first = [
        ("a", 1, at(12, 1)),
        ("b", 2, at(12, 3)),
        ("a", 3, at(12, 4)),
        ("a", 4, at(12, 6)),
        ("b", 5, at(12, 4)),
        ("a", 6, None),
    ]
    progress = run(tmp_path, coordination, *first)
    assert progress[-1]["metrics"]["w.watermark"] == at(12, 5).timestamp()
    assert select(tmp_path, "totals", "start, device, total") == [("12:00", "a", 4, 1), ("12:00", "b", 2, 1)]
    more = [("a", 7, at(12, 20)), ("a", 8, at(12, 9))]
    run(tmp_path, coordination, *first, *more)
    assert select(tmp_path, "totals", "start, device, total")[2:] == [("12:05", "a", 12, 1)]
    assert select(tmp_path, "late", "n, late_reason") == [(5, "late", 1), (6, "no timestamp", 1)]


def test_windows_of_windows_go_by_the_ends_of_the_first(tmp_path: Path) -> None:
    topology = TridentTopology("readings")
    rows = [("a", 1, at(12, minute)) for minute in range(0, 60, 3)] + [("a", 1, at(14, 0)), ("a", 1, at(15, 0))]
    stream = topology.new_stream("readings", FixedBatchSpout("device string, n int, at timestamp", 4, *rows))
    result, none = stream, timedelta(0)
    for name, length in (("minutes", 10 * MINUTE), ("hours", 60 * MINUTE)):
        store = SQLiteState(tmp_path / "w.db", table=name)
        window = TumblingDuration(length)
        time = "at" if name == "minutes" else "window_start"
        result = result.window(window, "n", Sum("n"), "n", store=store, timestamp=time, watermark=none)
    result.group_by("window_end", "n").persistent_aggregate(SQLiteState(tmp_path / "a.db", table="a"), Count(), "count")
    run_batches(topology)
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        assert database.execute("SELECT n FROM a").fetchall() == [(20,)]


@define(eq=False)
class Fired(State, StateUpdater[State], StateFactory):
    """Tells when a window has fired, and in which transaction."""

    fired: threading.Event = field(factory=threading.Event)

    def make_state(self, *_: Any) -> State:
        return self

    def begin_commit(self, txid: int) -> None: ...

    def update_state(self, state: State, tuples: Sequence[Any], collector: TridentCollector) -> None:
        if tuples:
            self.fired.set()

    def commit(self, txid: int) -> None: ...


def test_an_empty_transaction_fires_a_window_that_an_idle_partition_holds() -> None:
    topology, spout, told = TridentTopology("readings"), FeederBatchSpout("device string, at timestamp"), Fired()
    stream = topology.new_stream("readings", spout)
    idle = timedelta(milliseconds=300)
    window = stream.window(
        *(TumblingDuration(60), "at", Count(), "n"), timestamp="at", watermark=MINUTE, by="device", idle=idle
    )
    window.partition_persist(told, told, "n")
    with topology.start(coordination=LocalCoordination()):
        spout.feed([("slow", at(12, 0)), ("fast", at(12, 0))], 60)
        spout.feed([("fast", at(13, 0))], 60)
        assert told.fired.wait(60)


def identities(**changed: Any) -> tuple[Any, Any]:
    given = {"timestamp": "at", "watermark": MINUTE, **changed}
    window = declared(TumblingDuration(3), in_fields="n", event_time=EventTimeArguments(**given))
    return window.identity(schema_of(SCHEMA), 1), window.details


def test_the_field_is_fixed_and_the_delays_and_the_partitions_may_change() -> None:
    fixed, details = identities()
    for changed in ({"watermark": 2 * MINUTE}, {"idle": MINUTE}, {"max_ahead": MINUTE}, {"by": "device"}):
        same, other = identities(**changed)
        assert same == fixed
        assert other != details
    other, _ = identities(timestamp="text")
    assert {name for name in other if other[name] != fixed[name]} == {"timestamp", "fields"}
    by_transactions = declared(TumblingDuration(3), in_fields="n")
    assert "timestamp" not in by_transactions.identity(schema_of(SCHEMA), 1)


def test_windows_of_another_field_are_refused_in_a_state(tmp_path: Path) -> None:
    by_at = declared(
        TumblingDuration(3), in_fields="n", event_time=EventTimeArguments(timestamp="at", watermark=MINUTE)
    )
    with driven(by_at, SCHEMA, tmp_path):
        pass
    with pytest.raises(StateError, match="event_tumbling"), driven(declared(TumblingDuration(3)), SCHEMA, tmp_path, 2):
        raise AssertionError("it is refused")


def test_late_rows_that_no_stream_takes_are_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    topology = TridentTopology("readings")
    rows = [("a", 1, at(12, 1)), ("a", 2, at(11, 1)), ("a", 3, at(11, 1)), ("a", 4, None)]
    stream = topology.new_stream("readings", FixedBatchSpout("device string, n int, at timestamp", 1, *rows))
    store = SQLiteState(tmp_path / "w.db", table="w")
    stream.window(TumblingDuration(60), "n", Count(), "n", timestamp="at", watermark=MINUTE, store=store)
    with caplog.at_level(logging.WARNING):
        run_batches(topology)
    told = [record.getMessage() for record in caplog.records if "late_rows" in record.getMessage()]
    assert told == [
        "window w, attempt 2:0: some late rows are left out, and nothing reads late_rows(); this is logged once"
    ]


def test_a_job_that_several_transactions_share_gives_the_transaction_and_all_fields() -> None:
    source, tag = schema_of(SCHEMA), StructField("_transaction", LongType(), False)
    alone = declared(
        TumblingDuration(3), in_fields="n", event_time=EventTimeArguments(timestamp="at", watermark=MINUTE)
    ).settled([])
    assert not alone.by_pane, "its aggregator needs rows"
    shared = alone.shared(tag, source, lambda *_: True)
    flow = shared.on_rows([RowFlow.of((), StructType([tag, *source.fields]))], None)
    assert flow.schema.names == ["_transaction", "device", "n", "at", "text", "tags"]
    assert alone.fields(source).names == ["device", "n", "at", "text", "tags"]
    assert alone.stored_fields(source).names == ["n", "at"]


WRONG: Mapping[str, tuple[Any, str]] = {
    "by count": (
        lambda rows: rows.window(TumblingCount(3), "n", Count(), "c", timestamp="at", watermark=MINUTE),
        "timestamp= needs a window by time, so a TumblingDuration, SlidingDuration or SessionWindow, not TumblingCount",
    ),
    "no watermark": (
        lambda rows: rows.window(TumblingDuration(3), "n", Count(), "c", timestamp="at"),
        r"watermark= is needed: how much later .* timedelta\(minutes=5\)",
    ),
    "no timestamp": (
        lambda rows: rows.window(TumblingDuration(3), "n", Count(), "c", watermark=MINUTE),
        "watermark= needs timestamp=",
    ),
    "idle without timestamp": (
        lambda rows: rows.group_by("device").window(TumblingDuration(3), "n", Count(), "c", idle=MINUTE),
        "idle= needs timestamp=",
    ),
    "a session by transaction times": (
        lambda rows: rows.window(SessionWindow(3), "n", Count(), "c"),
        r"SessionWindow\(gap=3.0\) needs timestamp=",
    ),
    "unknown field": (
        lambda rows: rows.window(TumblingDuration(3), "n", Count(), "c", timestamp="when", watermark=MINUTE),
        "there is no field 'when'; there are 'device'",
    ),
    "another type": (
        lambda rows: rows.window(TumblingDuration(3), "n", Count(), "c", timestamp="text", watermark=MINUTE),
        "the field 'text' is string, and timestamp= needs a timestamp; convert it before",
    ),
    "not a name": (
        lambda rows: rows.window(TumblingDuration(3), "n", Count(), "c", timestamp=3, watermark=MINUTE),
        "timestamp= is the name of a field, not 3",
    ),
    "unknown partition": (
        lambda rows: rows.window(TumblingDuration(3), "n", Count(), "c", timestamp="at", watermark=MINUTE, by="host"),
        "there is no field 'host'",
    ),
    "maps as partitions": (
        lambda rows: rows.window(TumblingDuration(3), "n", Count(), "c", timestamp="at", watermark=MINUTE, by=["tags"]),
        "maps don't compare",
    ),
    "a negative delay": (
        lambda rows: rows.window(TumblingDuration(3), "n", Count(), "c", timestamp="at", watermark=-MINUTE),
        "watermark= is a timedelta of 0 s or more, not",
    ),
    "seconds": (
        lambda rows: rows.window(TumblingDuration(3), "n", Count(), "c", timestamp="at", watermark=MINUTE, idle=30),
        r"idle= is a timedelta of 0.001 s or more, not 30 \(int\)",
    ),
    "a field of ours": (
        lambda rows: (
            rows.map(tuple, "late_reason string, at timestamp")
            .window(TumblingDuration(3), "at", Count(), "c", timestamp="at", watermark=MINUTE)
            .late_rows()
        ),
        "there is a field 'late_reason' already",
    ),
    "a store that forgets": (
        lambda rows: rows.window(
            *(TumblingDuration(3), "n", Count(), "c"),
            store=SQLiteState("w.db", table="w", ttl=MINUTE),
            timestamp="at",
            watermark=MINUTE,
        ),
        "forgets what is stored after 0:01:00; windows by event time need it",
    ),
    "late rows of transaction times": (
        lambda rows: rows.window(TumblingDuration(3), "n", Count(), "c").late_rows(),
        "it follows a window or process with timestamp=, or a join with within=, directly",
    ),
    "late rows of something else": (
        lambda rows: (
            rows.window(SlidingDuration(4, 2), "n", Count(), "c", timestamp="at", watermark=MINUTE)
            .project("c")
            .late_rows()
        ),
        "it follows a window or process with timestamp=, or a join with within=, directly",
    ),
    "late rows of unknown fields": (
        lambda rows: (
            rows.transform(lambda frame: frame)
            .window(TumblingDuration(3), "n", Count(), "c", timestamp="at", watermark=MINUTE)
            .late_rows()
        ),
        "the fields before the window must be known: give transform its schema=",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_work_is_an_error_where_it_is_declared(case: str, readings: Stream) -> None:
    declare, message = WRONG[case]
    with pytest.raises(TopologyError, match=message) as raised:
        declare(readings)
    assert str(raised.value).startswith("topology 'readings', ")
