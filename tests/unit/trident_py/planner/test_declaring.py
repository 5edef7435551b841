"""Two versions of a topology, from declarations to the answer of a start: docs/how-to/changing-a-topology.md."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from coordinators.record.record import CoordinatorRecord
from coordinators.takeover.changes import Comparison, compared
from coordinators.values.canonical import Json
from tests.unit.coordinators.takeover import test_output_changes, test_spout_changes
from tests.unit.trident_py.declared import Nowhere
from tests.unit.trident_py.states.stores import Store
from trident_py.graph.joining import join_of
from trident_py.graph.time_join import JoinTimeArguments
from trident_py.interfaces.keyed import KeyedFunction
from trident_py.interfaces.sinks import TransactionalSink
from trident_py.interfaces.spouts import IBatchSpout, Replay
from trident_py.operations.builtin import Count, Max, Sum
from trident_py.planner.declaring import declarations
from trident_py.spouts.files.files import FileSpout
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.maps import NonTransactionalMap, OpaqueMap
from trident_py.states.memory import MemoryMapState
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.streams.stream import Stream, joined_over_time
from trident_py.topology import TridentTopology
from trident_py.windows.windows import TumblingCount, TumblingDuration

AT = 20
"""The transaction that comes next when the second version starts."""

TABLE = Path(__file__).parents[4] / "docs" / "how-to" / "changing-a-topology.md"


def compared_versions(before: Callable[[Stream], Any], now: Callable[[Stream], Any], **spouts: Any) -> Comparison:
    first, second = (TridentTopology("wc"), TridentTopology("wc"))
    before(first.new_stream("lines", spouts.get("first", FixedBatchSpout("word string, n bigint", 2))))
    now(second.new_stream("lines", spouts.get("second", FixedBatchSpout("word string, n bigint", 2))))
    return started(second, ran(first))


def ran(topology: TridentTopology) -> CoordinatorRecord:
    """The record after it has run for a while and was stopped."""
    declared = declarations(topology._graph, ())
    record = compared(CoordinatorRecord(epoch=1), declared).record
    return evolve(record, current_txid=AT, metadata={AT - 1: dict.fromkeys(declared.spouts, 1)})


def started(topology: TridentTopology, record: CoordinatorRecord) -> Comparison:
    return compared(record, declarations(topology._graph, ()))


def counted(stream: Stream, *keys: str, table: str = "counts", aggregator: Any = None, days: int = 0) -> Any:
    grouped = stream.group_by(*(keys or ("word",)))
    state = SQLiteState("c.db", table=table, ttl=timedelta(days=days) if days else None)
    return grouped.persistent_aggregate(state, aggregator or Count(), "c")


def windowed(stream: Stream, length: int = 10, **named: str) -> None:
    stream.group_by(named.get("key", "word")).window(TumblingCount(length), ["word", "n"], Count(), "c")


def by_event_time(stream: Stream, *, minutes: int = 5, by: str | None = None) -> None:
    timed = stream.map(lambda row: (*row, None), "word string, n bigint, at timestamp")
    delay = timedelta(minutes=minutes)
    timed.name("timed").window(TumblingDuration(60), "n", Count(), "c", timestamp="at", watermark=delay, by=by)


def over_time(stream: Stream, *, seconds: int = 5, minutes: int = 5) -> None:
    timed = stream.map(lambda row: (*row, None), "word string, n bigint, at timestamp").name("timed")
    join = join_of("join", "word", "word", ["word", "n", "at", "m", "other"], "inner", preserve=False)
    within, delay = timedelta(seconds=seconds), timedelta(minutes=minutes)
    times = JoinTimeArguments(within=within, timestamps=("at", "at"), watermark=delay).checked()
    assert times is not None
    joined_over_time((timed, timed), join, times, None)


class Doing(KeyedFunction):
    output_schema = "n bigint"
    state_schema = "n bigint"

    def on_rows(self, *_: Any) -> None: ...


class DoingMore(KeyedFunction):
    output_schema = "n bigint"
    state_schema = "n bigint"

    def on_rows(self, *_: Any) -> None: ...


def processed(stream: Stream, function: KeyedFunction, key: str = "word") -> None:
    stream.group_by(key).process(function)


class Ticks(IBatchSpout):
    output_schema = "word string, n bigint"

    def emit_batch(self, batch_id: int, collector: Any) -> None: ...


class Numbers(FixedBatchSpout):
    pass


class Narrow(FixedBatchSpout):
    replay = Replay.OPAQUE


class Topic(Ticks):
    def __init__(self, topic: str) -> None:
        self.topic = topic

    def identity(self) -> Mapping[str, Json]:
        return {"topic": self.topic}


class Somewhere(TransactionalSink[None]):
    recover = Nowhere.recover
    prepare, commit, abort = Nowhere.prepare, Nowhere.commit, Nowhere.abort


def written(stream: Stream) -> Any:
    stream.write_to(Nowhere())


def files(glob: str) -> FileSpout:
    return FileSpout(glob)


GOES_ON: dict[str, tuple[Callable[[], Comparison], str]] = {
    "functions, filters, settings": (
        lambda: compared_versions(
            lambda lines: counted(lines.filter(lambda row: row.n > 1).map(lambda row: row, "word string, n bigint")),
            lambda lines: counted(lines.filter(bool).map(lambda row: (row.word, 0), "word string, n bigint")),
        ),
        "",
    ),
    "operations in front of a state": (
        lambda: compared_versions(counted, lambda lines: counted(lines.shuffle().peek(print).filter("n > 1"))),
        "",
    ),
    "the order of declaration": (
        lambda: compared_versions(
            lambda lines: (counted(lines), counted(lines, table="others")),
            lambda lines: (counted(lines, table="others"), counted(lines)),
        ),
        "",
    ),
    "a class renamed by deriving": (
        lambda: compared_versions(counted, counted, second=Numbers("word string, n bigint", 2)),
        "",
    ),
    "a state, window or sink more": (
        lambda: compared_versions(counted, lambda lines: (counted(lines), counted(lines, table="by_url"))),
        "state 'by_url' is new: it begins with transaction 20, without the 19 before it",
    ),
    "another delay of a watermark": (
        lambda: compared_versions(by_event_time, lambda lines: by_event_time(lines, minutes=7)),
        "window 'timed': its watermark changed from '0:05:00' to '0:07:00', with transaction 20",
    ),
    "another delay of a join over time": (
        lambda: compared_versions(over_time, lambda lines: over_time(lines, minutes=7)),
        "join 'timed': its watermark changed from '0:05:00' to '0:07:00', with transaction 20",
    ),
    "one less": (
        lambda: compared_versions(lambda lines: [written(lines), counted(lines)], counted),
        "sink 'lines-sink' was fed until transaction 19 and is not declared any more; it stays as it is",
    ),
    "a table renamed": (
        lambda: compared_versions(counted, lambda lines: counted(lines, table="words")),
        "state 'counts' was fed until transaction 19 and is not declared any more; it stays as it is",
    ),
    "files": (
        lambda: compared_versions(
            lambda lines: counted(lines, "value"),
            lambda lines: counted(lines, "value"),
            first=files("logs/*"),
            second=files("logs/*.txt"),
        ),
        "spout 'lines': its glob changed from 'logs/*' to 'logs/*.txt', with transaction 20",
    ),
    "fields of a spout": (
        lambda: compared_versions(counted, counted, second=FixedBatchSpout("word string, n bigint, at string", 2)),
        "spout 'lines': its fields changed from 'word string, n bigint' to 'word string, n bigint, at string', with "
        "transaction 20",
    ),
    "what a spout promises": (
        lambda: compared_versions(counted, counted, second=Narrow("word string, n bigint", 2)),
        "spout 'lines': its replay changed from 'exact' to 'opaque', with transaction 20",
    ),
    "a state in memory": (
        lambda: compared_versions(
            lambda lines: lines.persistent_aggregate(MemoryMapState.factory(), Count(), "n"),
            lambda lines: lines.persistent_aggregate(MemoryMapState.factory(), Max("n"), "n"),
        ),
        "",
    ),
    "a ttl added": (
        lambda: compared_versions(counted, lambda lines: counted(lines, days=30)),
        "state 'counts': its ttl changed from 'none' to '30 days, 0:00:00', with transaction 20",
    ),
    "a ttl changed": (
        lambda: compared_versions(lambda lines: counted(lines, days=30), lambda lines: counted(lines, days=1)),
        "state 'counts': its ttl changed from '30 days, 0:00:00' to '1 day, 0:00:00', with transaction 20",
    ),
    "a name for what had none": (
        lambda: compared_versions(windowed, lambda lines: windowed(lines.filter(bool).name("lines-window"))),
        "",
    ),
}

REFUSED: dict[str, tuple[Callable[[], Comparison], str, bool]] = {
    "another kind of spout": (
        lambda: compared_versions(counted, counted, second=Ticks()),
        "spout 'lines': its kind changed from 'FixedBatchSpout' to 'Ticks', and it would continue from a position",
        True,
    ),
    "what a spout says of itself": (
        lambda: compared_versions(counted, counted, first=Topic("a"), second=Topic("b")),
        "its topic changed from 'a' to 'b'",
        True,
    ),
    "another aggregator": (
        lambda: compared_versions(counted, lambda lines: counted(lines, aggregator=Max("n"))),
        "state 'counts': its aggregated fields changed from '' to 'n' and its aggregator changed from 'Count' to 'Max'",
        True,
    ),
    "an aggregator over another field": (
        lambda: compared_versions(
            lambda lines: counted(lines.map(lambda row: row, "word string, a int, b int"), aggregator=Sum("a")),
            lambda lines: counted(lines.map(lambda row: row, "word string, a int, b int"), aggregator=Sum("b")),
        ),
        "state 'counts': its aggregated fields changed from 'a' to 'b'",
        True,
    ),
    "group fields": (
        lambda: compared_versions(counted, lambda lines: counted(lines, "word", "n")),
        "state 'counts': its keys changed from 'word string' to 'word string, n bigint'",
        False,
    ),
    "what a store of one's own keeps": (
        lambda: compared_versions(
            lambda lines: lines.persistent_aggregate(OpaqueMap.factory(Store), Count(), "n"),
            lambda lines: lines.persistent_aggregate(NonTransactionalMap.factory(Store), Count(), "n"),
        ),
        "state 'lines-state': its map changed from 'OpaqueMap' to 'NonTransactionalMap'",
        True,
    ),
    "parts of a state": (
        lambda: compared_versions(
            lambda lines: lines.group_by("word").persistent_aggregate(OpaqueMap.factory(Store), Count(), "n"),
            lambda lines: (
                lines.group_by("word").persistent_aggregate(OpaqueMap.factory(Store), Count(), "n").parallelism_hint(3)
            ),
        ),
        "state 'lines-state': its parts changed from '1' to '3'",
        True,
    ),
    "the length of a window": (
        lambda: compared_versions(windowed, lambda lines: windowed(lines, 11)),
        "window 'lines-window': its window changed from 'tumbling_count_10' to 'tumbling_count_11'",
        False,
    ),
    "the keys of a function": (
        lambda: compared_versions(
            lambda lines: processed(lines, Doing()), lambda lines: processed(lines, Doing(), key="n")
        ),
        "process 'lines-process': its keys changed from 'word string' to 'n bigint'",
        False,
    ),
    "another function": (
        lambda: compared_versions(lambda lines: processed(lines, Doing()), lambda lines: processed(lines, DoingMore())),
        "process 'lines-process': its function changed from 'Doing' to 'DoingMore'",
        True,
    ),
    "the difference of a join over time": (
        lambda: compared_versions(over_time, lambda lines: over_time(lines, seconds=6)),
        "join 'timed': its join changed from 'inner join_micros_5000000' to 'inner join_micros_6000000'",
        False,
    ),
    "the keys of a window": (
        lambda: compared_versions(windowed, lambda lines: windowed(lines, key="n")),
        "its keys changed from 'word string' to 'n bigint'",
        False,
    ),
    "another window without a name": (
        lambda: compared_versions(lambda lines: windowed(lines.filter(bool)), windowed),
        "it has no explicit name, and the operations before it changed from 'lines > filter > window'",
        True,
    ),
    "fields of a sink": (
        lambda: compared_versions(
            written,
            lambda lines: lines.name("lines-sink").project("word").write_to(Nowhere()),
        ),
        "sink 'lines-sink': its fields changed from 'word string, n bigint' to 'word string'",
        True,
    ),
    "another sink": (
        lambda: compared_versions(lambda lines: lines.write_to(Somewhere()), written),
        "sink 'lines-sink': its kind changed from 'Somewhere' to 'Nowhere'",
        True,
    ),
}


@pytest.mark.parametrize("row", GOES_ON)
def test_what_is_harmless_goes_on_with_a_line_that_says_from_where(row: str) -> None:
    versions, line = GOES_ON[row]
    found = versions()
    assert found.refusals == ()
    assert line in found.lines or (not line and not found.lines)


@pytest.mark.parametrize("row", REFUSED)
def test_what_would_count_twice_skip_or_mix_is_refused_with_the_ways_on(row: str) -> None:
    versions, text, can_be_accepted = REFUSED[row]
    (refusal,) = versions().refusals
    assert text in refusal
    assert bool(re.search(r"accept=\['\w+:[\w-]+:[0-9a-f]{8}'\]", refusal)) == can_be_accepted


# --- the table --------------------------------------------------------------------------------------------------------

ROWS = {
    "functions, filters, operations, settings, the order of declaration": "functions, filters, settings",
    "a class is renamed and derived from the old one": "a class renamed by deriving",
    "a state, window or sink is added": "a state, window or sink more",
    "a state, window or sink is left out": "one less",
    "the state that was left out is declared again": (
        "test_a_state_that_comes_back_misses_transactions_and_may_be_accepted_so"
    ),
    "a table, or the name of a state, is changed": "a table renamed",
    "a spout is added": "test_a_spout_that_is_added_begins_where_the_topology_is",
    "a spout is left out": "test_a_spout_cannot_be_left_out_of_transactions_that_are_not_committed",
    "the spout that was left out is declared again": (
        "test_a_spout_that_was_left_out_goes_on_where_it_was_when_it_comes_back"
    ),
    "a spout is renamed; or one is left out, and another is new": (
        "test_a_renamed_spout_is_refused_with_both_names_the_states_it_would_fill_and_the_ways_on"
    ),
    "a spout of another class under the same `tx_id`": "another kind of spout",
    "the fields of a spout": "fields of a spout",
    "the glob of a `FileSpout`": "files",
    "the guarantee of a spout (`replay`)": "what a spout promises",
    "a `ttl` is added to a state": "a ttl added",
    "a `ttl` is made shorter, longer, or left out": "a ttl changed",
    "another aggregator or updater, or another field for it": "another aggregator",
    "the group fields or the type of the value of a SQL state": "group fields",
    "the kind of a state that you wrote, its keys, its number of parts": "parts of a state",
    "kind, length, slide, gap, keys or fields of a window, its `timestamp` or `by`": "the length of a window",
    "`within`, `how`, keys, fields, `timestamps` or `by` of a join over time": "the difference of a join over time",
    "the group fields, `state_schema`, `timestamp` or `by` of a [function with timers](timers.md)": (
        "the keys of a function"
    ),
    "another class of a function with timers": "another function",
    "`watermark`, `idle` or `max_ahead` of a window or of a function with timers": "another delay of a watermark",
    "`watermark`, `idle` or `max_ahead` of a join over time": "another delay of a join over time",
    "the operations before an unnamed window, sink or state": "another window without a name",
    "the fields of a sink": "fields of a sink",
}
"""The first column of the table, and the test of each row: here, or in tests/unit/coordinators."""


def test_each_row_of_the_table_has_its_test() -> None:
    table = re.findall(r"^\| (.*?) \| .* \|$", TABLE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert table[1:] == list(ROWS)
    assert {row for row in ROWS.values() if not row.startswith("test_")} <= {*GOES_ON, *REFUSED}
    elsewhere = {*vars(test_spout_changes), *vars(test_output_changes)}
    assert {row for row in ROWS.values() if row.startswith("test_")} <= elsewhere
