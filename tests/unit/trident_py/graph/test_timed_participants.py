"""States by time in groups of keys: tasks and the driver, in turns, give what one updater gives for all keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from attrs import define, evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from coordinators.values.attempt import TRIAL_TXID, TransactionAttempt
from tests.unit.trident_py.graph.keyed_model import SCHEMA as KEYED
from tests.unit.trident_py.graph.keyed_model import Script
from tests.unit.trident_py.graph.test_keyed_updater import keyed
from tests.unit.trident_py.participants.test_staged import TX
from tests.unit.trident_py.participants.test_tasked import ROWS, Changing, Tagging
from tests.unit.trident_py.windows import test_event_store as by_event
from tests.unit.trident_py.windows.driven import TOPOLOGY, Driver, declared
from tests.unit.trident_py.windows.test_join_store import LEFT_ROW, RIGHT_ROW, SOURCE, joined
from trident_py.graph.event_time import EventTimeArguments
from trident_py.graph.timed_participants import LATE, RESULTS, NewestRows, TaskedTimedParticipant, TimedChange
from trident_py.graph.timed_state import TimedState
from trident_py.graph.timed_updater import VALUES, KeyGroups, Newests
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.operations import Aggregator
from trident_py.interfaces.states import Emitted
from trident_py.operations.builtin import Sum
from trident_py.rows.row import Row, columns_in
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.states.changes import UpdateCollector, rows_emitted
from trident_py.states.memory import MemoryMapState
from trident_py.windows.key_groups import GROUPS
from trident_py.windows.windows import SessionWindow, SlidingDuration, TumblingCount, TumblingDuration, Window

at, START = by_event.at, by_event.START
WORDS = "abcdefgh"


class Told(Aggregator[list[str]]):
    """Emits the window's id and the numbers of its rows."""

    def init(self, batch_id: Any, collector: TridentCollector) -> list[str]:
        return [str(batch_id)]

    def aggregate(self, value: list[str], row: Any, collector: TridentCollector) -> None:
        value.append(str(row.n))

    def complete(self, value: list[str], collector: TridentCollector) -> None:
        collector.emit((" ".join(value),))


TIMES = EventTimeArguments(timestamp="at", watermark=timedelta(seconds=2), max_ahead=timedelta(seconds=60))


def windows(window: Window, times: EventTimeArguments = TIMES, *, sums: bool = False) -> TimedState:
    aggregator: Any = Sum("n") if sums else Told()
    return declared(window, aggregator, "told" if sums else "told string", keys=("word",), event_time=times)


@define
class Grouped(Driver):
    """Changes the state by groups of keys.

    Attributes:
        parts: so many tasks do it, each for its partition; 0: the driver does.
    """

    parts: int = 0

    def changed(self, rows: Sequence[Row]) -> list[Any]:
        groups, time = KeyGroups(self.updater, self.fed, GROUPS), round(self.now * 1000)
        assert isinstance(self.state, MemoryMapState)
        given = arrow_table(rows, self.fed)
        if not self.parts:
            collector = UpdateCollector("here", self.outputs)
            assert list(groups.feeding(self.state, given, time, collector)) == list(range(GROUPS))
            return collector.rows
        change = self.change_of(groups, time)
        change = evolve(change, newest=self.newest(change, given))
        emitted, partitions = list[Emitted](), pa.array(change.partitions(given, self.parts), pa.int32())
        for partition in range(self.parts):
            its = given.filter(pc.equal(partitions, partition))
            emitted += change.apply(self.state, its if its.num_rows else pa.table({}), partition)
        return self.decoded(change, sorted(emitted, key=lambda each: each.place))

    def newest(self, change: TimedChange, rows: pa.Table) -> Newests:
        """As tasks find it for some rows each, and the driver puts it together."""
        found: list[dict[str, int]] = [{} for _ in change.groups.newest(rows.slice(0, 0), 0)]
        halves = [rows.slice(0, rows.num_rows // 2), rows.slice(rows.num_rows // 2)]
        batches = [batch for half in halves for batch in half.to_batches()]
        for told in NewestRows(change)(iter(batches)):
            for number, name, newest in zip(*columns_in(told), strict=True):
                found[number][name] = max(newest, found[number].get(name, newest))
        return found

    def change_of(self, groups: KeyGroups, time: int) -> TimedChange:
        return TimedChange(
            groups=groups,
            where="here",
            outputs=self.outputs,
            streams=streams_of(self),
            time=time,
            parts=self.parts,
        )

    def decoded(self, change: TimedChange, emitted: Sequence[Emitted]) -> list[Any]:
        streams = [
            rows_emitted([each for each in emitted if each.stream == number], fields)
            for number, fields in enumerate(change.streams)
        ]
        if self.outputs != VALUES:
            return streams[RESULTS]
        return [*((True, row) for row in streams[LATE]), *((False, row) for row in streams[RESULTS])]


def streams_of(driver: Driver) -> list[StructType]:
    late = [driver.operation.late_fields(driver.source)] if driver.operation.times else []
    return [driver.operation.output([driver.source]), *late]


def in_any_order(driver: Driver, emitted: Sequence[Any]) -> list[list[str]]:
    """The rows of each stream."""
    pairs = emitted if driver.operation.times else [(RESULTS, row) for row in emitted]
    return [
        sorted(map(repr, arrow_table([row for number, row in pairs if number == stream], fields).to_pylist()))
        for stream, fields in enumerate(streams_of(driver))
    ]


def compared(
    operation: TimedState, schema: Any, history: Sequence[tuple[Sequence[Any], str, Sequence[Any], int, int]]
) -> None:
    """Both give the same rows in each transaction, over attempts that fail, are replayed, or come after a crash."""
    source, one_state, state = schema_of(schema), MemoryMapState[Any](), MemoryMapState[Any]()
    one, many = Driver(one_state, operation, source), Grouped(state, operation, source)
    for driver in (one, many):
        driver.state.recover(TOPOLOGY, 1)
        driver.now = START
    for rows, fate, others, later, parts in history:
        many.parts = parts
        found = []
        for driver in (one, many):
            driver.now += later
            found.append([(now, in_any_order(driver, emitted)) for now, emitted in driver.meet(fate, rows, others)])
        assert found[0] == found[1]
    updater = many.updater
    groups = KeyGroups(updater, many.fed, GROUPS).of(state)
    assert all(updater.watermarks(each) == updater.watermarks(one_state) for each in groups)
    at_rest = [updater.next_window_at(each) for each in groups]
    assert min((each for each in at_rest if each is not None), default=None) == updater.next_window_at(one_state)


def histories(rows: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    fates = st.sampled_from(["commits", "commits", "fails", "is replayed", "crashes"])
    batch = st.lists(rows, max_size=6)
    return st.lists(
        st.tuples(batch, fates, batch, st.integers(0, 8), st.sampled_from([0, 1, 2, 3, GROUPS])), max_size=8
    )


words, moments = st.sampled_from(WORDS), (st.none() | st.integers(-30, 80)).map(at)
timed = histories(st.tuples(words, st.integers(0, 9), moments))
bys = st.sampled_from([None, "word"])
idles = st.sampled_from([None, 6])


@given(
    st.sampled_from([TumblingDuration(3), SlidingDuration(5, 2), SessionWindow(3)]), st.booleans(), bys, idles, timed
)
@settings(max_examples=50, deadline=None)
def test_windows_by_event_time_in_tasks_are_those_of_the_driver(
    window: Any, sums: bool, by: str | None, idle: float | None, history: Any
) -> None:
    times = evolve(TIMES, by=by, idle=None if idle is None else timedelta(seconds=idle))
    compared(windows(window, times, sums=sums), by_event.SCHEMA, history)


@given(st.sampled_from([TumblingDuration(3), SlidingDuration(5, 2), TumblingCount(2)]), timed)
@settings(max_examples=30, deadline=None)
def test_windows_of_arriving_rows_in_tasks_are_those_of_the_driver(window: Any, history: Any) -> None:
    compared(windows(window, EventTimeArguments()), by_event.SCHEMA, history)


sided = st.tuples(st.booleans(), words | st.none(), st.integers(0, 9), moments).map(
    lambda row: (True, None, RIGHT_ROW((row[3], *row[2:0:-1]))) if row[0] else (False, LEFT_ROW(row[1:]), None)
)


@given(st.sampled_from(["inner", "left", "outer"]), bys, idles, histories(sided))
@settings(max_examples=50, deadline=None)
def test_joins_over_time_in_tasks_are_those_of_the_driver(
    how: str, by: str | None, idle: float | None, history: Any
) -> None:
    ordered = [
        (sorted(rows, key=_side), fate, sorted(others, key=_side), *rest) for rows, fate, others, *rest in history
    ]
    compared(joined(how, 5, watermark=(0, 3), by=by, idle=idle), SOURCE, ordered)


def _side(row: tuple[bool, Any, Any]) -> bool:
    return row[0]


@given(
    st.sampled_from([None, 2]), bys, idles, histories(st.tuples(words, st.integers(0, 6), st.integers(0, 9), moments))
)
@settings(max_examples=50, deadline=None)
def test_functions_with_timers_in_tasks_give_what_they_give_on_the_driver(
    watermark: float | None, by: str | None, idle: float | None, history: Any
) -> None:
    time: dict[str, Any] = {} if watermark is None else {"watermark": watermark, "by": by, "idle": idle}
    compared(keyed(Script(), **time), KEYED, history)


# Each rule is needed: without it, this history of two keys tells.

HISTORY: list[Any] = [
    ([("a", 1, at(0))], "commits", [], 1, 2),
    ([("b", 1, at(9))], "commits", [], 1, 2),
    ([("a", 1, at(20))], "commits", [], 1, 2),
]


def neglecting(sound: Callable[..., Any]) -> Callable[..., Any]:
    """Feed only the groups that have rows."""

    def feeding(groups: KeyGroups, state: Any, rows: pa.Table, time: int, collector: Any, newest: Any, _: Any) -> Any:
        for each in sorted(set(groups.numbers(rows) if rows.num_rows else ())):
            yield from sound(groups, state, rows, time, collector, newest, range(each, each + 1))

    return feeding


def test_the_rules_of_groups_are_enough_for_a_window_without_new_rows() -> None:
    compared(windows(TumblingDuration(3)), by_event.SCHEMA, HISTORY)


@pytest.mark.parametrize("mutant", ["own rows only", "groups with rows only"])
def test_without_a_rule_of_groups_windows_fire_late(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if mutant == "own rows only":
        monkeypatch.setattr(Grouped, "newest", lambda driver, change, rows: None)
    else:
        monkeypatch.setattr(KeyGroups, "feeding", neglecting(KeyGroups.feeding))
    with pytest.raises(AssertionError):
        compared(windows(TumblingDuration(3)), by_event.SCHEMA, HISTORY)


def test_a_trial_changes_nothing_in_tasks_and_counts_as_tried() -> None:
    state, spark, operation = Changing(), Tagging([]), windows(TumblingDuration(3))
    fields = schema_of(by_event.SCHEMA)
    participant = TaskedTimedParticipant(
        name="some",
        state=state,
        groups=KeyGroups(operation.updater(fields), fields, GROUPS),
        outputs=VALUES,
        streams=[operation.output([fields])],
        kind=operation.kind,
        spark=spark,
    )
    trial = evolve(TX, attempt=TransactionAttempt(TRIAL_TXID, 0))
    assert participant.before_commit(trial, ROWS) is ROWS
    assert participant.try_commit(trial, ROWS)
    assert (state.told, spark.attempts) == ([], [])
