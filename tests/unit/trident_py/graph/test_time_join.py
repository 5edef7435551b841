"""Joins over time as a user declares them: the streams, and what cannot work."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.unit.trident_py.graph.test_event_time import Fired
from tests.unit.trident_py.windows.driven import directory, driven
from trident_py.errors import StateError, TopologyError
from trident_py.graph.graph import RowFlow
from trident_py.graph.joining import join_of
from trident_py.graph.time_join import JoinState, JoinTimeArguments, Sides, join_state
from trident_py.operations.builtin import Count, Sum
from trident_py.rows.row import rows_of
from trident_py.rows.schema import arrow_schema, arrow_table, schema_of
from trident_py.spouts.feeder import FeederBatchSpout
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.maps import OpaqueMap
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.streams.stream import Stream
from trident_py.testing import LocalCoordination, run_batches
from trident_py.topology import TridentTopology
from trident_py.windows.window_store import LocalWindows
from trident_py.windows.windows import TumblingDuration

MINUTE = timedelta(minutes=1)
SHOWN = "ad string, user string, at timestamp, tags map<string, int>"
CLICKED = "at timestamp, ad string, price int, text string"
FIELDS = ["ad", "user", "shown", "tags", "clicked", "price", "text"]


def at(hour: int, minute: int) -> datetime:
    return datetime(2020, 5, 1, hour, minute, tzinfo=UTC)


class Two(NamedTuple):
    topology: TridentTopology
    shown: Stream
    clicked: Stream

    def join(self, **changed: Any) -> Stream:
        given = {"within": 10 * MINUTE, "timestamps": ("at", "at"), "watermark": MINUTE, **changed}
        keys, fields = given.pop("keys", ("ad", "ad")), given.pop("fields", FIELDS)
        how = given.pop("how", "left")
        wanted = {name: value for name, value in given.items() if value is not None}
        return self.topology.join(self.shown, keys[0], self.clicked, keys[1], fields, how, **wanted)


@pytest.fixture
def two() -> Two:
    topology = TridentTopology("ads")
    shown = topology.new_stream("shown", FixedBatchSpout(SHOWN, 2))
    return Two(topology, shown, topology.new_stream("clicked", FixedBatchSpout(CLICKED, 2)))


def test_the_join_and_its_late_rows_are_two_streams(two: Two) -> None:
    joined = two.join()
    assert joined.schema is not None
    assert joined.schema.names == FIELDS
    late = joined.late_rows()
    assert late.schema is not None
    assert late.schema.names == [*FIELDS, "late_side", "late_reason", "late_watermark"]
    assert all(field.nullable for field in late.schema.fields)


def test_with_preserve_the_join_has_all_fields_of_both_sides(tmp_path: Path) -> None:
    topology = TridentTopology("ads")
    left = topology.new_stream("left", FixedBatchSpout("k string, at timestamp", 1, ("a", at(12, 0)), ("b", at(14, 0))))
    right = topology.new_stream(
        "right", FixedBatchSpout("at timestamp, k string", 1, (at(12, 1), "a"), (at(14, 0), "c"))
    )
    joined = topology.join(
        *(left, "k", right, "k", ["k", "shown", "clicked", "k2"], "left"),
        preserve=True,
        within=MINUTE,
        timestamps=("at", "at"),
        watermark=timedelta(0),
        store=SQLiteState(tmp_path / "j.db", table="j"),
    )
    result = joined.map(lambda row: (f"{row.k} {row.k2} {row.clicked is None}",), "text string")
    result.group_by("text").persistent_aggregate(SQLiteState(tmp_path / "a.db", table="a"), Count(), "count")
    run_batches(topology)
    assert select(tmp_path / "a.db", "SELECT text, count FROM a") == [("a a False", 1)]


@pytest.mark.parametrize(
    ("by", "told"),
    [
        (("user", None), "all rows are one partition, because FixedBatchSpout has no partition_fields"),
        (("user", "text"), "the least over the values of text"),
    ],
)
def test_explain_says_by_which_times_rows_are_joined(by: tuple[str, str | None], told: str, two: Two) -> None:
    joined = two.join(watermark=(MINUTE, 2 * MINUTE), idle=MINUTE, by=by)
    joined.late_rows()
    lines = two.topology.explain().splitlines()
    described = next(line for line in lines if line.startswith("  clicked-shown-join: "))
    assert described.endswith(
        "join('ad', 'ad', 'left', within=0:10:00), by event time 'at' and 'at': watermark 0:01:00 and 0:02:00, "
        f"idle 0:01:00, max_ahead 1 day, 0:00:00, the least over the values of user and {told}"
    )
    assert lines[-1].strip() == "late_rows()"


def test_a_join_is_named_after_its_streams(two: Two) -> None:
    named = Two(two.topology, two.shown.name("impressions"), two.clicked.name("clicks"))
    named.join()
    Two(two.topology, two.shown, two.clicked.name("presses")).join()
    found = [node.operation.name for node in two.topology._graph.nodes if isinstance(node.operation, JoinState)]
    assert found == ["impressions-clicks", "presses"]


def run(directory: Path, coordination: LocalCoordination, upto: int | None = None) -> list[Any]:
    """An outer join; a table of the results, and one of the late rows."""
    topology = TridentTopology("ads")
    shown = [("a", 1, at(12, 0)), ("b", 2, at(12, 5)), (None, 3, at(12, 6)), ("c", 4, at(12, 40)), ("d", 5, at(11, 0))]
    clicked = [
        ("a", 6, at(12, 9)),
        ("b", 7, at(12, 30)),
        ("a", 8, at(12, 8)),
        ("c", 9, at(12, 50)),
        ("c", 10, at(12, 31)),
    ]
    streams = [
        topology.new_stream(name, FixedBatchSpout("ad string, n int, at timestamp", 1, *rows[:upto]))
        for name, rows in (("shown", shown), ("clicked", clicked))
    ]
    joined = topology.join(
        *(streams[0], "ad", streams[1], "ad", ["ad", "n", "shown", "m", "clicked"], "outer"),
        within=10 * MINUTE,
        timestamps=("at", "at"),
        watermark=MINUTE,
        store=SQLiteState(directory / "w.db", table="w"),
    )
    for name, found, keys in (
        ("joined", joined, ("ad", "n", "m")),
        ("late", joined.late_rows(), ("n", "m", "late_side", "late_reason")),
    ):
        found.group_by(*keys).persistent_aggregate(SQLiteState(directory / "out.db", table=name), Count(), "count")
    return run_batches(topology, coordination)


def select(path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute(query).fetchall()


def test_rows_of_different_transactions_are_joined_over_a_restart(tmp_path: Path) -> None:
    coordination = LocalCoordination()
    run(tmp_path, coordination, 2)
    assert select(tmp_path / "out.db", "SELECT ad, n, m, count FROM joined") == [("a", 1, 6, 1), ("b", 2, None, 1)]
    progress = run(tmp_path, coordination)
    assert progress[-1]["metrics"]["w.left.watermark"] == at(12, 39).timestamp()
    assert progress[-1]["metrics"]["w.right.watermark"] == at(12, 49).timestamp()
    assert sorted(select(tmp_path / "out.db", "SELECT ad, n, m, count FROM joined"), key=str) == [
        ("a", 1, 6, 1),
        ("b", 2, None, 1),
        ("c", 4, 9, 1),
        (None, 3, None, 1),
    ]
    assert sorted(select(tmp_path / "out.db", "SELECT * FROM late"), key=str)[0][:4] == (5, None, "left", "late")


def test_a_stream_can_be_joined_with_itself(tmp_path: Path) -> None:
    topology = TridentTopology("steps")
    rows = [("u", 1, at(12, 0)), ("u", 2, at(12, 3)), ("v", 3, at(12, 3)), ("u", 4, at(12, 9))]
    steps = topology.new_stream("steps", FixedBatchSpout("user string, n int, at timestamp", 1, *rows))
    fields = ["user", "n", "at", "m", "then"]
    joined = topology.join(
        *(steps, "user", steps, "user", fields), within=5 * MINUTE, timestamps=("at", "at"), watermark=MINUTE
    )
    following = joined.filter(lambda row: row.n < row.m)
    following.group_by("n", "m").persistent_aggregate(SQLiteState(tmp_path / "a.db", table="a"), Count(), "count")
    run_batches(topology)
    assert select(tmp_path / "a.db", "SELECT n, m, count FROM a") == [(1, 2, 1)]


def test_the_windows_and_the_late_rows_of_one_state_can_be_joined_over_time(tmp_path: Path) -> None:
    topology = TridentTopology("readings")
    rows = [("a", 1, at(12, 0)), ("a", 2, at(12, 6)), ("a", 3, at(12, 2)), ("b", 4, at(12, 30)), ("b", 5, at(13, 0))]
    stream = topology.new_stream("readings", FixedBatchSpout("device string, n int, at timestamp", 1, *rows))
    fired = stream.group_by("device").window(
        TumblingDuration(5 * MINUTE), "n", Sum("n"), "total", timestamp="at", watermark=timedelta(0)
    )
    late = fired.late_rows().project("device", "n", "at")
    joined = topology.join(
        *(fired, "device", late, "device", ["device", "total", "start", "end", "n", "at"], "left"),
        within=5 * MINUTE,
        timestamps=("window_start", "at"),
        watermark=timedelta(0),
        store=SQLiteState(tmp_path / "j.db", table="j"),
    )
    joined.group_by("device", "total", "n").persistent_aggregate(
        SQLiteState(tmp_path / "a.db", table="a"), Count(), "count"
    )
    run_batches(topology)
    assert select(tmp_path / "a.db", "SELECT device, total, n, count FROM a") == [("a", 1, 3, 1), ("a", 2, 3, 1)]


def test_an_empty_transaction_brings_a_row_that_an_idle_partition_holds() -> None:
    topology, told = TridentTopology("ads"), Fired()
    shown, clicked = (FeederBatchSpout("ad string, user string, at timestamp") for _ in range(2))
    left, right = topology.new_stream("shown", shown), topology.new_stream("clicked", clicked)
    joined = topology.join(
        *(left, "ad", right, "ad", ["ad", "user", "shown", "by", "clicked"], "left"),
        within=MINUTE,
        timestamps=("at", "at"),
        watermark=MINUTE,
        by=(None, "user"),
        idle=timedelta(milliseconds=300),
    )
    joined.partition_persist(told, told, "ad")
    with topology.start(coordination=LocalCoordination()):
        feed((shown, [("a", "x", at(12, 0))]), (clicked, [("b", "slow", at(12, 0)), ("b", "fast", at(12, 0))]))
        feed((shown, []), (clicked, [("b", "fast", at(13, 0))]))
        assert told.fired.wait(60)


def feed(*given: tuple[FeederBatchSpout, list[Any]]) -> None:
    """Feed a batch of each spout to one transaction."""
    threads = [threading.Thread(target=spout.feed, args=(rows, 60)) for spout, rows in given]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def test_late_rows_that_no_stream_takes_are_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    topology = TridentTopology("ads")
    rows = [("a", at(12, 1)), ("a", at(11, 1)), ("a", at(11, 1)), ("a", None)]
    left, right = (topology.new_stream(name, FixedBatchSpout("k string, at timestamp", 1, *rows)) for name in "lr")
    store = SQLiteState(tmp_path / "w.db", table="w")
    topology.join(
        *(left, "k", right, "k", ["k", "a", "b"]), within=MINUTE, timestamps=("at", "at"), watermark=MINUTE, store=store
    )
    with caplog.at_level(logging.WARNING):
        run_batches(topology)
    told = [record.getMessage() for record in caplog.records if "late_rows" in record.getMessage()]
    assert told == [
        "join w, attempt 2:0: some late rows are left out, and nothing reads late_rows(); this is logged once"
    ]


def test_both_sides_are_one_stream_each_row_beside_a_null_for_the_other_side() -> None:
    left, right = schema_of("k string, n int"), schema_of("at timestamp, tags array<string>")
    rows = [
        RowFlow.of(arrow_table([("a", 1), (None, 2)], left).to_batches(), left),
        RowFlow.of(arrow_table([(at(12, 0), ["x", None])], right).to_batches(), right),
    ]
    table = Sides("sides").on_rows(rows, None).table()
    assert table.schema == arrow_schema(Sides("sides").output([left, right]))
    assert rows_of(table) == [
        (False, ("a", 1), None),
        (False, (None, 2), None),
        (True, None, (at(12, 0), ["x", None])),
    ]


SOURCE = Sides("sides").output([schema_of(SHOWN), schema_of(CLICKED)])


def state(how: str = "inner", **changed: Any) -> JoinState:
    given = {"within": MINUTE, "timestamps": ("at", "at"), "watermark": MINUTE, **changed}
    times = JoinTimeArguments(**given).checked()
    assert times is not None
    join = join_of("join", "ad", "ad", FIELDS, how, preserve=False)
    return join_state(join, "some", LocalWindows("ads", "some"), times)


def test_what_the_stored_rows_depend_on_is_fixed_and_the_delays_may_change() -> None:
    fixed, details = state().identity(SOURCE, 1), state().details
    for changed in ({"watermark": 2 * MINUTE}, {"idle": MINUTE}, {"max_ahead": MINUTE}, {"by": ("ad", None)}):
        other = state(**changed)
        assert other.identity(SOURCE, 1) == fixed
        assert other.details != details
    for other, word in ((state("left"), "join"), (state(within=2 * MINUTE), "join")):
        changed_to = other.identity(SOURCE, 1)
        assert {name for name in changed_to if changed_to[name] != fixed[name]} == {word}
        assert word in other.fixed


def test_a_join_with_another_difference_is_refused_in_a_state(tmp_path: Path) -> None:
    with driven(state(), SOURCE, tmp_path):
        pass
    with (
        pytest.raises(StateError, match="join_micros_60000000"),
        driven(state(within=2 * MINUTE), SOURCE, tmp_path, 2),
    ):
        raise AssertionError("it is refused")


def windows(two: Two) -> Stream:
    return two.clicked.window(TumblingDuration(60), "price", Sum("price"), "sum")


WRONG: Mapping[str, tuple[Any, str]] = {
    "no timestamps": (
        lambda two: two.join(timestamps=None),
        r'with within=, timestamps= is needed: the fields with the time of a row on each side, such as \("at", "at"\)',
    ),
    "no watermark": (lambda two: two.join(watermark=None), r"with within=, watermark= is needed: how much later"),
    "no within": (
        lambda two: two.join(within=None),
        "timestamps= needs within=, by how much the times of two joined rows may differ",
    ),
    "only a store": (
        lambda two: two.join(within=None, timestamps=None, watermark=None, store=SQLiteState("w.db", table="w")),
        "store= needs within=",
    ),
    "seconds": (lambda two: two.join(within=30), r"within= is a timedelta of 0 s or more, not 30 \(int\)"),
    "a negative difference": (lambda two: two.join(within=-MINUTE), "within= is a timedelta of 0 s or more"),
    "one timestamp": (lambda two: two.join(timestamps="at"), "timestamps= are two names of fields, .*, not 'at'"),
    "three timestamps": (lambda two: two.join(timestamps=("at",) * 3), "timestamps= are two names of fields"),
    "an unknown timestamp": (
        lambda two: two.join(timestamps=("at", "when")),
        "there is no field 'when'; there are 'at'",
    ),
    "a timestamp that is none": (
        lambda two: two.join(timestamps=("at", "text")),
        "the field 'text' is string, and timestamps= of the right side needs a timestamp; convert it before, by",
    ),
    "three watermarks": (
        lambda two: two.join(watermark=(MINUTE, MINUTE, MINUTE)),
        "watermark= is one value, or two for the left and the right side, not",
    ),
    "a negative delay": (lambda two: two.join(watermark=(MINUTE, -MINUTE)), "watermark= is a timedelta of 0 s or more"),
    "an idle time of nothing": (lambda two: two.join(idle=timedelta(0)), "idle= is a timedelta of 0.001 s or more"),
    "an unknown partition": (lambda two: two.join(by="host"), "there is no field 'host'"),
    "maps as partitions": (lambda two: two.join(by=("tags", None)), "maps don't compare"),
    "keys of other types": (lambda two: two.join(keys=("ad", "price")), "the keys 'ad' and 'price' are string and int"),
    "more keys on one side": (
        lambda two: two.join(keys=(["ad", "user"], "ad")),
        "name as many keys on each side, at least one",
    ),
    "too few fields": (lambda two: two.join(fields=["ad"]), "the result has 7 fields"),
    "another kind": (lambda two: two.join(how="right"), "how is one of 'inner', 'left', 'outer', not 'right'"),
    "a state without a fence": (
        lambda two: two.join(store=OpaqueMap.factory(directory)),
        "a join over time needs a fenced state",
    ),
    "a store that forgets": (
        lambda two: two.join(store=SQLiteState("w.db", table="w", ttl=MINUTE)),
        "forgets what is stored after 0:01:00; joins over time need it",
    ),
    "late rows of a join within a batch": (
        lambda two: two.join(within=None, timestamps=None, watermark=None).late_rows(),
        "it follows a window or process with timestamp=, or a join with within=, directly",
    ),
    "a field of ours": (
        lambda two: two.join(fields=["late_side", *FIELDS[1:]]).late_rows(),
        "there is a field 'late_side' already",
    ),
    "windows and a stream": (
        lambda two: two.topology.join(
            *(two.shown, "ad", windows(two), "sum", FIELDS),
            within=MINUTE,
            timestamps=("at", "window_end"),
            watermark=MINUTE,
        ),
        "it combines rows of different moments",
    ),
    "a stream of another topology": (
        lambda two: two._replace(topology=TridentTopology("other")).join(),
        "a stream of another topology can't take part",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_work_is_an_error_where_it_is_declared(case: str, two: Two) -> None:
    declare, message = WRONG[case]
    with pytest.raises(TopologyError, match=message) as raised:
        declare(two)
    assert ", join('ad', " in str(raised.value) or "late_rows()" in str(raised.value) or "join([" in str(raised.value)
