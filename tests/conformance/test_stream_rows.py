"""Rows of Stream, GroupedStream and of operations."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from functools import cache
from inspect import isabstract
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from attrs import define

from tests.integration.trident_py.test_streams import PLACE, WORDS, Batch, Place, places, same
from tests.unit.trident_py.windows.driven import declared, driven
from trident_py import (
    Aggregator,
    Assembly,
    CombinerAggregator,
    Count,
    FailedException,
    Filter,
    FixedBatchSpout,
    Function,
    GroupedMultiReducer,
    MemoryMapState,
    MultiReducer,
    Negate,
    Operation,
    QueryFunction,
    ReducerAggregator,
    StateUpdater,
    Stream,
    TridentCollector,
    TridentTopology,
    TumblingCount,
)
from trident_py.graph.rowwise import RowOperation
from trident_py.worker.pipeline import RowPipeline


@pytest.fixture
def topology() -> TridentTopology:
    return TridentTopology("rows")


@pytest.fixture
def words(topology: TridentTopology) -> Stream:
    return topology.new_stream("lines", FixedBatchSpout(WORDS, 2))


def by_hand(stream: Stream, rows: list[Any]) -> list[tuple[Any, ...]]:
    """What the last operation of ``stream``, a row operation, makes of ``rows``."""
    operation, source = stream._node.operation, stream._node.inputs[0].schema
    assert isinstance(operation, RowOperation)
    assert source is not None
    return [tuple(row) for row in RowPipeline(source).then(operation.step(source)).rows(rows)]


def test_S1_a_name_makes_another_stream_of_the_same_fields(words: Stream) -> None:
    named = words.name("by-hand")
    assert named != words
    assert named.schema == words.schema
    assert named.schema is not None
    assert named.schema.names == ["word", "n"]
    assert named.persistent_aggregate(MemoryMapState.factory(), Count(), "c").name == "by-hand"
    assert words.persistent_aggregate(MemoryMapState.factory(), Count(), "c").name == "lines-state"


@pytest.mark.spark
def test_S7_an_expression_says_which_partition_a_row_is_in(batch: Batch) -> None:
    def spread(change: Callable[[Stream], Stream], rows: list[Any]) -> list[list[Any]]:
        return places(batch(lambda s: change(s).partition_aggregate(Place(), PLACE), (WORDS, rows)))

    rows = [("a", 0), ("b", 1), ("c", 2), ("d", 4), (None, None)]
    found = spread(lambda s: s.filter(bool).partition("n").filter(bool).parallelism_hint(3), rows)
    assert [sorted(place, key=repr) for place in found] == [[("a", 0), (None, None)], [("b", 1), ("d", 4)], [("c", 2)]]
    assert spread(lambda s: s.partition("length(word)").parallelism_hint(2), []) == [[], []]
    assert same(batch(lambda s: s.partition("n").filter("n > 1").project("n"), (WORDS, rows)), [(2,), (4,)])


class Busy(Assembly):
    """Words that come more than once."""

    def apply(self, stream: Any) -> Any:
        return stream.group_by("word").aggregate(Count(), "count").filter("count > 1")


def test_S11_O10_an_assembly_is_what_its_operations_are(topology: TridentTopology, words: Stream) -> None:
    made = words.apply(Busy())
    by_function = words.apply(lambda stream: stream.apply(Busy()).project("word"))
    assert made.schema == words.group_by("word").aggregate(Count(), "count").schema
    assert by_function.schema == words.project("word").schema
    assert [node.operation.title for node in topology._graph.nodes][1:3] == [
        "aggregate(Count(), 'word')",
        "filter('count > 1')",
    ]


def test_G1_a_grouped_stream_knows_its_fields_and_its_stream(topology: TridentTopology, words: Stream) -> None:
    grouped = words.name("named").group_by("n", "word")
    assert grouped.group_fields == ("n", "word")
    assert grouped.to_stream() == words.name("named")
    assert grouped.to_stream().schema == words.schema
    assert len(topology._graph.nodes) == 1  # as in Storm, nothing is made of it yet
    assert grouped.persistent_aggregate(MemoryMapState.factory(), Count(), "c").name == "named"


# --- operations -------------------------------------------------------------------------------------------------------


@cache
def costly(name: str) -> Any:
    """One for each process, as a connection would be: it can't travel."""
    return threading.Lock(), name


class Connected(Function):
    """Needs something costly; has only its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def execute(self, row: Any, collector: TridentCollector) -> None:
        lock, name = costly(self.name)
        with lock:
            collector.emit((f"{name} {row.word}",))


@define
class ReportedOffsets(Operation):
    """Notes in a file what is called; has something that can't travel between ``prepare`` and ``cleanup``."""

    log: str
    name: str
    opened: Any = None

    def prepare(self) -> None:
        self.opened = open(self.log, "a")  # noqa: SIM115 - that is what the pair is for
        self.note("prepared")

    def cleanup(self) -> None:
        self.note("cleaned up")
        self.opened.close()
        raise OSError("is only logged")

    def note(self, what: str) -> None:
        self.opened.write(f"{self.name} {what}\n")
        self.opened.flush()


class NotedFunction(ReportedOffsets, Function):
    def execute(self, row: Any, collector: TridentCollector) -> None:
        self.note(f"saw {row.word}")
        collector.emit((1,))


class NotedFilter(ReportedOffsets, Filter):
    def is_keep(self, row: Any) -> bool:
        self.note(f"saw {row.word}")
        return False


class NotedCall(ReportedOffsets):
    def __call__(self, row: Any) -> Any:
        self.note(f"saw {row.word}")
        return row


class NotedAggregator(ReportedOffsets, Aggregator[int]):
    def init(self, batch_id: Any, collector: TridentCollector) -> int:
        self.note("began")
        return 0

    def aggregate(self, value: int, row: Any, collector: TridentCollector) -> int:
        return value + 1

    def complete(self, value: int, collector: TridentCollector) -> None:
        collector.emit((value,))


class NotedReducer(ReportedOffsets, MultiReducer[int]):
    def init(self, collector: TridentCollector) -> int:
        return 0

    def execute(self, value: int, stream_index: int, row: Any, collector: TridentCollector) -> int:
        return value + 1

    def complete(self, value: int, collector: TridentCollector) -> None:
        self.note(f"saw {value}")
        collector.emit((value,))


@pytest.mark.spark
def test_O1_operations_are_prepared_and_cleaned_up_where_they_run(batch: Batch, tmp_path: Path) -> None:
    log = tmp_path / "log"

    def reported(declare: Callable[..., Stream], *given: Any) -> list[str]:
        log.write_text("")
        batch(declare, *given, parts=1)
        return log.read_text().splitlines()

    function, call = NotedFunction(str(log), "function"), NotedCall(str(log), "call")
    not_kept = Negate(NotedFilter(str(log), "filter"))
    assert reported(
        lambda s: s.each("word", function, "one int").filter(not_kept).project("word").map(call, "w string"),
        (WORDS, [("a", 1)]),
    ) == [
        "function prepared", "filter prepared", "call prepared", "function saw a", "filter saw a", "call saw a",
        "function cleaned up", "filter cleaned up", "call cleaned up",
    ]  # fmt: skip
    aggregator = NotedAggregator(str(log), "aggregator")
    assert reported(lambda s: s.aggregate(aggregator, "n int"), (WORDS, [])) == [
        "aggregator prepared", "aggregator began", "aggregator cleaned up",
    ]  # fmt: skip
    reducer = NotedReducer(str(log), "reducer")
    both: list[Any] = [(WORDS, [("a", 1)]), (WORDS, [])]
    assert reported(lambda topology, *streams: topology.multi_reduce(streams, reducer, "n int"), *both) == [
        "reducer prepared", "reducer saw 1", "reducer cleaned up",
    ]  # fmt: skip


def test_W7_an_aggregator_is_prepared_for_the_windows_that_fire(tmp_path: Path) -> None:
    aggregator = NotedAggregator(str(tmp_path / "log"), "aggregator")
    with driven(declared(TumblingCount(2), aggregator, "n int"), "n int") as driver:
        assert driver.commit([(1,)]) == []
        assert not (tmp_path / "log").exists()
        assert driver.commit([(2,), (3,), (4,), (5,)]) == [(2,), (2,)]
    assert (tmp_path / "log").read_text().splitlines() == [
        "aggregator prepared", "aggregator began", "aggregator began", "aggregator cleaned up",
    ]  # fmt: skip


class Refuses(NotedFunction):
    def prepare(self) -> None:
        raise FailedException("no connection")


def test_O1_what_prepare_raises_says_where(words: Stream) -> None:
    with pytest.raises(FailedException) as caught:
        by_hand(words.each("word", Refuses("", "refuses"), "one int"), [("a", 1)])
    assert caught.value.__notes__ == ["in Refuses.prepare, of each(Refuses(log='', name='refuses', opened=None))"]


def test_O1_what_is_too_costly_for_each_batch_is_made_once_a_process(words: Stream) -> None:
    stream = words.each("word", Connected("here"), "said string")
    assert by_hand(stream, [("a", 1), ("b", 2)]) == [("a", 1, "here a"), ("b", 2, "here b")]
    assert costly.cache_info().misses == 1
    assert isinstance(pickle.loads(pickle.dumps(Connected("there"))), Connected)  # noqa: S301 - its own


class Times:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __call__(self, row: Any) -> Any:
        return (row.n * self.factor,)


def test_O9_anything_that_can_be_called_is_a_function(words: Stream) -> None:
    seen: list[Any] = []
    assert by_hand(words.map(Times(3), "m int"), [("a", 1), ("b", 2)]) == [(3,), (6,)]
    assert by_hand(words.flat_map(lambda row: [(row.word,)] * row.n, "w string"), [("a", 2), ("b", 0)]) == [("a",)] * 2
    assert by_hand(words.peek(seen.append), [("a", 1)]) == [("a", 1)] == seen
    assert by_hand(words.filter(itemgetter(1)), [("a", 0), ("b", 2)]) == [("b", 2)]


def test_O15_only_what_has_to_be_written_is_abstract() -> None:
    has_to_be_written = {
        Function: {"execute"},
        Filter: {"is_keep"},
        Aggregator: {"init", "aggregate", "complete"},
        CombinerAggregator: {"init", "combine", "zero"},
        ReducerAggregator: {"init", "reduce"},
        MultiReducer: {"init", "execute", "complete"},
        GroupedMultiReducer: {"init", "execute", "complete"},
        QueryFunction: {"batch_retrieve", "execute"},
        StateUpdater: {"update_state"},
    }
    for kind, methods in has_to_be_written.items():
        assert isabstract(kind)
        assert kind.__abstractmethods__ == methods
