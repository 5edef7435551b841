from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from tests.topologies import fields
from tests.unit.trident_py.declared import NamedFactory, Nowhere
from tests.unit.trident_py.worker.aggregators import Longest, Sorted, Total
from trident_py.errors import StateError, TopologyError
from trident_py.graph.graph import Phase
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.operations import Filter, Function
from trident_py.interfaces.states import StateFactory, StateUpdater
from trident_py.operations.builtin import Count, FilterNull, Max, Negate, Sum
from trident_py.rows.schema import schema_of
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.memory import MemoryMapState
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.streams.row_stream import described
from trident_py.streams.stream import Stream, TridentState
from trident_py.topology import TridentTopology
from trident_py.windows.windows import TumblingCount


class Lengths(Function):
    def execute(self, row: Any, collector: TridentCollector) -> None:
        collector.emit((len(row[0]),))


class IsLong(Filter):
    in_fields = ("word",)

    def is_keep(self, row: Any) -> bool:
        return len(row.word) > 3


class Append(StateUpdater[Any]):
    def update_state(self, state: Any, tuples: Any, collector: TridentCollector) -> None:
        state.extend(tuples)


def nothing(frame: DataFrame) -> DataFrame:
    return frame


def memory() -> StateFactory:
    return MemoryMapState.factory()


# --- which fields there are behind an operation -----------------------------------------------------------------------


def test_each_operation_knows_the_fields_behind_it(words: Stream) -> None:
    two = words.project("word", "n")
    assert fields(two) == "word string, n int"
    assert fields(two.map(tuple, "a double")) == "a double"
    assert fields(two.flat_map(list, schema_of("b date"))) == "b date"
    assert fields(two.filter(bool)) == fields(two.filter(IsLong())) == fields(two.filter("n > 1")) == fields(two)
    assert fields(two.filter(Negate(FilterNull("n")))) == fields(two.peek(print)) == fields(two)
    assert fields(two.each("word", Lengths(), "length int")) == "word string, n int, length int"
    assert fields(two.each(["word", "n"], FilterNull())) == fields(two)
    assert fields(two.transform(nothing, "c binary")) == "c binary"
    assert two.transform(nothing).schema is None
    assert two.transform(nothing).group_by("any").aggregate(Count(), "count").schema is None


def test_an_aggregate_has_the_group_fields_and_its_result(words: Stream) -> None:
    assert fields(words.aggregate(Count(), "count")) == "count bigint"
    assert fields(words.group_by("word").aggregate(Sum("n"), "total")) == "word string, total bigint"
    assert fields(words.group_by("n", "word").aggregate(Max("n"), "top")) == "n int, word string, top int"
    assert fields(words.group_by("n").aggregate(Longest(), "longest string")) == "n int, longest string"
    assert fields(words.aggregate(Total(), "total double", in_fields="n")) == "total double"
    assert fields(words.group_by("n").aggregate(Sorted(), "a int, b array<string>")) == "n int, a int, b array<string>"


def test_new_values_are_the_group_fields_and_the_value_or_what_the_updater_emits(words: Stream) -> None:
    state = words.group_by("word").persistent_aggregate(memory(), Count(), "count")
    assert fields(state.new_values_stream()) == "word string, count bigint"
    assert fields(words.persistent_aggregate(memory(), Total(), "total int").new_values_stream()) == "total int"
    emitting = words.partition_persist(memory(), Append(), ["word"], "size int")
    assert fields(emitting.new_values_stream()) == "size int"


# --- what cannot work is said where it is declared --------------------------------------------------------------------

WRONG: dict[str, tuple[Any, str]] = {
    "each of an unknown field": (
        lambda s: s.each("wrd", Lengths(), "length int"),
        r"topology 'wordcount', each\(Lengths\): there is no field 'wrd'; there are 'word', 'n', 'tags'",
    ),
    "each that adds a field twice": (lambda s: s.each("word", Lengths(), "n int"), "there is a field 'n' already"),
    "each of a field twice": (lambda s: s.each(["n", "n"], Lengths(), "a int"), "'n' is named twice"),
    "each of a number": (lambda s: s.each(3, Lengths(), "a int"), "fields are a name or a list of names, not 3"),
    "each of nothing": (lambda s: s.each([], Lengths(), "a int"), "name at least one field"),
    "each of a function without fields": (lambda s: s.each("word", Lengths()), "needs out_schema"),
    "each of a filter with fields": (lambda s: s.each("word", IsLong(), "a int"), "a Filter emits no fields"),
    "each of a class": (lambda s: s.each("word", Lengths, "a int"), "an instance of Function or Filter, not <class"),
    "each of a function": (lambda s: s.each("word", len, "a int"), r"each\(len\): each takes an instance"),
    "each of a filter that looks elsewhere": (lambda s: s.each("n", IsLong()), "IsLong carries its fields; use filter"),
    "map to a schema that does not parse": (
        lambda s: s.map(tuple, "a strin"),
        r"map\(tuple\): schema 'a strin': expected",
    ),
    "map to a field twice": (lambda s: s.map(tuple, "a int, A int"), "'A' is named twice"),
    "map with no function": (lambda s: s.map("word", "a int"), r"map\('word'\): a function is needed, not 'word'"),
    "flat_map with no function": (lambda s: s.flat_map(None, "a int"), "a function is needed, not None"),
    "filter by a class": (lambda s: s.filter(IsLong), r"IsLong is a class; give an instance, IsLong\(…\)"),
    "filter by an unknown field": (lambda s: s.filter(FilterNull("wrd")), "no field 'wrd'"),
    "filter by nothing": (lambda s: s.filter(None), "a function is needed"),
    "peek with no function": (lambda s: s.peek(3), "a function is needed, not 3"),
    "project to an unknown field": (lambda s: s.project("word", "wrd"), r"project\('word', 'wrd'\): .* no field 'wrd'"),
    "project to a field twice": (lambda s: s.project("word", "word"), "'word' is named twice"),
    "project to nothing": (lambda s: s.project(), "name the fields to keep"),
    "project to no name": (lambda s: s.project(["word"]), "a field name is a string, not"),
    "transform with no function": (lambda s: s.transform("SELECT 1"), "a function is needed"),
    "transform to a schema that does not parse": (lambda s: s.transform(nothing, "a"), "expected a type"),
    "a name with a slash": (lambda s: s.name("a/b"), "a name is made of letters, digits"),
    "group by an unknown field": (lambda s: s.group_by("wrd"), r"group_by\('wrd'\): there is no field 'wrd'"),
    "group by nothing": (lambda s: s.group_by(), "name the fields to group by"),
    "group by a map": (
        lambda s: s.group_by("tags").aggregate(Count(), "c"),
        "'tags' is map<string,int>, and maps don't",
    ),
    "aggregate by a class": (lambda s: s.aggregate(Count, "c"), "an aggregator is an instance of .*, not <class"),
    "aggregate a text": (lambda s: s.aggregate(Sum("word"), "total"), "adds numbers, and 'word' is string"),
    "aggregate an unknown field": (
        lambda s: s.aggregate(Sum("x"), "total"),
        r"aggregate\(Sum\('x'\)\): .* no field 'x'",
    ),
    "aggregate a built-in with a type": (
        lambda s: s.aggregate(Count(), "c bigint"),
        "give the name of the result only",
    ),
    "aggregate a built-in with fields": (lambda s: s.aggregate(Count(), "c", "n"), "has its own input fields"),
    "aggregate to a name without type": (lambda s: s.aggregate(Total(), "total"), "expected a type"),
    "aggregate to two fields": (lambda s: s.aggregate(Total(), "a int, b int"), "Total gives one value: one field"),
    "aggregate to a group field": (lambda s: s.group_by("n").aggregate(Count(), "n"), "there is a field 'n' already"),
    "aggregate of an unknown input": (lambda s: s.aggregate(Total(), "t int", in_fields=["m"]), "no field 'm'"),
    "a state that is no factory": (
        lambda s: s.persistent_aggregate(MemoryMapState, Count(), "c"),
        "a state factory is an instance of StateFactory, not <class",
    ),
    "a state of an aggregator": (lambda s: s.persistent_aggregate(memory(), Sorted(), "c int"), "use aggregate first"),
    "a state that can't hold the type": (
        lambda s: s.persistent_aggregate(NamedFactory(), Total(), "total double"),
        r"topology 'wordcount', persistent_aggregate\(Total\): 'total' is double, only bigint",
    ),
    "persist an unknown field": (lambda s: s.partition_persist(memory(), Append(), "wrd"), "no field 'wrd'"),
    "persist with no updater": (
        lambda s: s.partition_persist(memory(), Append, "word"),
        "a state updater is an instance",
    ),
    "persist in no factory": (
        lambda s: s.partition_persist(Append(), Append(), "word"),
        "a state factory is an instance",
    ),
    "persist in typed columns": (
        lambda s: s.partition_persist(SQLiteState("counts.db", table="counts"), Append(), "word"),
        r"SQLiteState\(.*\) keeps typed columns; use it with persistent_aggregate",
    ),
    "persist nothing": (lambda s: s.partition_persist(memory(), Append(), []), "at least one field for the updater"),
    "write to no sink": (lambda s: s.write_to("out.parquet"), "a sink is an instance of TransactionalSink"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_work_is_an_error_where_it_is_declared(case: str, topology: TridentTopology, words: Stream) -> None:
    declare, message = WRONG[case]
    before = topology.explain()
    with pytest.raises((TopologyError, StateError), match=message):
        declare(words)
    assert topology.explain() == before


def test_new_values_take_whatever_a_stream_does(words: Stream) -> None:
    values = words.group_by("word").persistent_aggregate(memory(), Count(), "count").new_values_stream()
    row_wise = values.filter(IsLong()).each("count", Lengths(), "x int").map(tuple, "y int").flat_map(list, "z int")
    assert row_wise.peek(print).project("z").filter(bool)._node.phase is Phase.COMMIT
    assert isinstance(values.partition_persist(memory(), Append(), "word"), TridentState)
    assert fields(values.aggregate(Count(), "c")) == "c bigint"
    assert fields(values.group_by("word").aggregate(Sum("count"), "c")) == "word string, c bigint"
    state = values.group_by("count").persistent_aggregate(memory(), Total(), "n int", in_fields="count")
    assert fields(state.new_values_stream().window(TumblingCount(2), "n", Max("n"), "max")) == "max int"
    assert values.transform(nothing).schema is None
    assert values.filter("count > 1").min_by("count").schema == values.schema
    values.write_to(Nowhere())


def test_an_updater_that_emits_nothing_has_no_new_values(words: Stream) -> None:
    with pytest.raises(TopologyError, match=r"partition_persist\(Append\) declares no out_schema"):
        words.partition_persist(memory(), Append(), "word").new_values_stream()


# --- what states are called -------------------------------------------------------------------------------------------


def test_a_sink_takes_one_stream(words: Stream) -> None:
    sink = Nowhere()
    words.write_to(sink)
    with pytest.raises(TopologyError, match="this sink is 'lines-sink' already"):
        words.filter(bool).write_to(sink)


# --- how things are shown ---------------------------------------------------------------------------------------------


class Callable:
    def __call__(self, row: Any) -> Any:
        return row


def test_a_function_is_shown_by_its_name_and_place() -> None:
    place = f"{Path(__file__).name}:{nothing.__code__.co_firstlineno}"
    assert described(nothing) == f"nothing at {place}"
    assert described(lambda: 0).startswith("<lambda> at test_stream.py:")
    assert [described(each) for each in (len, str.split, "n > 1", Count(), Callable(), int)] == [
        "len", "split", "'n > 1'", "Count()", "Callable", "int",
    ]  # fmt: skip


def test_what_is_declared_shows_what_it_is_called_and_its_fields() -> None:
    topology = TridentTopology("shown")
    words = topology.new_stream("words", FixedBatchSpout("word string, n int", 1))
    grouped = words.name("counted").group_by("word")
    state = grouped.persistent_aggregate(MemoryMapState.factory(), Count(), "count")
    assert [repr(each) for each in (topology, words, grouped, state, words.transform(lambda frame: frame))] == [
        "TridentTopology('shown')",
        "Stream(topology='shown', schema='word string, n int')",
        "GroupedStream(Stream(topology='shown', name='counted', schema='word string, n int'), group_fields=('word',))",
        "TridentState(topology='shown', name='counted')",
        "Stream(topology='shown')",
    ]
