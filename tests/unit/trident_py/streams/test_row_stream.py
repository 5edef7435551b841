"""Partitions, chains, extremes and assemblies, as they are declared."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.topologies import fields
from tests.unit.trident_py.worker.aggregators import Longest, Total
from trident_py.errors import TopologyError
from trident_py.interfaces.operations import Assembly
from trident_py.operations.assemblies import FirstN
from trident_py.operations.builtin import Count, Equals, Max, Negate, Sum
from trident_py.states.memory import MemoryMapState
from trident_py.streams.stream import Stream
from trident_py.topology import TridentTopology


class Busy(Assembly):
    """Words that come more than once."""

    def apply(self, stream: Any) -> Any:
        return stream.group_by("word").aggregate(Count(), "count").filter("count > 1")


def test_each_operation_knows_the_fields_behind_it(words: Stream) -> None:
    for same in (words.partition_by("word"), words.shuffle(), words.global_(), words.broadcast(), words.min_by("n")):
        assert fields(same) == fields(words)
    assert fields(words.parallelism_hint(3).max_by("word", len).apply(FirstN(3, "n"))) == fields(words)
    assert fields(words.partition_aggregate(Count(), "count")) == "count bigint"
    assert fields(words.group_by("word").partition_aggregate(Total(), "total int")) == "word string, total int"
    assert fields(words.apply(Busy())) == fields(words.apply(Busy().apply)) == "word string, count bigint"
    assert words.transform(lambda frame: frame).apply(FirstN(3, "any")).schema is None


WRONG: dict[str, tuple[Any, str]] = {
    "partition by an unknown field": (
        lambda s: s.partition_by("wrd"),
        r"topology 'wordcount', partition_by\('wrd'\): there is no field 'wrd'; there are 'word', 'n', 'tags'",
    ),
    "partition by nothing": (lambda s: s.partition_by(), "name the fields to partition by"),
    "partition by a field twice": (lambda s: s.partition_by("n", "n"), "'n' is named twice"),
    "partition by a map": (lambda s: s.partition_by("tags"), "maps don't compare"),
    "no partition": (lambda s: s.parallelism_hint(0), r"parallelism_hint\(0\): .* an int from 1, not 0"),
    "a part of a partition": (lambda s: s.parallelism_hint(1.5), r"not 1.5 \(float\)"),
    "partitions by yes or no": (lambda s: s.parallelism_hint(True), r"not True \(bool\)"),
    "a partition aggregate of an unknown field": (
        lambda s: s.partition_aggregate(Sum("x"), "t"),
        r"partition_aggregate\(Sum\('x'\)\): there is no field 'x'",
    ),
    "a partition aggregate to a group field": (
        lambda s: s.group_by("n").partition_aggregate(Count(), "n"),
        "there is a field 'n' already",
    ),
    "a chain of one name": (
        lambda s: s.chained_agg().aggregate(Count(), "a").aggregate(Total(), "A bigint"),
        r"topology 'wordcount', chained_agg\(Count\(\), Total\): two aggregators of one chain give a field 'A'",
    ),
    "a chain of a group field": (
        lambda s: s.group_by("word").chained_agg().aggregate(Max("n"), "word"),
        r"chained_agg\(Max\('n'\), 'word'\): there is a field 'word' already",
    ),
    "a chain of an unknown field": (lambda s: s.chained_agg().aggregate(Sum("x"), "t"), "no field 'x'"),
    "a chain of a class": (lambda s: s.chained_agg().aggregate(Count, "c"), "an aggregator is an instance of"),
    "a chain of two values": (
        lambda s: s.chained_agg().partition_aggregate(Total(), "a int, b int"),
        "Total gives one value: one field",
    ),
    "the least of an unknown field": (lambda s: s.min_by("x"), r"min_by\('x'\): there is no field 'x'"),
    "the least of a list in a list": (lambda s: s.min_by(["n", ["word"]]), r"a field name is a string, not \['word'\]"),
    "the least of a number": (lambda s: s.min_by(3), "fields are a name or a list of names, not 3"),
    "the least of no field": (lambda s: s.min_by([]), r"min_by\(\[\]\): name at least one field to compare"),
    "the least of fields, one a map": (lambda s: s.min_by(["n", "tags"]), r"Min\('tags'\) compares values"),
    "the least map": (lambda s: s.min_by("tags"), r"Min\('tags'\) compares values, and 'tags' is map<string,int>"),
    "the greatest of an unknown field": (lambda s: s.max_by("x", len), r"max_by\('x', len\): there is no field 'x'"),
    "the greatest of unknown fields": (
        lambda s: s.transform(lambda frame: frame).max_by("n", abs),
        "give transform its schema=",
    ),
    "the first of an unknown field": (
        lambda s: s.apply(FirstN(3, "x")),
        r"topology 'wordcount', apply\(FirstN\(3, 'x'\)\): there is no field 'x'",
    ),
    "an assembly that goes wrong": (
        lambda s: s.project("n").apply(Busy()),
        r"^topology 'wordcount', group_by\('word'\): there is no field 'word'",
    ),
    "an assembly that gives nothing": (
        lambda s: s.apply(lambda stream: None),
        r"what an assembly gives is an instance of Stream, not None",
    ),
    "the first of maps": (lambda s: s.apply(FirstN(3, "tags")), "'tags' is map<string,int>, and maps don't compare"),
    "partition by a function": (lambda s: s.partition(len), "the number of a partition is a Column or SQL, not <built"),
    "unequal things of two types": (
        lambda s: s.filter(Negate(Negate(Equals("word", "n")))),
        r"filter\(Negate\): Equals compares .* of one type, .* \['string', 'int'\]",
    ),
    "equal things of two types": (
        lambda s: s.filter(Equals("word", "n")),
        r"filter\(Equals\): Equals compares .* of one type, .* \['string', 'int'\]",
    ),
    "one equal thing": (lambda s: s.filter(Equals("word")), "two or more fields"),
    "equal maps": (lambda s: s.each(["tags"], Equals()), "maps not"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_work_is_an_error_where_it_is_declared(case: str, topology: TridentTopology, words: Stream) -> None:
    declare, message = WRONG[case]
    with pytest.raises(TopologyError, match=message):
        declare(words)


def test_new_values_take_all_of_them(words: Stream) -> None:
    state = words.group_by("word").persistent_aggregate(MemoryMapState.factory(), Count(), "count")
    values = state.new_values_stream()
    declarations: list[Callable[[], Stream]] = [
        lambda: values.shuffle(),
        lambda: values.partition("count"),
        lambda: values.partition_by("word"),
        lambda: values.parallelism_hint(2),
        lambda: values.min_by("count"),
        lambda: values.apply(FirstN(1, "count")),
    ]
    for declare in declarations:
        assert declare().schema == values.schema


# --- which repartitioning a hint is for -------------------------------------------------------------------------------


def test_the_plan_shows_them(topology: TridentTopology, words: Stream) -> None:
    behind = words.partition_by("word").parallelism_hint(2).group_by("word")
    mixed = behind.chained_agg().aggregate(Count(), "count").aggregate(Longest(), "longest string").chain_end()
    mixed.partition_aggregate(Count(), "x").min_by("x").apply(FirstN(3, "x"))
    words.chained_agg().aggregate(Count(), "a").aggregate(Sum("n"), "b").chain_end()
    lines = [re.sub(r"  +", "  ", line.strip()) for line in topology.explain().splitlines()]
    for line in (
        "partition_by('word')  Spark  word string, n int, tags map<string,int>",
        "parallelism_hint(2)  Spark  word string, n int, tags map<string,int>",
        "chained_agg(Count(), Longest, 'word')  Python  word string, count bigint, longest string",
        "partition_aggregate(Count())  Python  x bigint",
        "min_by('x')  Spark  x bigint",
        "transform(FirstN(3, 'x'))  Spark  x bigint",
        "chained_agg(Count(), Sum('n'))  Spark  a bigint, b bigint",
    ):
        assert line.replace("  ", " ") in [each.replace("  ", " ") for each in lines]
