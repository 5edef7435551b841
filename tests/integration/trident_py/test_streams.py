"""Each operation on streams as Spark runs it, beside the same in plain Python; tests are called after Storm's rows."""

from __future__ import annotations

import math
import runpy
import secrets
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from coordinators.values.attempt import TransactionAttempt
from tests.unit.trident_py.worker.aggregators import Longest, Sorted, Total
from trident_py.errors import TopologyError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.operations import Aggregator, GroupedMultiReducer, MultiReducer
from trident_py.interfaces.spouts import IBatchSpout
from trident_py.operations.assemblies import FirstN
from trident_py.operations.builtin import Count, Equals, Max, Min, Sum
from trident_py.planner.plan import check, plan
from trident_py.rows.row import Row, rows_of
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.memory import MemoryMapState
from trident_py.streams.stream import Stream
from trident_py.topology import TridentTopology

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]

ROOT = Path(__file__).parents[3]
PATIENCE_SECONDS = 180

WORDS = "word string, n int"
WORD = st.none() | st.sampled_from(["a", "b", "", "ü", "日本 x", "\U0001f600", "twice"])
ROWS = st.lists(st.tuples(WORD, st.none() | st.integers(-3, 3)), max_size=12)
PARTS = st.integers(1, 5)
EDGES = [("a", 1), (None, 2), (None, None), ("a", None), ("ü", 0), ("日本 x", -1)]
"""Nulls on either side of a join, groups of one and of two."""

few = settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Batch:
    """Batches of several spouts, each in some partitions, and what a declaration makes of them."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def frame(self, schema: str, rows: Sequence[Any], parts: int) -> DataFrame:
        """``rows``, in ``parts`` partitions; some are empty where there are fewer rows."""
        fields = schema_of(schema)
        frame = self.spark.createDataFrame(arrow_table(rows, fields), fields)
        return frame.repartition(parts) if parts > 1 else frame.coalesce(1)

    def __call__(self, declare: Callable[..., Stream], *given: tuple[str, Sequence[Any]], parts: int = 3) -> list[Row]:
        """The rows behind ``declare``, which gets the topology if it wants more than one stream."""
        topology = TridentTopology("streams")
        streams = [
            topology.new_stream(f"spout-{number}", FixedBatchSpout(schema, 1))
            for number, (schema, _) in enumerate(given)
        ]
        declared = declare(*streams) if len(streams) == 1 else declare(topology, *streams)
        (branch,) = check(plan(topology._graph), self.spark).branches
        frames = {f"spout-{number}": self.frame(*each, parts) for number, each in enumerate(given)}
        made = branch.build(frames, TransactionAttempt(1, 0)).toArrow()
        assert declared.schema is None or made.schema.names == declared.schema.names
        return rows_of(made)


@pytest.fixture
def batch(spark: SparkSession) -> Batch:
    return Batch(spark)


def same(found: Sequence[Any], expected: Sequence[Any]) -> bool:
    return Counter(map(repr, map(tuple, found))) == Counter(map(repr, map(tuple, expected)))


def by_word(rows: Sequence[Any]) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = defaultdict(list)
    for word, n in rows:
        groups[word].append(n)
    return groups


def longest(words: Sequence[Any]) -> str:
    return max((word or "" for word in words), key=lambda word: (len(word), word), default="")


class Place(Aggregator[list[Any]]):
    """Emits the rows of a partition, as one value; also if there are none."""

    def init(self, batch_id: Any, collector: TridentCollector) -> list[Any]:
        assert batch_id is None or batch_id.txid == 1
        return []

    def aggregate(self, value: list[Any], row: Any, collector: TridentCollector) -> None:
        value.append(tuple(row))

    def complete(self, value: list[Any], collector: TridentCollector) -> None:
        collector.emit([value])


class Twice(Aggregator[int]):
    """Emits the number of rows twice; nothing where there are none."""

    def init(self, batch_id: Any, collector: TridentCollector) -> int:
        return 0

    def aggregate(self, value: int, row: Any, collector: TridentCollector) -> int:
        return value + 1

    def complete(self, value: int, collector: TridentCollector) -> None:
        for _ in range(2 * bool(value)):
            collector.emit([value])


PLACE = "rows array<struct<word: string, n: int>>"


def places(rows: Sequence[Row]) -> list[list[Any]]:
    """What is in each partition, behind ``partition_aggregate(Place(), PLACE)``."""
    return [[tuple(each) for each in row.rows] for row in rows]


# --- partitions -------------------------------------------------------------------------------------------------------


@few
@given(ROWS, PARTS)
def test_s6_partition_by_brings_equal_values_together_and_has_every_partition(
    batch: Batch, rows: list[Any], parts: int
) -> None:
    found = places(
        batch(
            lambda s: s.partition_by("word").parallelism_hint(4).partition_aggregate(Place(), PLACE),
            (WORDS, rows),
            parts=parts,
        )
    )
    assert len(found) == 4
    assert same([row for place in found for row in place], rows)
    for word in by_word(rows):
        assert sum(any(row[0] == word for row in place) for place in found) == 1


@pytest.mark.parametrize("rows", [[("a", 1), ("b", 2), ("c", None)], []], ids=["rows", "empty"])
def test_s8_shuffle_global_and_broadcast_and_s2_parallelism_hint_say_which_partitions_there_are(
    batch: Batch, rows: list[Any]
) -> None:
    def spread(change: Callable[[Stream], Stream]) -> list[list[Any]]:
        return places(batch(lambda s: change(s).partition_aggregate(Place(), PLACE), (WORDS, rows)))

    assert [sorted(place, key=repr) for place in spread(lambda s: s.global_())] == [sorted(rows, key=repr)]
    shuffled = spread(lambda s: s.shuffle().peek(bool).parallelism_hint(2).filter(lambda row: True))
    assert len(shuffled) == 2
    assert same([row for place in shuffled for row in place], rows)
    dealt = spread(lambda s: s.filter(lambda row: True).parallelism_hint(3).parallelism_hint(2))
    assert len(dealt) == 3
    copies = spread(lambda s: s.broadcast().parallelism_hint(3))
    assert len(copies) == 3
    assert all(same(copy, rows) for copy in copies)
    assert same(batch(lambda s: s.broadcast(), (WORDS, rows)), rows)
    assert same(batch(lambda s: s.shuffle().filter("n > 1").project("n"), (WORDS, rows)), [(2,)] * bool(rows))
    assert same(batch(lambda s: s.partition_by("n").global_().map(tuple, WORDS), (WORDS, rows)), rows)


# --- partition_aggregate ----------------------------------------------------------------------------------------------

PARTITION_WISE: dict[str, tuple[Callable[[Stream], Stream], Callable[[list[Any]], Any]]] = {
    "built-in": (lambda s: s.partition_aggregate(Count(), "x").aggregate(Sum("x"), "y"), len),
    "combiner": (
        lambda s: s.partition_aggregate(Longest(), "word string").aggregate(Longest(), "y string"),
        lambda rows: longest([word for word, _ in rows]),
    ),
    "reducer": (
        lambda s: s.partition_aggregate(Total(), "n bigint").aggregate(Total(), "y bigint"),
        lambda rows: sum(n or 0 for _, n in rows),
    ),
    "aggregator": (
        lambda s: s.partition_aggregate(Twice(), "n int").aggregate(Sum("n"), "y"),
        lambda rows: 2 * len(rows),
    ),
    "behind row operations": (
        lambda s: (
            s.shuffle()
            .filter(lambda row: row.n)
            .map(lambda row: (row.n,), "n int")
            .partition_aggregate(Total(), "n bigint")
            .aggregate(Sum("n"), "y")
        ),
        lambda rows: sum(n or 0 for _, n in rows),
    ),
}


@pytest.mark.parametrize("case", PARTITION_WISE)
@settings(few, max_examples=2)
@given(rows=ROWS, parts=PARTS)
def test_s12_partition_aggregate_of_every_kind_adds_up_to_the_batch(
    batch: Batch, case: str, rows: list[Any], parts: int
) -> None:
    declare, expected = PARTITION_WISE[case]
    for given_rows in (rows, []):
        assert batch(declare, (WORDS, given_rows), parts=parts) == [(expected(given_rows),)]


@pytest.mark.parametrize(
    ("aggregator", "out", "nothing"),
    [(Count(), "x", 0), (Min("n"), "x", None), (Longest(), "x string", ""), (Total(), "x bigint", 0)],
)
def test_s12_partition_aggregate_gives_the_value_of_no_rows_in_an_empty_partition(
    batch: Batch, aggregator: Any, out: str, nothing: Any
) -> None:
    def declare(stream: Stream) -> Stream:
        return stream.partition_by("word").parallelism_hint(3).partition_aggregate(aggregator, out)

    assert batch(declare, (WORDS, [])) == [(nothing,)] * 3
    assert sum(row.x == nothing for row in batch(declare, (WORDS, [("word", 7)]))) == 2
    assert (nothing,) in batch(lambda s: s.partition_aggregate(aggregator, out), (WORDS, []))


@few
@given(rows=ROWS, parts=PARTS)
def test_g6_grouped_partition_aggregate_has_the_groups_of_each_partition(
    batch: Batch, rows: list[Any], parts: int
) -> None:
    def declare(stream: Stream) -> Stream:
        return stream.partition_by("word").group_by("word").partition_aggregate(Total(), "n bigint")

    expected = [(word, sum(n or 0 for n in values)) for word, values in by_word(rows).items()]
    assert same(batch(declare, (WORDS, rows), parts=parts), expected)
    assert batch(declare, (WORDS, [])) == []


# --- aggregate --------------------------------------------------------------------------------------------------------


@few
@given(rows=ROWS, parts=PARTS)
def test_s13_and_g3_aggregate_takes_all_rows_whatever_partition_they_are_in(
    batch: Batch, rows: list[Any], parts: int
) -> None:
    whole = batch(lambda s: s.shuffle().aggregate(Place(), PLACE), (WORDS, rows), parts=parts)
    assert len(whole) == 1
    assert same(places(whole)[0], rows)
    assert places(batch(lambda s: s.aggregate(Place(), PLACE), (WORDS, []), parts=parts)) == [[]]
    grouped = batch(lambda s: s.group_by("word").aggregate(Twice(), "x int"), (WORDS, rows), parts=parts)
    assert same(grouped, [(word, len(values)) for word, values in by_word(rows).items() for _ in range(2)])


# --- chains -----------------------------------------------------------------------------------------------------------


def combiners(rows: Sequence[Any]) -> tuple[Any, ...]:
    ns = [n for _, n in rows if n is not None]
    return len(rows), sum(ns), max(ns, default=None)


CHAINS: dict[str, tuple[Callable[[Any], Any], Callable[[list[Any]], list[Any]]]] = {
    "only built-in": (
        lambda c: c.aggregate(Count(), "a").aggregate(Sum("n"), "b").aggregate(Max("n"), "c"),
        lambda rows: [combiners(rows)],
    ),
    "only combiners": (
        lambda c: c.aggregate(Count(), "a").aggregate(Sum("n"), "n").aggregate(Longest(), "c string"),
        lambda rows: [(*combiners(rows)[:2], longest([word for word, _ in rows]))],
    ),
    "with a reducer": (
        lambda c: c.aggregate(Count(), "a").aggregate(Total(), "b bigint").aggregate(Max("n"), "c"),
        lambda rows: [combiners(rows)],
    ),
    "with aggregators": (
        lambda c: (
            c.aggregate(Sorted(), "size int, words array<string>")
            .aggregate(Count(), "b")
            .aggregate(Sorted(), "size_2 int, words_2 array<string>")
        ),
        lambda rows: [(*left, len(rows), *right) for left, right in product(sorted_words(rows), sorted_words(rows))],
    ),
    "with an aggregator that may emit nothing": (
        lambda c: c.aggregate(Count(), "a").aggregate(Twice(), "b int", in_fields="n"),
        lambda rows: [(len(rows), len(rows))] * (2 * bool(rows)),
    ),
}


def with_key(stream: Stream) -> Any:
    return stream.map(lambda row: (*row, row.word), f"{WORDS}, k string").group_by("k").chained_agg()


def sorted_words(rows: list[Any]) -> list[Any]:
    words = [word for word, _ in rows]
    return [(-1, ["twice"])] * words.count("twice") + [(len(words), sorted(words, key=str))]


@pytest.mark.parametrize("case", CHAINS)
@settings(few, max_examples=2)
@given(rows=ROWS, parts=PARTS)
def test_s14_h2_h3_a_chain_gives_what_its_aggregators_give_side_by_side(
    batch: Batch, case: str, rows: list[Any], parts: int
) -> None:
    chain, expected = CHAINS[case]
    for given_rows in (rows, []):
        found = batch(lambda s: chain(s.chained_agg()).chain_end(), (WORDS, given_rows), parts=parts)
        assert same(found, expected(given_rows))
        grouped = batch(lambda s: chain(with_key(s)).chain_end(), (WORDS, given_rows), parts=parts)
        groups = by_word(given_rows).items()
        assert same(grouped, [(k, *row) for k, ns in groups for row in expected([(k, n) for n in ns])])


@few
@given(rows=ROWS, parts=PARTS)
def test_h1_a_chain_by_partition_adds_up_to_the_batch(batch: Batch, rows: list[Any], parts: int) -> None:
    def declare(stream: Stream) -> Stream:
        return (
            stream.partition_by("word")
            .parallelism_hint(2)
            .chained_agg()
            .partition_aggregate(Count(), "rows")
            .partition_aggregate(Total(), "total bigint")
            .partition_aggregate(Place(), PLACE.replace("rows", "place"))
            .chain_end()
        )

    for given_rows in (rows, []):
        found = batch(declare, (WORDS, given_rows), parts=parts)
        assert len(found) == 2
        assert all(row.rows == len(row.place) for row in found)
        assert sum(row.total for row in found) == sum(n or 0 for _, n in given_rows)


# --- min_by, max_by, FirstN, Equals -----------------------------------------------------------------------------------

NUMBERS = st.lists(
    st.tuples(WORD, st.none() | st.sampled_from([-1.5, 0.0, 2.0, math.nan, math.inf])), max_size=8, unique_by=repr
)


def as_spark(value: float) -> tuple[bool, float]:
    return math.isnan(value), value


@few
@given(rows=NUMBERS, parts=PARTS)
def test_s22_min_by_and_max_by_give_a_row_of_the_batch_with_the_extreme_value(
    batch: Batch, rows: list[Any], parts: int
) -> None:
    values = [x for _, x in rows if x is not None]
    for pick, extreme in (("min_by", min), ("max_by", max)):
        found = batch(lambda s, pick=pick: getattr(s, pick)("x"), ("word string, x double", rows), parts=parts)
        assert len(found) == bool(values)
        for row in found:
            assert repr(tuple(row)) in map(repr, rows)
            assert as_spark(row.x) == pytest.approx(extreme(map(as_spark, values)), nan_ok=True)
    words = [word for word, _ in rows if word is not None]
    found = batch(lambda s: s.max_by("word", len), ("word string, x double", rows), parts=parts)
    assert [len(row.word) for row in found] == ([max(map(len, words))] if words else [])
    least = batch(lambda s: s.min_by("word", key=len), ("word string, x double", rows), parts=parts)
    assert [len(row.word) for row in least] == ([min(map(len, words))] if words else [])


def test_s22_min_by_and_max_by_compare_several_fields_one_after_the_other(batch: Batch) -> None:
    rows = [("b", 2), ("a", 2), ("a", 1), (None, 0), ("c", None)]
    given = ("word string, n int", rows)
    assert batch(lambda s: s.min_by(["n", "word"]), given) == [("a", 1)]
    assert batch(lambda s: s.max_by(["n", "word"]), given) == [("b", 2)]
    assert batch(lambda s: s.max_by(["word", "n"], key=lambda row: (-ord(row.word), row.n)), given) == [("a", 2)]


@pytest.mark.local
def test_s3_in_local_mode_resources_change_nothing_and_without_python_in_front_they_are_an_error(batch: Batch) -> None:
    given = ("n int", [(1,), (2,)])
    doubled = batch(lambda s: s.map(lambda row: (2 * row.n,), "n int").resources(cpus=2, memory="1g"), given)
    assert sorted(doubled) == [(2,), (4,)]
    with pytest.raises(TopologyError, match="no Python operation is before it"):
        batch(lambda s: s.resources(cpus=2), given)


def test_s22_min_by_finds_fields_with_odd_names_and_rows_with_maps(batch: Batch) -> None:
    rows = [(2, {"a": 1}), (1, {"b": 2}), (None, {})]
    assert batch(lambda s: s.min_by("odd `na.me"), ("`odd ``na.me` int, m map<string, int>", rows)) == [(1, {"b": 2})]


@few
@given(rows=ROWS, parts=PARTS, n=st.integers(1, 5))
def test_b3_first_n_gives_rows_in_order(batch: Batch, rows: list[Any], parts: int, n: int) -> None:
    for first in (FirstN(n, "n"), FirstN(n, "n", reverse=True)):
        ordered = sorted((value for _, value in rows if value is not None), reverse=first.reverse)
        expected = [*ordered, *(None for _, value in rows if value is None)][:n]
        found = batch(lambda s, first=first: s.apply(first), (WORDS, rows), parts=parts)
        assert [row.n for row in found] == expected
        assert {repr(tuple(row)) for row in found} <= set(map(repr, rows))
    assert len(batch(lambda s: s.apply(FirstN(n)), (WORDS, rows), parts=parts)) == min(n, len(rows))


@few
@given(rows=st.lists(st.tuples(WORD, WORD, WORD), max_size=12))
def test_b8_equals_keeps_rows_whose_fields_are_equal_nulls_too(batch: Batch, rows: list[Any]) -> None:
    schema = "a string, b string, c string"
    for filter_, fields in ((Equals("a", "c"), (0, 2)), (Equals(), (0, 1, 2))):
        expected = [row for row in rows if len({row[field] for field in fields}) == 1]
        assert same(batch(lambda s, f=filter_: s.filter(f), (schema, rows)), expected)
        assert same(batch(lambda s, f=filter_: s.peek(bool).filter(f), (schema, rows)), expected)


# --- merge and join ---------------------------------------------------------------------------------------------------


@few
@given(left=ROWS, right=ROWS, parts=PARTS)
def test_t12_merge_keeps_all_rows_under_the_names_of_the_first(
    batch: Batch, left: list[Any], right: list[Any], parts: int
) -> None:
    def declare(topology: TridentTopology, one: Stream, other: Stream) -> Stream:
        return topology.merge(one.filter(lambda row: True), other, one)

    found = batch(declare, (WORDS, left), ("x string, y int", right), parts=parts)
    assert same(found, [*left, *right, *left])


def joined(left: list[Any], right: list[Any], how: str) -> list[Any]:
    """``(word, n)`` and ``(word, m)`` joined by word, in plain Python; a null equals a null."""
    rows = [(word, n, m) for word, n in left for other, m in right if word == other]
    if how != "inner":
        rows += [(word, n, None) for word, n in left if word not in {other for other, _ in right}]
    if how == "outer":
        rows += [(word, None, m) for word, m in right if word not in {other for other, _ in left}]
    return rows


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
@settings(few, max_examples=1)
@given(left=ROWS, right=ROWS, parts=PARTS)
@example(left=EDGES, right=[*EDGES[1:], ("b", 7)], parts=2)
def test_t13_join_of_two_spouts_within_a_batch(
    batch: Batch, how: Any, left: list[Any], right: list[Any], parts: int
) -> None:
    def declare(topology: TridentTopology, one: Stream, other: Stream) -> Stream:
        return topology.join(one, "word", other, "key", ["word", "n", "m"], how=how)

    for ours, theirs in ((left, right), ([], right), (left, [])):
        found = batch(declare, (WORDS, ours), ("m int, key string", [(m, key) for key, m in theirs]), parts=parts)
        assert same(found, joined(ours, theirs, how))


@few
@given(rows=ROWS)
def test_t13_join_of_a_stream_with_itself_by_two_keys_of_any_names(batch: Batch, rows: list[Any]) -> None:
    def declare(topology: TridentTopology, one: Stream, other: Stream) -> Stream:
        counts = one.group_by("a.b", "n").aggregate(Count(), "count")
        return topology.merge(topology.join(one, ["n", "a.b"], counts, ["n", "a.b"], ["a`b", "word", "count"]), other)

    counts = Counter(rows)
    expected = [(n, word, counts[word, n]) for word, n in rows]
    found = batch(declare, ("`a.b` string, n int", rows), ("n int, word string, count bigint", [(1, "x", 2)]))
    assert same(found, [*expected, (1, "x", 2)])


def combined(sides: Sequence[tuple[list[Any], str]]) -> list[Any]:
    """Any number of ``(word, value)`` joined by word, each side ``inner`` or ``outer``, in plain Python."""
    found = []
    for key in {word for rows, _ in sides for word, _ in rows}:
        values = [[value for word, value in rows if word == key] for rows, _ in sides]
        if all(given or how == "outer" for given, (_, how) in zip(values, sides, strict=True)):
            found += [(key, *each) for each in product(*[given or [None] for given in values])]
    return found


@pytest.mark.parametrize("how", list(product(["inner", "outer"], repeat=3)), ids="-".join)
@settings(few, max_examples=1)
@given(sides=st.tuples(ROWS, ROWS, ROWS))
def test_t14_mixed_join_of_several_streams(batch: Batch, how: Any, sides: Any) -> None:
    def declare(topology: TridentTopology, *streams: Stream) -> Stream:
        return topology.join_all(streams, ["word"] * 3, ["word", "a", "b", "c"], how=how)

    for given_sides in (sides, ([], *sides[1:])):
        found = batch(declare, *[(WORDS, rows) for rows in given_sides], parts=2)
        assert same(found, combined(list(zip(given_sides, how, strict=True))))


class Collected(MultiReducer[list[Any]]):
    """Emits how many rows of each stream there are."""

    def init(self, collector: TridentCollector) -> list[Any]:
        return [0, 0]

    def execute(self, value: list[Any], stream_index: int, row: Any, collector: TridentCollector) -> None:
        assert row._fields == (("word", "n") if stream_index == 0 else ("m",))
        value[stream_index] += 1

    def complete(self, value: list[Any], collector: TridentCollector) -> None:
        collector.emit(value)


class SumsOfBoth(GroupedMultiReducer[tuple[int, int]]):
    """Emits the group with the sum of each stream."""

    def init(self, collector: TridentCollector, group: Any) -> tuple[int, int]:
        return 0, 0

    def execute(
        self, value: tuple[int, int], stream_index: int, group: Any, row: Any, collector: TridentCollector
    ) -> tuple[int, int]:
        assert row.word == group.word if stream_index == 0 else row._fields == ("m",)
        left, right = value
        return (left + (row.n or 0), right) if stream_index == 0 else (left, right + (row.m or 0))

    def complete(self, value: tuple[int, int], group: Any, collector: TridentCollector) -> None:
        collector.emit([group.word, *value])


@few
@given(left=ROWS, right=ROWS, parts=PARTS)
@example(left=EDGES, right=EDGES[2:], parts=3)
def test_t10_and_t11_multi_reduce_sees_the_rows_of_all_streams(
    batch: Batch, left: list[Any], right: list[Any], parts: int
) -> None:
    def whole(topology: TridentTopology, one: Stream, other: Stream) -> Stream:
        return topology.multi_reduce([one, other], Collected(), "a int, b int", in_fields=[(), "m"])

    def grouped(topology: TridentTopology, one: Stream, other: Stream) -> Stream:
        groups = [one.group_by("word"), other.group_by("key")]
        return topology.multi_reduce(groups, SumsOfBoth(), "word string, a int, b int", in_fields=[["n", "word"], "m"])

    for ours, theirs in ((left, right), (left, []), ([], [])):
        given_rows = (WORDS, ours), ("m int, key string", [(m, key) for key, m in theirs])
        assert batch(whole, *given_rows, parts=parts) == [(len(ours), len(theirs))]
        sums = [{word: sum(n or 0 for n in ns) for word, ns in by_word(rows).items()} for rows in (ours, theirs)]
        expected = [(word, sums[0].get(word, 0), sums[1].get(word, 0)) for word in sums[0].keys() | sums[1].keys()]
        assert same(batch(grouped, *given_rows, parts=parts), expected)


# --- as a topology runs them ------------------------------------------------------------------------------------------


def drawn(batches: Any) -> Any:
    for batch in batches:
        yield pa.RecordBatch.from_arrays([pa.array([secrets.token_hex(8) for _ in range(batch.num_rows)])], ["drawn"])


class Draw(IBatchSpout):
    """Gives other rows whenever its frame is read."""

    output_schema = "drawn string"

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def emit_batch(self, batch_id: int, collector: TridentCollector) -> None:
        if batch_id <= 2:
            collector.emit_dataframe(self.spark.range(10).mapInArrow(drawn, "drawn string"))

    def __getstate__(self) -> Any:
        raise TypeError("it stays on the driver")


def test_t12_a_branch_that_reads_a_spout_twice_sees_the_same_rows_twice(spark: SparkSession, zookeeper: str) -> None:
    topology, state = TridentTopology("draws"), MemoryMapState.factory()
    draws = topology.new_stream("draws", Draw(spark))
    both = topology.merge(draws.filter(lambda row: True), draws)
    both.group_by("drawn").persistent_aggregate(state, Count(), "count")
    with topology.start(TridentConfig(zookeeper=zookeeper), spark=spark) as query:
        while len(state.values()) < 20:
            assert query.exception() is None
            query.await_termination(0.2)
    assert set(state.values().values()) == {2}
    assert len(state.values()) == 20


def test_t18_the_example_joins_two_spouts_in_one_transaction(
    spark: SparkSession, zookeeper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, lines in (("views", "a\nb\nü\na\n"), ("orders", "a 1.5\nc 2\na 0.25\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "one.txt").write_text(lines)
    topology = runpy.run_path(str(ROOT / "examples" / "joining.py"))["topology"]
    with topology.start(TridentConfig(zookeeper=zookeeper), spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
        (tmp_path / "orders" / "two.txt").write_text("b 3\nc 4\n")
        query.process_all_available(PATIENCE_SECONDS)
    with closing(sqlite3.connect(tmp_path / "pages.db")) as database:
        found = database.execute("SELECT page, views, revenue FROM views JOIN revenue USING (page) ORDER BY page")
        assert found.fetchall() == [("a", 2, 1.75), ("b", 1, 3.0), ("c", 0, 6.0), ("ü", 1, 0.0)]
