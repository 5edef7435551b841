"""Windows over states: what is kept of them, what comes back, and what a crash in between may change: nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.trident_py.windows.driven import declared, directory, driven, fated, windows
from tests.unit.trident_py.worker.aggregators import Longest, Total
from trident_py.errors import StateError, TopologyError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.spouts import Replay
from trident_py.interfaces.states import StateKind, StateUpdater
from trident_py.operations.builtin import Count, Max, Sum
from trident_py.planner.guarantees import guarantee, warnings
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.maps import OpaqueMap, TransactionalMap
from trident_py.states.memory import MemoryMapState
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.streams.stream import Stream
from trident_py.topology import TridentTopology
from trident_py.windows import window_store
from trident_py.windows.windows import SlidingCount, SlidingDuration, TumblingCount, TumblingDuration, Window


class Appending(StateUpdater[Any]):
    def update_state(self, state: Any, tuples: Sequence[Any], collector: TridentCollector) -> None: ...


# --- what fires -------------------------------------------------------------------------------------------------------


def test_w2_one_batch_may_fire_many_windows_and_ids_go_on(tmp_path: Path) -> None:
    with driven(declared(SlidingCount(5, 2)), "n int", tmp_path) as driver:
        assert driver.commit([(1,)]) == []
        assert driver.commit([(n,) for n in range(2, 6)]) == [(1, [(1,), (2,)]), (2, [(1,), (2,), (3,), (4,)])]
        assert driver.commit([]) == []
        assert driver.commit([(6,)]) == [(3, [(n,) for n in range(2, 7)])]


def test_windows_by_count_are_kept_for_each_key_and_have_its_fields_in_front(tmp_path: Path) -> None:
    operation = declared(TumblingCount(2), Sum("n"), "sum", keys=("word",), in_fields=["n", "extra"])
    with driven(operation, "extra string, n int, word string", tmp_path) as driver:
        assert driver.commit([("", 1, "a"), ("", 2, "b"), ("", 3, None), ("", 4, "a")]) == [("a", 5)]
        assert driver.commit([("", 5, None), ("", 6, "b")]) == [(None, 8), ("b", 8)]
    assert operation.fields(driver.source).names == ["word", "n"]


def moments(*seconds: int) -> list[datetime]:
    return [datetime.fromtimestamp(each, UTC) for each in seconds]


def test_windows_by_time_fire_for_keys_that_get_no_more_rows_and_forget_them() -> None:
    with driven(declared(TumblingDuration(10), Count(), "count", keys=("word",)), "word string, n int") as driver:
        driver.now = 1001
        assert driver.commit([(word, 1) for word in "abca"]) == []
        driver.now = 1012
        assert driver.commit([("d", 1)]) == [(*row, *moments(1000, 1010)) for row in (("a", 2), ("b", 1), ("c", 1))]
        driver.now = 1025
        assert driver.commit([]) == [("d", 1, *moments(1010, 1020))]
        driver.now = 1100
        assert driver.commit([]) == []
        assert driver.size() == 1


def test_every_kind_of_aggregator_sees_its_own_fields() -> None:
    rows = [("to", 1), ("be", 2), ("longer", 3)]
    for aggregator, out, result in (
        (Longest(), "longest string", ("longer",)),
        (Total(), "total int", (6,)),
        (Max("n"), "max", (3,)),
        (Count(), "count", (3,)),
    ):
        with driven(declared(TumblingCount(3), aggregator, out, in_fields=["word", "n"]), "word string, n int") as own:
            assert own.commit(rows) == [result], aggregator


def test_an_aggregator_is_told_the_end_of_a_window_by_time() -> None:
    with driven(declared(TumblingDuration(60)), "n int") as driver:
        driver.now = 119.5
        driver.commit([(1,)])
        driver.now = 120
        assert driver.commit([]) == [(120_000_000, [(1,)], *moments(60, 120))]


def test_a_sliding_window_by_time_begins_its_length_before_its_end() -> None:
    with driven(declared(SlidingDuration(60, 30), Count(), "count"), "n int") as driver:
        driver.now = 125
        driver.commit([(1,)])
        driver.now = 185
        assert driver.commit([]) == [(1, *moments(90, 150)), (1, *moments(120, 180))]


def test_a_window_whose_aggregator_gives_bounds_of_its_own_adds_none() -> None:
    with driven(
        declared(TumblingDuration(60), Longest(), "window_start string", in_fields=["word"]), "word string"
    ) as driver:
        driver.now = 1
        driver.commit([("long",)])
        driver.now = 61
        assert driver.commit([]) == [("long",)]


def test_what_an_aggregator_raises_is_noted_with_the_window() -> None:
    with driven(declared(TumblingCount(1), Total(), "total int"), "n string") as driver, pytest.raises(TypeError) as at:
        driver.commit([("one",)])
    assert at.value.__notes__ == ["in window, over the 1 rows of window 1"]


def test_rows_are_counted_where_no_field_is_asked_for() -> None:
    operation = declared(TumblingCount(2), Count(), "count", in_fields=["word", "n"])
    with driven(operation, "n int, word string") as driver:
        assert driver.commit([(1, "a")] * 5) == [(2,), (2,)]
        assert operation.fields(driver.source).names == ["word"]


# --- what is kept -----------------------------------------------------------------------------------------------------


# --- crashes ----------------------------------------------------------------------------------------------------------

words = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 99)), max_size=5)
batches = fated(words, 4)


@pytest.mark.parametrize("keys", [(), ("word",)])
@pytest.mark.parametrize("seal", [0, 10**6], ids=["sealed", "loose"])
@given(windows, batches)
@settings(max_examples=15, deadline=None)
def test_storm_3280_storm_1628_no_crash_and_no_replay_changes_what_fires(
    keys: tuple[str, ...], seal: int, window: Window, batches: list[Any]
) -> None:
    """Attempts are given up in mid-commit, or replayed after it with other rows; the process comes and goes."""
    operation = declared(window, keys=keys, in_fields=["word", "n"])
    schema = "word string, n int"
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(window_store, "SEAL_BYTES", seal)
        with driven(operation, schema) as plain, driven(operation, schema, Path(directory)) as driver:
            for rows, fate, others, later in batches:
                driver.now += later
                for (now, emitted), given_rows in zip(driver.meet(fate, rows, others), (rows, others), strict=False):
                    plain.now = now
                    assert emitted == plain.commit(given_rows)


# --- how they are declared --------------------------------------------------------------------------------------------


def test_a_window_that_was_kept_otherwise_is_refused_at_the_start(tmp_path: Path) -> None:
    with driven(declared(SlidingCount(5, 2)), "n int", tmp_path) as driver:
        driver.commit([(1,)])
    for operation, schema in (
        (declared(SlidingCount(5, 3)), "n int"),
        (declared(SlidingCount(5, 2)), "n bigint"),
        (declared(SlidingDuration(5, 2)), "n int"),
    ):
        with (
            pytest.raises(StateError, match=r"window string, slot bigint, sliding_count_5_2_\w+ binary, declared are"),
            driven(operation, schema, tmp_path, epoch=2),
        ):
            raise AssertionError("it is refused")


@pytest.fixture
def words_stream() -> Stream:
    spout = FixedBatchSpout("word string, n int, tags map<string, int>", 2)
    return TridentTopology("trends").new_stream("words", spout)


def test_a_window_is_a_stream_with_the_results_and_behind_group_by_with_the_keys(words_stream: Stream) -> None:
    every = words_stream.window(TumblingCount(3), "n", Sum("n"), "sum")
    keyed = words_stream.name("keyed").group_by("word").window(TumblingDuration(3), ["n"], Total(), "total int")
    parted = words_stream.name("parted").partition_by("word").window(SlidingCount(3, 1), "n", Count(), "count")
    found = [stream.schema.simpleString() if stream.schema else "" for stream in (every, keyed, parted)]
    assert found == [
        "struct<sum:bigint>",
        "struct<word:string,total:int,window_start:timestamp,window_end:timestamp>",
        "struct<count:bigint>",
    ]
    typed = words_stream.name("typed").window(TumblingCount(3), [], Sum("n"), "sum bigint")
    assert typed.schema == every.schema
    assert isinstance(every.name("again").window(TumblingCount(2), "sum", Sum("sum"), "sum"), Stream)
    assert isinstance(keyed.name("twice").group_by("word").window(TumblingCount(2), "total", Count(), "n"), Stream)


def test_explain_shows_windows_with_their_guarantee() -> None:
    topology = TridentTopology("trends")
    words = topology.new_stream("words", FixedBatchSpout("word string, n int", 2))
    fired = words.name("recent").group_by("word").window(SlidingCount(3, 1), "n", Count(), "count")
    fired.partition_persist(OpaqueMap.factory(directory), Appending(), "count")
    words.window(TumblingCount(2), "n", Count(), "count", store=SQLiteState("own.db", table="own"))
    text = topology.explain()
    at = text.index("commit phase")
    assert text[at:].splitlines()[1:] == [
        "  recent: SQLiteState(trends-windows.db in the state_dir, table='w_recent_034a7e52'), "
        "window(SlidingCount(length=3, slide=1), Count(), 'word')",
        "      exactly-once: data and commit token change in one atomic step, and older tokens are refused",
        "      windows that fire",
        "          words-state: OpaqueMap over directory, partition_persist(Appending)",
        f"              {guarantee(Replay.OPAQUE, StateKind.OPAQUE)}",
        "              no fence: while it commits, stop() keeps leading and says so, unless it is stop(force=True)",
        "  own: SQLiteState(path='own.db', table='own'), window(TumblingCount(length=2), Count())",
        "      exactly-once: data and commit token change in one atomic step, and older tokens are refused",
        "      windows that fire",
    ]


def test_c_what_windows_give_makes_a_stream_opaque() -> None:
    """When a window fires again in a replay, others may, and their rows may come in another order."""
    topology = TridentTopology("trends")
    words = topology.new_stream("words", FixedBatchSpout("word string", 2))
    fired = words.window(TumblingCount(3), "word", Count(), "count").group_by("count")
    fired.persistent_aggregate(TransactionalMap.factory(directory), Count(), "n")
    fired.persistent_aggregate(MemoryMapState.factory(), Count(), "n")
    (warning,) = warnings(topology._graph)
    assert "behind spout 'words' and window(TumblingCount(length=3), Count()): not exactly-once" in warning


def test_a_request_has_no_windows() -> None:
    requests = TridentTopology("trends").new_drpc_stream("ask")
    with pytest.raises(TopologyError, match="a request is no transaction"):
        requests.window(TumblingCount(3), "args", Count(), "c")


WRONG: Mapping[str, tuple[Any, str]] = {
    "no window": (lambda words: words.window(3, "n", Count(), "c"), "a window is a TumblingCount, .* not 3"),
    "no fields": (lambda words: words.window(TumblingCount(3), [], Count(), "c"), "at least one field"),
    "unknown field": (lambda words: words.window(TumblingCount(3), "m", Count(), "c"), "there is no field 'm'"),
    "unseen field": (
        lambda words: words.window(TumblingCount(3), "word", Sum("n"), "c"),
        "there is no field 'n'; there are 'word'",
    ),
    "a name twice": (
        lambda words: words.group_by("word").window(TumblingCount(3), "n", Count(), "Word"),
        "there is a field 'Word' already",
    ),
    "no aggregator": (lambda words: words.window(TumblingCount(3), "n", sum, "c"), "an aggregator is an instance"),
    "no type": (lambda words: words.window(TumblingCount(3), "n", Total(), "c"), "window"),
    "maps as keys": (lambda words: words.group_by("tags").window(TumblingCount(3), "n", Count(), "c"), "maps don't"),
    "no fence": (
        lambda words: words.window(TumblingCount(3), "n", Count(), "c", store=OpaqueMap.factory(directory)),
        "needs a fenced state",
    ),
    "shared": (
        lambda words: [
            words.window(TumblingCount(3), "n", Count(), "c", store=SQLiteState("a.db", table="a")),
            words.window(TumblingCount(4), "n", Count(), "c", store=SQLiteState("a.db", table="a")),
        ],
        "there is a state SQLiteState.* already",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_work_is_an_error_where_it_is_declared(case: str, words_stream: Stream) -> None:
    declare, message = WRONG[case]
    with pytest.raises(TopologyError, match=message) as raised:
        declare(words_stream)
    assert str(raised.value).startswith("topology 'trends', window(")
