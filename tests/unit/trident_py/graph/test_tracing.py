"""The partitions of a spout as those of the watermark: rows are traced to them, whatever happens to their fields."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trident_py.engine.resident.programs import program_of
from trident_py.errors import TopologyError
from trident_py.graph.tracing import carry, traced
from trident_py.interfaces.keyed import KeyedFunction
from trident_py.operations.builtin import Count, Sum
from trident_py.planner.plan import plan
from trident_py.planner.sharing import SharedBranch, shared
from trident_py.rows.schema import arrow_schema, schema_of
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.spouts.kafka.kafka import KafkaSpout
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.streams.stream import Stream
from trident_py.testing import LocalCoordination, run_batches
from trident_py.topology import TridentTopology
from trident_py.windows.windows import SessionWindow, TumblingDuration

MINUTE = timedelta(minutes=1)
SCHEMA = "topic string, partition int, n bigint, at timestamp"


class Parted(FixedBatchSpout):
    """Its rows say from which partition they come."""

    partition_fields: ClassVar[Sequence[str]] = ("topic", "partition")


def at(minute: int) -> datetime:
    return datetime(2024, 5, 1, 12, tzinfo=UTC) + timedelta(minutes=minute)


SLOW = [("t", 0, 1, at(0)), ("t", 1, 2, at(0)), ("t", 0, 4, at(30)), ("t", 1, 8, at(2)), ("t", 0, 16, at(60))]
"""Partition 1 is behind, so nothing of it is late, and one window of a minute fires."""


def numbers(stream: Stream) -> Stream:
    """A stream without the fields of the partition, by operations of all kinds."""
    return (
        stream.shuffle()
        .map(lambda row: (row.n, row.at, "extra"), "n bigint, at timestamp, extra string")
        .filter(lambda row: row.n > 0)
        .parallelism_hint(2)
        .project("n", "at")
    )


def windowed(stream: Stream, **how: Any) -> Stream:
    return stream.window(TumblingDuration(MINUTE), "n", Sum("n"), "n", timestamp="at", watermark=timedelta(0), **how)


def kept(path: Path, table: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as database:
        return sorted(database.execute(f"SELECT n, count FROM {table}"))  # noqa: S608 - ours


def counted(stream: Stream, path: Path, table: str) -> None:
    stream.group_by("n").persistent_aggregate(SQLiteState(path, table=table), Count(), "count")


@pytest.mark.parametrize("reads_late", [False, True], ids=["by pane", "as rows"])
def test_a_slow_partition_holds_the_watermark_although_its_fields_are_gone(tmp_path: Path, reads_late: bool) -> None:
    topology, path = TridentTopology("parted"), tmp_path / "out.db"
    fired = windowed(numbers(topology.new_stream("parted", Parted(SCHEMA, 1, *SLOW))))
    counted(fired, path, "fired")
    if reads_late:
        late = fired.late_rows().schema
        assert late is not None
        assert late.names == ["n", "at", "late_reason", "late_watermark"]
        counted(fired.late_rows(), path, "late")
    run_batches(topology)
    assert kept(path, "fired") == [(3, 1)]
    assert not reads_late or kept(path, "late") == []


def test_late_rows_do_not_have_the_field_that_is_carried(tmp_path: Path) -> None:
    topology, path = TridentTopology("parted"), tmp_path / "out.db"
    rows = [("t", 0, 1, at(9)), ("t", 1, 2, at(9)), ("t", 0, 4, at(0))]
    fired = windowed(numbers(topology.new_stream("parted", Parted(SCHEMA, 1, *rows))))
    counted(fired.late_rows(), path, "late")
    run_batches(topology)
    assert kept(path, "late") == [(4, 1)]


class Seen(KeyedFunction):
    output_schema = "n bigint"
    state_schema = "n bigint"

    def on_rows(self, key: Any, rows: Any, state: Any, timers: Any) -> Any:
        for n, at in rows:
            assert n == key.n
            timers.set(at)

    def on_timer(self, key: Any, when: Any, state: Any, timers: Any) -> Any:
        return [(when.minute,)]


def test_a_function_with_timers_goes_by_the_partitions_and_does_not_see_them(tmp_path: Path) -> None:
    topology, path = TridentTopology("parted"), tmp_path / "out.db"
    stream = numbers(topology.new_stream("parted", Parted(SCHEMA, 1, *SLOW))).group_by("n")
    counted(stream.process(Seen(), timestamp="at", watermark=timedelta(0)), path, "fired")
    run_batches(topology)
    assert kept(path, "fired") == [(0, 2), (2, 1)]


@pytest.mark.parametrize("by", [None, (None, "n")], ids=["both sides", "one side"])
def test_each_side_of_a_join_goes_by_its_own_partitions(tmp_path: Path, by: Any) -> None:
    topology, path = TridentTopology("parted"), tmp_path / "out.db"
    stream = numbers(topology.new_stream("parted", Parted(SCHEMA, 1, *SLOW)))
    joined = topology.join(
        *(stream, "n", stream.map(lambda row: (-row.n, row.at), "n bigint, at timestamp"), "n"),
        ["n", "left_at", "right_at"],
        "outer",
        within=timedelta(0),
        timestamps=("at", "at"),
        watermark=timedelta(0),
        by=by,
    )
    counted(joined, path, "joined")
    run_batches(topology)
    # With ``by="n"``, the greatest time of each of the five numbers holds the watermark of the right side.
    left = [] if by else [(1, 1), (2, 1)]
    assert kept(path, "joined") == [(-2, 1), (-1, 1), *left]


def test_a_stream_can_be_joined_with_itself_if_only_one_side_goes_by_the_partitions(tmp_path: Path) -> None:
    topology, path = TridentTopology("parted"), tmp_path / "out.db"
    stream = numbers(topology.new_stream("parted", Parted(SCHEMA, 1, *SLOW)))
    over_time: Any = {"within": timedelta(0), "timestamps": ("at", "at"), "watermark": timedelta(0), "by": (None, "n")}
    counted(topology.join(stream, "n", stream, "n", ["n", "left_at", "right_at"], **over_time), path, "joined")
    run_batches(topology)
    assert kept(path, "joined") == [(row[2], 1) for row in SLOW]


# --- as if the fields were still there --------------------------------------------------------------------------------

rows_of_spout = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([0, 1, None]), st.integers(1, 5), st.integers(0, 40)),
    max_size=12,
)
PATHS: dict[str, Callable[[Stream], Stream]] = {
    "dropped": lambda stream: stream.project("n", "at"),
    "by functions": numbers,
    "unchanged": lambda stream: stream,
}


@pytest.mark.parametrize("path", PATHS)
@given(rows_of_spout, st.integers(1, 4), st.booleans(), st.booleans())
@settings(max_examples=8, deadline=None)
def test_partitions_of_the_spout_are_as_good_as_fields_of_the_rows(
    path: str, given_rows: Sequence[Any], size: int, reads_late: bool, is_session: bool
) -> None:
    rows = [(topic, partition, n, at(minute)) for topic, partition, n, minute in given_rows]
    results: list[Any] = []
    for by in (None, ["topic", "partition"]):
        with tempfile.TemporaryDirectory() as directory:
            topology, out = TridentTopology("parted"), Path(directory) / "out.db"
            stream = topology.new_stream("parted", Parted(SCHEMA, size, *rows))
            window: Any = SessionWindow(MINUTE) if is_session else TumblingDuration(5 * MINUTE)
            how: Any = {"timestamp": "at", "watermark": MINUTE, "by": by, "store": SQLiteState(out, table="w")}
            found = (stream if by else PATHS[path](stream)).window(window, "n", Sum("n"), "n", **how)
            counted(found, out, "fired")
            if reads_late:
                counted(found.late_rows(), out, "late")
            run_batches(topology)
            results.append([kept(out, "fired"), *([kept(out, "late")] if reads_late else [])])
    assert results[0] == results[1]


# --- what runs where --------------------------------------------------------------------------------------------------


def shared_branch(declare: Callable[[Stream], Stream]) -> SharedBranch:
    topology = TridentTopology("parted")
    windowed(declare(topology.new_stream("parted", Parted(SCHEMA, 1))))
    made = shared(plan(topology._graph).branches[0], lambda *_: True)
    assert made is not None
    return made


@pytest.mark.parametrize("path", PATHS)
def test_a_resident_task_gives_the_partition_of_each_row_and_its_transaction(path: str) -> None:
    branch = shared_branch(PATHS[path])
    schema = arrow_schema(schema_of(SCHEMA))
    batches = {
        number: pa.Table.from_pylist([dict(zip(schema.names, row, strict=True))], schema=schema)
        for number, row in enumerate(SLOW, 5)
    }
    made = program_of(branch)(branch.together(batches).to_batches())
    parts = branch.apart(made, list(batches))
    assert [part.column("_trident_partition").to_pylist() for part in parts.values()] == [
        [f"t/{partition}"] for _, partition, _, _ in SLOW
    ]


def test_rows_over_which_a_function_raises_are_left_out_of_the_watermark_too(tmp_path: Path) -> None:
    topology, path = TridentTopology("parted"), tmp_path / "out.db"
    rows = [*SLOW, ("t", 1, 0, at(90)), ("t", 0, 1, at(90))]
    stream = topology.new_stream("parted", Parted(SCHEMA, 7, *rows))
    numbers = stream.map(lambda row: (8 // row.n, row.at), "n bigint, at timestamp")
    bad = numbers.on_error()
    counted(windowed(numbers), path, "fired")
    counted(bad, path, "bad")
    run_batches(topology)
    assert kept(path, "bad") == [(0, 1)]
    assert kept(path, "fired") == [(12, 1)]


# --- what it says -----------------------------------------------------------------------------------------------------


def described(declare: Callable[[Stream], Stream], spout: Any = None, **how: Any) -> str:
    topology = TridentTopology("parted")
    windowed(declare(topology.new_stream("parted", spout or Parted(SCHEMA, 1))), **how)
    (line,) = [line for line in topology.explain().splitlines() if "by event time" in line]
    return line.partition("max_ahead 1 day, 0:00:00, ")[2].partition(", kept as")[0]


def test_explain_says_which_partitions_the_watermark_has_and_why() -> None:
    parted = "the least over the values of the spout's topic, partition"
    assert described(numbers) == described(lambda stream: stream.filter("n > 1")) == parted
    assert described(numbers, by="n") == "the least over the values of n"
    assert described(numbers, by=[]) == "all rows are one partition"
    one = "all rows are one partition, because "
    assert described(numbers, FixedBatchSpout(SCHEMA, 1)) == one + "FixedBatchSpout has no partition_fields"
    for name, declare in {
        "group_by('at', 'n').aggregate": lambda stream: stream.group_by("at", "n").aggregate(Count(), "c"),
        "transform": lambda stream: stream.transform(lambda frame: frame, SCHEMA),
        "broadcast()": lambda stream: stream.broadcast(),
    }.items():
        found = described(declare)
        assert found.startswith(one + "they can't be traced through "), name


def test_rows_of_windows_and_of_merged_streams_are_one_partition() -> None:
    topology = TridentTopology("parted")
    stream = topology.new_stream("parted", Parted(SCHEMA, 1))
    fired = windowed(stream)
    for each, reason in ((topology.merge(stream, stream), "merge(2 streams)"), (fired, "windows that fire")):
        assert traced(each._node).reason == f"they can't be traced through {reason}"
    with pytest.raises(AssertionError, match="can't carry partitions"):
        carry(fired._node)


def test_the_partitions_of_kafka_are_its_topics_and_their_partitions() -> None:
    spout = KafkaSpout("localhost:1", "orders")
    assert spout.partition_fields == ("topic", "partition")
    stream = numbers(TridentTopology("orders").new_stream("orders", spout).map(tuple, SCHEMA))
    assert traced(stream._node).fields == ("topic", "partition")


def test_partition_fields_that_can_not_work_are_refused() -> None:
    class Wrong(FixedBatchSpout):
        partition_fields: ClassVar[Sequence[str]] = ("at",)

    class Missing(FixedBatchSpout):
        partition_fields: ClassVar[Sequence[str]] = ("host",)

    for spout, message in ((Wrong, "has 'at', which is timestamp"), (Missing, "there is no field 'host'")):
        with pytest.raises(TopologyError, match=message):
            TridentTopology("parted").new_stream("parted", spout(SCHEMA, 1))


def test_a_field_with_the_name_of_the_carried_one_is_refused() -> None:
    stream = TridentTopology("parted").new_stream("parted", Parted(SCHEMA, 1))
    mapped = stream.map(tuple, "topic string, _trident_partition int, n bigint, at timestamp")
    with pytest.raises(TopologyError, match=r"map.* has a field '_trident_partition', .* name the partitions by by="):
        plan(windowed(mapped)._graph)


# --- another version --------------------------------------------------------------------------------------------------


def test_a_version_with_other_partitions_continues_at_the_same_watermark(tmp_path: Path) -> None:
    coordination, path = LocalCoordination(), tmp_path / "out.db"
    more = [("t", 1, 32, at(1)), ("t", 1, 64, at(90)), ("t", 0, 128, at(95))]
    told, upto = [], [SLOW[:3], [*SLOW[:3], *more], [*SLOW[:3], *more, *more[1:]]]
    for spout, rows in zip((FixedBatchSpout, Parted, FixedBatchSpout), upto, strict=True):
        topology = TridentTopology("parted")
        fired = windowed(topology.new_stream("parted", spout(SCHEMA, 1, *rows)), store=SQLiteState(path, table="w"))
        counted(fired, path, "fired")
        told.append(run_batches(topology, coordination)[-1]["metrics"]["w.watermark"])
    assert told == [at(30).timestamp(), at(90).timestamp(), at(95).timestamp()]
    assert kept(path, "fired") == [(3, 1), (4, 1), (64 + 64, 1)]
