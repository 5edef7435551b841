"""The order in which rows of a batch are seen behind a shuffle: that of the batch, in however many tasks it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import reduce
from itertools import pairwise
from typing import Any

import pytest
from attrs import define, field
from pyspark.sql import DataFrame, SparkSession

from coordinators.values.attempt import TransactionAttempt
from tests.topologies import until
from trident_py import LocalCoordination, TridentConfig
from trident_py.engine.plane import emitted
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.operations import Aggregator, CombinerAggregator, MultiReducer, ReducerAggregator
from trident_py.interfaces.states import State, StateUpdater
from trident_py.operations.assemblies import FirstN
from trident_py.operations.builtin import Count
from trident_py.planner.plan import check, plan
from trident_py.rows.row import rows_of
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.spouts.feeder import FeederBatchSpout
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.memory import MemoryMapState
from trident_py.streams.stream import Stream
from trident_py.testing import run_batches
from trident_py.topology import TridentTopology
from trident_py.windows import TumblingCount

pytestmark = pytest.mark.spark

SCHEMA = schema_of("key string, n int")
ROWS = [(f"key {n * n % 7}", n) for n in range(200)]
NUMBERS = ",".join(str(n) for _, n in ROWS)
BY_KEY = {key: ",".join(str(n) for other, n in ROWS if other == key) for key, _ in ROWS}


class Reduced(ReducerAggregator[str]):
    """The numbers, one behind the other."""

    def init(self) -> str:
        return ""

    def reduce(self, curr: str, row: Any) -> str:
        return f"{curr},{row.n}" if curr else str(row.n)


class Combined(CombinerAggregator[str]):
    """The same, part by part."""

    in_fields = ("n",)

    def init(self, row: Any) -> str:
        return str(row.n)

    def combine(self, left: str, right: str) -> str:
        return f"{left},{right}" if left and right else left or right

    def zero(self) -> str:
        return ""


class Listed(Aggregator[list[str]]):
    """The same at the end of a batch or partition."""

    in_fields = ("n",)

    def init(self, batch_id: Any, collector: TridentCollector) -> list[str]:
        return []

    def aggregate(self, value: list[str], row: Any, collector: TridentCollector) -> None:
        value.append(str(row.n))

    def complete(self, value: list[str], collector: TridentCollector) -> None:
        collector.emit((",".join(value),))


class Merged(MultiReducer[list[str]]):
    """The same of several streams."""

    def init(self, collector: TridentCollector) -> list[str]:
        return []

    def execute(self, value: list[str], stream: int, row: Any, collector: TridentCollector) -> None:
        value.append(str(row.n))

    def complete(self, value: list[str], collector: TridentCollector) -> None:
        collector.emit((",".join(value),))


@pytest.fixture(params=[1, 3])
def made(request: pytest.FixtureRequest, spark: SparkSession) -> Callable[..., list[Any]]:
    """What becomes of `ROWS`, which so many tasks read."""

    def rows(declare: Callable[[Stream, TridentTopology], Stream]) -> list[Any]:
        topology = TridentTopology("ordered")
        declare(topology.new_stream("s", FixedBatchSpout(SCHEMA, 1)), topology)
        (branch,) = check(plan(topology._graph), spark).branches
        size = -(-len(ROWS) // request.param)
        parts = [arrow_table(ROWS[first : first + size], SCHEMA) for first in range(0, len(ROWS), size)]
        frames = [spark.createDataFrame(part, SCHEMA).coalesce(1) for part in parts]
        frame = reduce(DataFrame.unionAll, frames)
        return rows_of(branch.build({"s": frame}, TransactionAttempt(1, 0)).toArrow())

    return rows


@pytest.mark.parametrize("aggregator", [Reduced(), Combined(), Listed()], ids=lambda each: type(each).__name__)
def test_an_aggregator_sees_the_rows_of_a_batch_and_of_a_group_in_order(
    made: Callable[..., list[Any]], aggregator: Any
) -> None:
    out, names = "numbers string", ["n"]
    assert made(lambda s, _: s.aggregate(aggregator, out, in_fields=names)) == [(NUMBERS,)]
    assert dict(made(lambda s, _: s.group_by("key").aggregate(aggregator, out, in_fields=names))) == BY_KEY


def test_a_reducer_of_several_streams_sees_one_after_the_other(made: Callable[..., list[Any]]) -> None:
    found = made(lambda s, topology: topology.multi_reduce([s, s.filter("n < 5")], Merged(), "numbers string"))
    assert found == [(f"{NUMBERS},0,1,2,3,4",)]


def test_the_rows_of_a_partition_are_seen_in_order(made: Callable[..., list[Any]]) -> None:
    for spread in (Stream.shuffle, Stream.global_, Stream.broadcast, lambda s: s.partition_by("key")):
        found = made(
            lambda s, _, spread=spread: spread(s).parallelism_hint(3).partition_aggregate(Listed(), "numbers string")
        )
        seen = [[int(n) for n in row.numbers.split(",") if n] for row in found]
        assert sum(map(len, seen)) == len(ROWS) * (3 if spread is Stream.broadcast else 1)
        assert all(numbers == sorted(numbers) for numbers in seen)


def test_of_equal_rows_the_last_is_the_best_and_the_first_comes_first(made: Callable[..., list[Any]]) -> None:
    for pick, key in (("min_by", "key 0"), ("max_by", "key 4")):
        assert made(lambda s, _, pick=pick: getattr(s, pick)("key")) == [[row for row in ROWS if row[0] == key][-1]]
    assert made(lambda s, _: s.apply(FirstN(9, "key"))) == [row for row in ROWS if row[0] == "key 0"][:9]
    assert made(lambda s, _: s.apply(FirstN(9, "key", reverse=True))) == [row for row in ROWS if row[0] == "key 4"][:9]


def test_groups_that_spark_counts_come_in_the_order_of_their_keys(made: Callable[..., list[Any]]) -> None:
    keys = [row.key for row in made(lambda s, _: s.global_().group_by("key").aggregate(Count(), "count"))]
    assert sorted(keys) == sorted(BY_KEY)
    descents = sum(left > right for left, right in pairwise(keys))
    assert descents <= 1  # two partitions, one after the other


@define
class Seen(StateUpdater[State]):
    """An updater that keeps what it is given, in order."""

    rows: list[Any] = field(factory=list)

    def update_state(self, state: State, tuples: Sequence[Any], collector: TridentCollector) -> None:
        self.rows += [tuple(row) for row in tuples]


ROADS = ["a job of its own", "a shared job", "on the driver", "a resident task"]
Declare = Callable[[Stream], Stream]


@define
class Roads:
    """Runs one batch on each road that it may take."""

    spark: SparkSession
    patch: pytest.MonkeyPatch

    def run(self, road: str, declare: Callable[[Stream], object]) -> None:
        """All of `ROWS` in one batch."""
        self.patch.setattr(emitted, "SMALL_ROWS", 0 if road == "a job of its own" else 4096)
        topology = TridentTopology("ordered")
        if road == "a resident task":
            self._run_there(topology, declare)
        else:
            declare(topology.new_stream("s", FixedBatchSpout(SCHEMA, len(ROWS), *ROWS)))
            run_batches(topology, spark=None if road == "on the driver" else self.spark)

    def _run_there(self, topology: TridentTopology, declare: Callable[[Stream], object]) -> None:
        feeder, config = FeederBatchSpout(SCHEMA), TridentConfig(resident_tasks=1)
        declare(topology.new_stream("s", feeder))
        with topology.start(config, spark=self.spark, coordination=LocalCoordination()) as query:
            until(lambda: query.status.resident_tasks["there"] == 1)
            feeder.feed(ROWS)
            query.process_all_available()
            assert query.status.resident_tasks["answered"] == 1

    def updater(self, road: str, declare: Declare) -> list[Any]:
        """What an updater sees."""
        seen = Seen()
        self.run(road, lambda s: declare(s).partition_persist(MemoryMapState.factory(), seen, ["key", "n"]))
        return seen.rows

    def window(self, road: str, declare: Declare) -> list[Any]:
        """What a window of ten rows sees, window by window."""
        seen = Seen()

        def declared(stream: Stream) -> object:
            windows = declare(stream).window(TumblingCount(10), ["n"], Reduced(), "numbers string")
            return windows.partition_persist(MemoryMapState.factory(), seen, ["numbers"])

        self.run(road, declared)
        return [int(n) for (numbers,) in seen.rows for n in numbers.split(",")]


@pytest.fixture
def roads(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Roads:
    return Roads(spark, monkeypatch)


def through_functions(stream: Stream) -> Stream:
    return stream.map(lambda row: (row.key, row.n), SCHEMA).filter(lambda row: row.n % 3)


def spread_out(stream: Stream) -> Stream:
    return stream.partition_by("key").parallelism_hint(3).map(lambda row: (row.key, row.n), SCHEMA)


@pytest.mark.parametrize("road", ROADS)
def test_an_updater_and_a_window_see_the_order_of_the_batch_on_every_road(roads: Roads, road: str) -> None:
    kept = [row for row in ROWS if row[1] % 3]
    assert roads.updater(road, through_functions) == kept
    assert roads.window(road, through_functions) == [n for _, n in kept][: len(kept) // 10 * 10]


@pytest.mark.slow
def test_behind_other_partitions_each_keeps_its_order_and_a_small_batch_keeps_its_own(
    roads: Roads,
) -> None:
    alone, shared, driver, resident = (roads.updater(road, spread_out) for road in ROADS)
    assert shared == driver == resident == ROWS
    assert sorted(alone) == sorted(ROWS)
    for key in BY_KEY:
        assert [row for row in alone if row[0] == key] == [row for row in ROWS if row[0] == key]
    assert roads.updater(ROADS[0], spread_out) == alone
    assert roads.window(ROADS[0], spread_out) == [n for _, n in alone]


@pytest.mark.parametrize("road", ROADS)
def test_groups_that_spark_counts_come_in_the_order_of_their_keys_on_every_road(roads: Roads, road: str) -> None:
    def counted(stream: Stream) -> Stream:
        return stream.group_by("key").aggregate(Count(), "n")

    seen = roads.updater(road, counted)
    assert sorted(seen) == sorted((key, BY_KEY[key].count(",") + 1) for key in BY_KEY)
    if road != "a job of its own":  # there it may be two partitions, one after the other
        assert seen == sorted(seen)


KEYS: dict[str, list[Any]] = {
    "double": [1.5, None, float("nan"), -0.0, float("inf"), 0.0, -2.0],
    "string": ["b", "", None, "B", "ä", "\U0001f600", "\uffff"],
    "binary": [b"\x80", b"\x7f", None, b""],
    "boolean": [True, None, False],
    "decimal(5,2)": [Decimal("1.10"), None, Decimal("-3.00")],
    "array<int>": [[2], [1, 2], None, [], [None, 1], [1]],
    "struct<x:int,y:string>": [(2, "a"), (1, None), None, (None, "z"), (1, "a")],
}


@pytest.mark.parametrize("kind", KEYS)
def test_python_orders_keys_as_spark_does(spark: SparkSession, kind: str) -> None:
    def order(session: SparkSession | None) -> list[Any]:
        seen, topology = Seen(), TridentTopology("keys")
        keys = topology.new_stream(
            "s", FixedBatchSpout(f"k {kind}", len(KEYS[kind]), *[(each,) for each in KEYS[kind]])
        )
        counted = keys.group_by("k").aggregate(Count(), "n")
        counted.partition_persist(MemoryMapState.factory(), seen, ["k", "n"])
        run_batches(topology, spark=session)
        return seen.rows

    assert repr(order(spark)) == repr(order(None))
