"""Operations as Spark runs them, beside the same in plain Python."""

from __future__ import annotations

import asyncio
import math
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import StructType

from coordinators.values.attempt import TransactionAttempt
from tests.unit.trident_py.worker.aggregators import Longest, Sorted, Total
from trident_py.errors import FailedException, StateError, TopologyError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.operations import CombinerAggregator, Filter, Function, ReducerAggregator
from trident_py.operations.builtin import Count, FilterNull, Max, Min, Negate, Sum
from trident_py.planner.plan import Branch, check, plan
from trident_py.rows.row import Row, rows_of
from trident_py.rows.schema import arrow_table, same_fields, schema_of
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.memory import MemoryMapState
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.streams.stream import Stream
from trident_py.topology import TridentTopology

pytestmark = pytest.mark.spark

WORDS = "word string, n int"
ROWS = [("a", 1), ("b", None), ("a", 3), (None, 4), ("日本 x", 5), ("", 0), ("b", -2), ("twice", 7)]

Declare = Callable[[Stream], object]


class Batch:
    """A batch of rows, and what a declaration makes of it."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def branch(self, schema: str, declare: Declare) -> Branch:
        topology = TridentTopology("operations")
        declare(topology.new_stream("lines", FixedBatchSpout(schema, 1)))
        (branch,) = check(plan(topology._graph), self.spark).branches
        return branch

    def frame(self, schema: str, rows: Sequence[Any], declare: Declare) -> DataFrame:
        fields = schema_of(schema)
        given = self.spark.createDataFrame(arrow_table(rows, fields), fields)
        return self.branch(schema, declare).build({"lines": given}, TransactionAttempt(1, 0))

    def __call__(self, schema: str, rows: Sequence[Any], declare: Declare) -> list[Row]:
        return sorted(rows_of(self.frame(schema, rows, declare).toArrow()), key=repr)


@pytest.fixture
def batch(spark: SparkSession) -> Batch:
    return Batch(spark)


def in_order(rows: Sequence[Any]) -> list[Any]:
    made = [tuple(row) for row in rows]
    return sorted(made, key=lambda row: [repr(value) for value in row])


def same(found: Sequence[Any], expected: Sequence[Any]) -> bool:
    return in_order(found) == in_order(expected)


# --- row by row -------------------------------------------------------------------------------------------------------


class Letters(Function):
    def execute(self, row: Row, collector: TridentCollector) -> None:
        for letter in row.word or "":
            collector.emit([letter])


class IsOdd(Filter):
    def is_keep(self, row: Row) -> bool:
        return bool(row.n % 2)


def split(row: Row) -> list[tuple[str]]:
    return [(word,) for word in (row.word or "").split()]


async def swapped(row: Row) -> tuple[int, str]:
    await asyncio.sleep(0)
    return row.n, row.word


ROW_BY_ROW: dict[str, tuple[Declare, list[Any]]] = {
    "a bare stream": (lambda s: s, ROWS),
    "map": (lambda s: s.map(lambda row: [row.n, row.word], "a int, b string"), [(n, word) for word, n in ROWS]),
    "map_async": (lambda s: s.map_async(swapped, "a int, b string"), [(n, word) for word, n in ROWS]),
    "flat_map": (lambda s: s.flat_map(split, "word string"), [(w,) for word, _ in ROWS for w in (word or "").split()]),
    "a function": (lambda s: s.filter(lambda row: row.n and row.n > 1), [row for row in ROWS if row[1] and row[1] > 1]),
    "a column": (lambda s: s.filter(F.col("n") > 1), [row for row in ROWS if row[1] and row[1] > 1]),
    "SQL": (lambda s: s.filter("n > 1 AND word IS NOT NULL"), [("a", 3), ("日本 x", 5), ("twice", 7)]),
    "FilterNull": (lambda s: s.filter(FilterNull("n")), [row for row in ROWS if row[1] is not None]),
    "FilterNull of all": (lambda s: s.filter(FilterNull()), [row for row in ROWS if None not in row]),
    "Negate": (lambda s: s.filter(Negate(FilterNull("word", "n"))), [row for row in ROWS if None in row]),
    "each with a function": (
        lambda s: s.each("word", Letters(), "letter string"),
        [(word, n, letter) for word, n in ROWS for letter in word or ""],
    ),
    "each with a filter": (
        lambda s: s.each(["n"], FilterNull()).each("n", IsOdd()),
        [row for row in ROWS if row[1] is not None and row[1] % 2],
    ),
    "peek": (lambda s: s.peek(lambda row: row.word), ROWS),
    "project": (lambda s: s.project("n"), [(n,) for _, n in ROWS]),
    "transform": (
        lambda s: s.transform(lambda f: f.selectExpr("n * 2 AS m"), "m int"),
        [(None if n is None else n * 2,) for _, n in ROWS],
    ),
    "transform without schema": (
        lambda s: s.transform(lambda f: f.selectExpr("upper(word) AS u")).filter(FilterNull()).map(tuple, "v string"),
        [(word.upper(),) for word, _ in ROWS if word is not None],
    ),
    "all of them": (
        lambda s: s.project("word")
        .flat_map(split, "word string")
        .filter("word != 'x'")
        .each("word", Letters(), "letter string")
        .project("letter", "word")
        .filter(FilterNull("letter"))
        .map(lambda row: (row.letter * 2, row), "double string, row struct<letter: string, word: string>"),
        [(c * 2, (c, w)) for word, _ in ROWS for w in (word or "").split() if w != "x" for c in w],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ROW_BY_ROW)
def test_rows_become_what_they_become_in_python(case: str, batch: Batch) -> None:
    declare, expected = ROW_BY_ROW[case]
    assert same(batch(WORDS, ROWS, declare), expected)


@pytest.mark.parametrize("case", ["flat_map", "all of them", "transform without schema"])
def test_an_empty_batch_stays_empty(case: str, batch: Batch) -> None:
    assert batch(WORDS, [], ROW_BY_ROW[case][0]) == []


def test_python_operations_next_to_each_other_are_one_stage(batch: Batch, capsys: pytest.CaptureFixture[str]) -> None:
    def declare(stream: Stream) -> Stream:
        words = stream.project("word").filter(FilterNull("word")).flat_map(split, "word string")
        return words.filter(bool).project("word").peek(bool).map(tuple, "w string").filter(FilterNull())

    batch.frame(WORDS, ROWS, declare).explain()
    assert capsys.readouterr().out.count("MapInArrow") == 1


ALL_TYPES = (
    "a boolean, b tinyint, c smallint, d int, e bigint, f float, g double, h string, i binary, j date, k timestamp, "
    "l timestamp_ntz, m decimal(20, 3), n array<array<string>>, o map<string, array<decimal(5, 1)>>, "
    "p struct<q: timestamp, r: struct<s: map<int, struct<t: date>>>>"
)
AT = datetime(2024, 3, 31, 1, 30, 0, 123456, tzinfo=UTC)
VALUES = (
    True, -128, 32767, -(2**31), 2**63 - 1, 0.5, 1e300, "naïve 日本 \U0001f600 \0", b"\x00\xff", date(1969, 12, 31), AT,
    AT.replace(tzinfo=None), Decimal("12345678901234567.125"), [["a", None], [], None], {"k": [Decimal("1.5"), None]},
    {"q": AT, "r": {"s": {7: {"t": date(2024, 2, 29)}, 8: None}}},
)  # fmt: skip
AS_ROWS = (*VALUES[:-1], (AT, ({7: (date(2024, 2, 29),), 8: None},)))


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_values_of_all_types_go_through_python_unchanged(zone: str, batch: Batch) -> None:
    before = batch.spark.conf.get("spark.sql.session.timeZone") or "UTC"
    batch.spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        found = batch(ALL_TYPES, [VALUES, (None,) * len(VALUES)], lambda s: s.map(as_seen, f"{ALL_TYPES}, seen string"))
    finally:
        batch.spark.conf.set("spark.sql.session.timeZone", before)
    nothing, values = sorted(found, key=lambda row: row.a is not None)
    assert nothing == (*(None,) * len(VALUES), "None None")
    assert values == (*AS_ROWS, f"{AT.isoformat()} 2024-02-29")


class Rows(Total):
    def reduce(self, curr: int, row: Row) -> int:
        return curr + (row[:-1] in (VALUES[:-1], (None,) * (len(VALUES) - 1)))


def test_values_of_all_types_reach_an_aggregator_of_everything(batch: Batch) -> None:
    rows = [VALUES, (None,) * len(VALUES), VALUES]
    assert batch(ALL_TYPES, rows, lambda s: s.aggregate(Rows(), "n int")) == [(3,)]


def as_seen(row: Row) -> tuple[Any, ...]:
    day = row.p.r.s[7].t if row.p else None
    return (*row, f"{row.k.isoformat() if row.k else None} {day}")


class Renamed(CombinerAggregator[int]):
    def init(self, row: Row) -> int:
        return int(row["odd `name"] + row.count)

    def combine(self, left: int, right: int) -> int:
        return left + right

    def zero(self) -> int:
        return 0


def test_fields_with_odd_names_are_found(batch: Batch) -> None:
    schema = "`a.b` string, `odd ``name` int, count int"
    found = batch(
        schema,
        [("x", 1, 2), ("x", 3, 4), (None, 5, 6)],
        lambda s: (
            s.filter(FilterNull("a.b"))
            .filter(lambda row: row["odd `name"] and row.count)
            .group_by("a.b")
            .aggregate(Sum("odd `name"), "total`s")
        ),
    )
    assert found == [("x", 4)]
    added = batch(schema, [("x", 1, 2)], lambda s: s.aggregate(Renamed(), "`s.um` int").map(tuple, "`s.um` bigint"))
    assert added == [(3,)]


# --- aggregates -------------------------------------------------------------------------------------------------------


def by_word(rows: Sequence[Any]) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = defaultdict(list)
    for word, n in rows:
        groups[word].append(n)
    return groups


@pytest.mark.parametrize("rows", [ROWS, [("a", None)], []], ids=["rows", "nulls", "empty"])
@pytest.mark.parametrize("aggregator", [Count(), Sum("n"), Min("n"), Max("n")], ids=repr)
def test_built_in_aggregates_give_in_spark_what_they_give_in_python(
    aggregator: CombinerAggregator[Any], rows: list[Any], batch: Batch
) -> None:
    def combined(values: list[Any]) -> Any:
        result = aggregator.zero()
        for value in values:
            result = aggregator.combine(result, aggregator.init((value,)))
        return result

    assert batch(WORDS, rows, lambda s: s.aggregate(aggregator, "x")) == [(combined([n for _, n in rows]),)]
    grouped = batch(WORDS, rows, lambda s: s.group_by("word").aggregate(aggregator, "x"))
    assert dict(grouped) == {word: combined(values) for word, values in by_word(rows).items()}


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize(("kind", "greatest"), [("bigint", 2**63 - 1), ("decimal(38,0)", Decimal("9" * 38))])
def test_a_sum_that_overflows_within_a_batch_is_an_error_in_each_mode(
    kind: str, greatest: Any, ansi: str, spark: SparkSession
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", ansi)
    source = schema_of(f"n {kind}")
    total = Sum("n").expression_in(ansi == "true", [F.col("n")], Sum("n").result_type(source))
    fits, overflows = ([(greatest,), (type(greatest)(second),)] for second in (0, 1))
    assert session.createDataFrame(fits, source).agg(total).collect() == [(greatest,)]
    with pytest.raises(PySparkException, match=r"(?i)overflow|cannot be represented"):
        session.createDataFrame(overflows, source).agg(total).collect()


def test_sums_and_extremes_have_the_declared_types(batch: Batch) -> None:
    schema = "a tinyint, b float, c decimal(9, 2), d string, e double"
    rows = [(127, 0.5, Decimal("1.25"), "é", math.nan), (127, 0.25, Decimal("2.50"), "z", 1.0), (None,) * 5]
    for aggregator, expected in [
        (Sum("a"), 254), (Sum("b"), 0.75), (Sum("c"), Decimal("3.75")),
        (Min("d"), "z"), (Max("d"), "é"), (Min("e"), 1.0),
    ]:  # fmt: skip

        def declare(stream: Stream, aggregator: Any = aggregator) -> Stream:
            return stream.aggregate(aggregator, "x")

        assert batch(schema, rows, declare) == [(expected,)]
        made, declared = batch.frame(schema, rows, declare), batch.branch(schema, declare).end.schema
        assert declared is not None
        assert same_fields(made.schema, declared)


USERS: dict[str, tuple[Declare, Callable[[list[Any]], Any]]] = {
    "combiner": (
        lambda s: s.aggregate(Longest(), "longest string"),
        lambda rows: [(max((word or "" for word, _ in rows), key=lambda w: (len(w), w), default=""),)],
    ),
    "grouped combiner": (
        lambda s: s.group_by("n").aggregate(Longest(), "longest string"),
        lambda rows: [(n, word or "") for word, n in rows],
    ),
    "reducer": (lambda s: s.aggregate(Total(), "total bigint"), lambda rows: [(sum(n or 0 for _, n in rows),)]),
    "grouped reducer": (
        lambda s: s.group_by("word").aggregate(Total(), "total bigint"),
        lambda rows: [(word, sum(n or 0 for n in values)) for word, values in by_word(rows).items()],
    ),
    "aggregator": (
        lambda s: s.aggregate(Sorted(), "size int, words array<string>"),
        lambda rows: (
            [(-1, ["twice"])] * any(word == "twice" for word, _ in rows)
            + [(len(rows), sorted((word for word, _ in rows), key=str))]
        ),
    ),
    "grouped aggregator": (
        lambda s: s.group_by("n").aggregate(Sorted(), "size int, words array<string>"),
        lambda rows: [(n, 1, [word]) for word, n in rows] + [(7, -1, ["twice"])] * bool(rows),
    ),
    "behind row operations": (
        lambda s: (
            s.filter(FilterNull()).flat_map(split, "word string").group_by("word").aggregate(Longest(), "x string")
        ),
        lambda rows: sorted({(w, w) for word, n in rows if word and n is not None for w in word.split()}),
    ),
}


@pytest.mark.parametrize("rows", [ROWS, []], ids=["rows", "empty"])
@pytest.mark.parametrize("case", USERS)
def test_user_written_aggregates_give_what_they_give_in_python(case: str, rows: list[Any], batch: Batch) -> None:
    declare, expected = USERS[case]
    assert same(batch(WORDS, rows, declare), expected(rows))


def test_operations_behind_an_aggregate_see_its_result(batch: Batch) -> None:
    found = batch(
        WORDS,
        ROWS,
        lambda s: (
            s.group_by("word").aggregate(Count(), "count").filter(lambda row: row.count > 1).aggregate(Count(), "n")
        ),
    )
    assert found == [(2,)]


def test_groups_are_spark_s_whatever_the_aggregator(batch: Batch) -> None:
    schema = "x double, y array<struct<z: float>>, n int"
    rows = [(math.nan, [(0.0,)], 1), (math.nan, [(-0.0,)], 2), (0.0, None, 3), (-0.0, None, 4), (None, [None], 5)] * 5
    expected = {"nan, [(0.0,)]": 15, "0.0, None": 35, "None, [None]": 25}
    for aggregator, out in [(Sum("n"), "s"), (Total(), "s bigint"), (Added(), "s bigint")]:

        def declare(stream: Stream, aggregator: Any = aggregator, out: str = out) -> Stream:
            return stream.group_by("x", "y").aggregate(aggregator, out)

        found = {f"{row.x}, {row.y and [z and tuple(z) for z in row.y]}": row.s for row in batch(schema, rows, declare)}
        assert found == expected


class Added(CombinerAggregator[int]):
    in_fields = ("n",)

    def init(self, row: Row) -> int:
        return int(row.n)

    def combine(self, left: int, right: int) -> int:
        return left + right

    def zero(self) -> int:
        return 0


class Joined(ReducerAggregator[str]):
    def init(self) -> str:
        return ""

    def reduce(self, curr: str, row: Row) -> str:
        joined: str = curr + row.word
        return joined


def test_states_are_handed_a_partial_value_or_the_rows_to_reduce(batch: Batch) -> None:
    def into(aggregator: Any, out: str, *keys: str) -> Declare:
        return lambda s: (s.group_by(*keys) if keys else s).persistent_aggregate(
            MemoryMapState.factory(), aggregator, out
        )

    rows = [("a", 1), ("b", 2), ("a", 3)]
    assert batch(WORDS, rows, into(Sum("n"), "total", "word")) == [("a", 4), ("b", 2)]
    assert batch(WORDS, [], into(Sum("n"), "total", "word")) == []
    assert batch(WORDS, [], into(Sum("n"), "total")) == [(0,)]
    assert batch(WORDS, [], into(Longest(), "longest string")) == [("",)]
    reduced = batch.frame(WORDS, rows, into(Total(), "total bigint", "word"))
    assert reduced.columns == ["_key_word", "word", "n"]
    assert same(rows_of(reduced.toArrow()), [("a", "a", 1), ("b", "b", 2), ("a", "a", 3)])
    assert same(batch(WORDS, rows, into(Total(), "total bigint")), rows)
    assert batch(WORDS, [], into(Total(), "total bigint")) == []
    declared = batch.branch(WORDS, into(Total(), "total bigint", "word")).output
    assert declared is not None
    assert same_fields(declared.fields, reduced.schema)


def test_an_aggregator_is_told_which_attempt_it_works_for(batch: Batch) -> None:
    class Told(Sorted):
        def init(self, batch_id: Any, collector: TridentCollector) -> list[Any]:
            collector.emit((batch_id.txid, [str(batch_id)]))
            return []

    found = batch(WORDS, [], lambda s: s.aggregate(Told(), "size int, words array<string>"))
    assert found == [(0, []), (1, ["1:0"])]


# --- what goes wrong in a task ----------------------------------------------------------------------------------------


def not_now(row: Row) -> Any:
    if row.n == 3:
        raise FailedException("not now")
    return row


IN_TASKS: dict[str, tuple[Declare, list[str]]] = {
    "an exception": (
        lambda s: s.map(not_now, WORDS),
        [
            "trident_py.errors.FailedException: not now",
            "in map(not_now at test_operations.py:",
            "at Row(word='a', n=3)",
        ],
    ),
    "a text in place of rows": (
        lambda s: s.flat_map(lambda row: row.word or "", "word string"),
        [
            "TypeError: flat_map(<lambda> at test_operations.py:",
            "must give an iterable of tuples, lists or Rows, not '",
        ],
    ),
    "another type": (
        lambda s: s.map(lambda row: (row.n,), "word string"),
        ["TypeError: map(<lambda> at test_operations.py:", "field 'word' is declared string, got "],
    ),
    "another number of values": (
        lambda s: s.map(lambda row: (row.n, 1), "n int"),
        ["ValueError: map(<lambda>", "gave 2 values", "for the 1 fields ['n']"],
    ),
    "an aggregator": (
        lambda s: s.group_by("n").aggregate(Joined(), "x string"),
        ["TypeError: can only concatenate str", "in aggregate(Joined, 'n'), at Row(word=None, n=4)"],
    ),
}


@pytest.mark.parametrize("case", IN_TASKS)
def test_what_goes_wrong_in_a_task_says_what_and_where(case: str, batch: Batch) -> None:
    declare, texts = IN_TASKS[case]
    with pytest.raises(PythonException) as caught:
        batch(WORDS, ROWS, declare)
    for text in texts:
        assert text in str(caught.value)


# --- what only Spark can tell -----------------------------------------------------------------------------------------


def no_frame(frame: DataFrame) -> Any:
    return 7


def raising(frame: DataFrame) -> DataFrame:
    raise ValueError("no idea")


def unpicklable() -> Callable[[Row], Row]:
    lock = threading.Lock()
    return lambda row: row if lock.locked() else row[:]


AT_START: dict[str, tuple[Declare, str]] = {
    "an unknown column in SQL": (lambda s: s.filter("m > 1"), r"topology 'operations', filter\('m > 1'\): .*`m`"),
    "SQL that does not parse": (lambda s: s.filter("n >"), r"filter\('n >'\): Spark can't run it: ParseException"),
    "a column that is not there": (lambda s: s.filter(F.col("m") > 1), r"filter\(Column.*`m`"),
    "a condition that is none": (lambda s: s.filter("n + 1"), r"filter\('n \+ 1'\): .*DATATYPE_MISMATCH"),
    "a transform that raises": (lambda s: s.transform(raising), r"transform\(raising at .*\): .*ValueError: no idea"),
    "a transform that gives no frame": (lambda s: s.transform(no_frame), "must return a DataFrame, not 7"),
    "a transform with other fields": (
        lambda s: s.transform(lambda f: f.select("word"), WORDS),
        r"the declared fields are struct<word:string,n:int>, but the function returns struct<word:string>",
    ),
    "a transform with a field twice": (lambda s: s.transform(lambda f: f.select("n", "n")), "'n' is named twice"),
    "a field that the transform dropped": (
        lambda s: s.transform(lambda f: f.select("word")).filter(FilterNull("n")),
        r"filter\(FilterNull\): there is no field 'n'; there are 'word'",
    ),
    "a group field that the transform dropped": (
        lambda s: s.transform(lambda f: f.select("word")).group_by("n").aggregate(Count(), "c"),
        r"aggregate\(Count\(\), 'n'\): there is no field 'n'",
    ),
    "a function that does not pickle": (lambda s: s.map(unpicklable(), WORDS), r"map\(<lambda> at .*: .*[Pp]ickl"),
}  # fmt: skip


PICKLED_LATER = pytest.mark.master("over Connect, a function is pickled when Spark is asked about what is built on it")


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=PICKLED_LATER if "pickle" in case else ()) for case in AT_START]
)
def test_what_only_spark_can_tell_is_said_before_anything_runs(case: str, batch: Batch) -> None:
    declare, message = AT_START[case]
    with pytest.raises(TopologyError, match=message):
        batch.branch(WORDS, declare)


def test_a_state_is_told_the_types_that_only_spark_knew(batch: Batch) -> None:
    def declare(stream: Stream) -> Any:
        shaped = stream.transform(lambda frame: frame.selectExpr("array(n) AS ns", "n"))
        return shaped.group_by("n").persistent_aggregate(SQLiteState("counts.db", table="counts"), Total(), "`x y` int")

    with pytest.raises(StateError, match=r"topology 'operations', persistent_aggregate\(Total, 'n'\): .*'x y'"):
        batch.branch(WORDS, declare)


def test_everything_behind_a_transform_without_schema_is_planned_after_the_check(batch: Batch) -> None:
    branch = batch.branch(
        WORDS,
        lambda s: (
            s.transform(lambda frame: frame.selectExpr("n AS m"))
            .group_by("m")
            .persistent_aggregate(MemoryMapState.factory(), Count(), "count")
            .new_values_stream()
            .project("count")
        ),
    )
    assert branch.output is not None
    assert branch.output.fields == schema_of("m int, count bigint")
    assert branch.output.new_values is not None
    assert [end.schema for end in branch.output.new_values.ends] == [schema_of("count bigint")]


# --- schemas ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        ALL_TYPES,
        "a INT, b: String NOT NULL, `c ``d` Decimal(5), e dec, f NUMERIC(7,2) comment 'it is', 1a int, _b int",
        "struct<a: int, b: array<map<string, struct<c: real, d: timestamp_ltz>>>>",
        "a byte, b short, c integer, d long, e struct<f double, g: struct<>>, date date, struct struct<a: int>",
    ],
)
def test_a_schema_is_read_as_spark_reads_it(text: str, spark: SparkSession) -> None:
    assert schema_of(text) == StructType.fromDDL(text)


def test_a_duration_of_a_day_is_no_type_of_rows(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(timedelta(days=1),)], ["d"])
    with pytest.raises(TopologyError, match="'d' has the type interval day to second"):
        schema_of(frame.schema)
