"""Windows on real Spark and ZooKeeper: over failing attempts and restarts no row is lost, and none comes twice."""

from __future__ import annotations

import runpy
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from attrs import define, evolve, field
from pyspark.sql import SparkSession

from tests.unit.trident_py.states.sql.postgres_rows import select as rows_of_table
from trident_py import (
    Aggregator,
    Count,
    FailedException,
    FeederBatchSpout,
    FixedBatchSpout,
    PostgresState,
    SlidingCount,
    SQLiteState,
    State,
    StateFactory,
    StateUpdater,
    Sum,
    TridentCollector,
    TridentConfig,
    TridentTopology,
    TumblingCount,
    TumblingDuration,
)

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]

ROOT = Path(__file__).parents[3]
PATIENCE_SECONDS = 180


@pytest.fixture
def config(zookeeper: str, tmp_path: Path) -> TridentConfig:
    return TridentConfig(zookeeper=zookeeper, max_spout_pending=3, session_timeout=5, state_dir=tmp_path / "state")


def select(path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute(query).fetchall()


@define(eq=False)
class Failing(State, StateUpdater[State], StateFactory):
    """Fails the first commit of some transactions; notes the rows of each that it commits."""

    fails: set[int]
    rows: dict[int, list[Any]] = field(factory=dict)
    failed: set[int] = field(factory=set)
    txid: int = 0

    def make_state(self, *_: Any) -> State:
        return self

    def begin_commit(self, txid: int) -> None:
        self.txid = txid

    def update_state(self, state: State, tuples: Sequence[Any], collector: TridentCollector) -> None:
        self.rows[self.txid] = [tuple(row) for row in tuples]

    def commit(self, txid: int) -> None:
        if txid in self.fails - self.failed:
            self.failed.add(txid)
            raise FailedException("once")


class All(Aggregator[list[Any]]):
    """The number of the window, and the numbers that are in it."""

    def init(self, batch_id: Any, collector: TridentCollector) -> list[Any]:
        return [batch_id]

    def aggregate(self, value: list[Any], row: Any, collector: TridentCollector) -> None:
        value.append(row.n)

    def complete(self, value: list[Any], collector: TridentCollector) -> None:
        collector.emit((value[0], value[1:]))


def test_storm_1628_storm_3280_rows_are_in_a_window_once_over_failing_attempts_and_restarts(
    spark: SparkSession, config: TridentConfig, tmp_path: Path
) -> None:
    """The attempts fail when the window, and the sums behind it, have committed them."""
    failing = Failing({2, 3, 6})
    for upto in (9, 20):
        topology = TridentTopology("sliding")
        spout = FixedBatchSpout("n int", 3, *[(n,) for n in range(upto)])
        fired = topology.new_stream("numbers", spout).window(SlidingCount(5, 2), "n", All(), "id bigint, ns array<int>")
        sums = fired.map(lambda row: (row.id, sum(row.ns)), "id bigint, sum bigint").group_by("id")
        sums.persistent_aggregate(SQLiteState(tmp_path / "sums.db", table="sums"), Sum("sum"), "sum")
        fired.partition_persist(failing, failing, ["id", "ns"])
        with topology.start(config, spark=spark) as query:
            query.process_all_available(PATIENCE_SECONDS)
    expected = [(end // 2, list(range(max(0, end - 5), end))) for end in range(2, 21, 2)]
    assert failing.failed == failing.fails
    assert [row for _, rows in sorted(failing.rows.items()) for row in rows] == expected
    found = select(tmp_path / "sums.db", "SELECT id, sum FROM sums ORDER BY id")
    assert found == [(number, sum(numbers)) for number, numbers in expected]
    assert (tmp_path / "state" / "sliding-windows.db").exists()


@define(eq=False)
class Fired(State, StateUpdater[State], StateFactory):
    """Tells when windows with so many rows in all have fired."""

    wanted: int
    all_fired: threading.Event = field(factory=threading.Event)
    rows: dict[int, int] = field(factory=dict)
    txid: int = 0

    def make_state(self, *_: Any) -> State:
        return self

    def begin_commit(self, txid: int) -> None:
        self.txid = txid

    def update_state(self, state: State, tuples: Sequence[Any], collector: TridentCollector) -> None:
        self.rows[self.txid] = sum(row.n for row in tuples)

    def commit(self, txid: int) -> None:
        if sum(self.rows.values()) >= self.wanted:
            self.all_fired.set()


def test_w3_windows_by_time_close_without_input_and_have_each_row_once(
    spark: SparkSession, config: TridentConfig, tmp_path: Path
) -> None:
    """Grouped, and over a restart in which rows wait; the spout goes on, and has seen no gap."""
    told = Fired(7)
    for words in ("aabb", "acc"):
        spout = FeederBatchSpout("word string")
        topology = TridentTopology("by-time")
        fired = topology.new_stream("words", spout).group_by("word").window(TumblingDuration(1), "word", Count(), "n")
        store = SQLiteState(tmp_path / "counts.db", table="counts")
        fired.group_by("word").persistent_aggregate(store, Sum("n"), "count")
        fired.partition_persist(told, told, ["n"])
        with topology.start(evolve(config, max_spout_pending=1), spark=spark):
            for word in words:
                spout.feed([(word,)], PATIENCE_SECONDS)
            assert words == "aabb" or told.all_fired.wait(PATIENCE_SECONDS)
            spout.feed([], PATIENCE_SECONDS)
    counts = dict(select(tmp_path / "counts.db", "SELECT word, count FROM counts"))
    assert counts == {"a": 3, "b": 2, "c": 2}
    assert sum(told.rows.values()) == 7


class Pairs(Aggregator[list[Any]]):
    """All rows."""

    def init(self, batch_id: Any, collector: TridentCollector) -> list[Any]:
        return []

    def aggregate(self, value: list[Any], row: Any, collector: TridentCollector) -> None:
        value.append(tuple(row))

    def complete(self, value: list[Any], collector: TridentCollector) -> None:
        collector.emit((value,))


@pytest.mark.postgres
def test_windows_behind_partition_by_in_a_store_of_their_own_and_windows_of_windows(
    spark: SparkSession, config: TridentConfig, postgres: str
) -> None:
    kinds = {
        "amount": "decimal(20,2)",
        "at": "timestamp",
        "tags": "map<string,array<int>>",
        "place": "struct<x:double>",
    }
    pair = ", ".join(f"{name}: {kind}" for name, kind in kinds.items())
    schema = ", ".join(["key string", *(f"{name} {kind}" for name, kind in kinds.items())])
    at = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    rows = [
        (key, Decimal(number), at, {"n": [number, None]}, (number / 2,))
        for number, key in enumerate(["a", "b", None, "b", "a", None])
    ]
    topology = TridentTopology("parted")
    parted = topology.new_stream("rows", FixedBatchSpout(schema, 4, *rows)).partition_by("key")
    store = PostgresState(postgres, table="pairs")
    pairs = parted.window(TumblingCount(2), list(kinds), Pairs(), f"rows array<struct<{pair}>>", store=store)
    seen = Failing(set())
    pairs.partition_persist(seen, seen, "rows")
    amounts = pairs.map(lambda row: (row.rows[1].amount,), "amount decimal(20,2)").window(
        TumblingCount(3), "amount", Sum("amount"), "sum"
    )
    amounts.aggregate(Sum("sum"), "sum").persistent_aggregate(PostgresState(postgres, table="sums"), Sum("sum"), "sum")
    with topology.start(config, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
    found = sorted(row for given in seen.rows.values() for row in given)
    assert found == [([rows[first][1:], rows[second][1:]],) for first, second in ((0, 4), (1, 3), (2, 5))]
    assert rows_of_table(postgres, "SELECT sum FROM sums") == [(Decimal(4 + 3 + 5),)]


def test_s25_the_example_tells_what_is_trending_over_restarts(
    spark: SparkSession, config: TridentConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "posts").mkdir()
    topology = runpy.run_path(str(ROOT / "examples" / "trending.py"))["topology"]
    for name, lines in (
        ("1", ["#Spark and #storm"] * 3 + ["#trident, none"]),
        ("2", ["#trident"] * 3 + ["", "#x"] * 20),
    ):
        (tmp_path / "posts" / f"{name}.txt").write_text("\n".join(lines) + "\n")
        with topology.start(config, spark=spark) as query:
            query.process_all_available(PATIENCE_SECONDS)
    # Of 7 + 23 hashtags the window had 10, 20 and 30.
    found = select(tmp_path / "trending.db", "SELECT rank, hashtag FROM trending ORDER BY rank")
    assert found == [(1, "#x"), (2, "#trident"), (3, "#spark"), (4, "#storm"), (5, None)]
