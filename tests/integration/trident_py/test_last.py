"""``Last`` on each road that rows take: the row seen last of a batch, a group and all batches."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from trident_py import Count, FixedBatchSpout, Last, MemoryMapState, SQLiteState, TridentConfig
from trident_py.planner.plan import check, plan
from trident_py.rows.row import rows_of
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.streams.stream import Stream
from trident_py.testing import LocalCoordination
from trident_py.topology import TridentTopology

pytestmark = pytest.mark.spark

PATIENCE_SECONDS = 120
SCHEMA = schema_of("key string, n int")
ROWS = [(f"key {n * n % 7}", None if n % 50 == 1 else n) for n in range(200)]
BY_KEY = dict(ROWS)
LAST = ROWS[-1][1]


@pytest.fixture(params=[1, 3])
def made(request: pytest.FixtureRequest, spark: SparkSession) -> Callable[..., list[Any]]:
    """What becomes of `ROWS`, which so many tasks read."""

    def rows(declare: Callable[[Stream], object]) -> list[Any]:
        topology = TridentTopology("prices")
        declare(topology.new_stream("s", FixedBatchSpout(SCHEMA, 1)))
        (branch,) = check(plan(topology._graph), spark).branches
        size = -(-len(ROWS) // request.param)
        parts = [arrow_table(ROWS[first : first + size], SCHEMA) for first in range(0, len(ROWS), size)]
        frame = reduce(DataFrame.unionAll, [spark.createDataFrame(part, SCHEMA).coalesce(1) for part in parts])
        return rows_of(branch.build({"s": frame}).toArrow())

    return rows


def test_it_is_the_last_of_the_batch_or_group_however_many_tasks_read_it(made: Callable[..., list[Any]]) -> None:
    assert made(lambda s: s.aggregate(Last("n"), "n")) == [(LAST,)]
    assert dict(made(lambda s: s.group_by("key").aggregate(Last("n"), "n"))) == BY_KEY
    chained = made(
        lambda s: s.group_by("key").chained_agg().aggregate(Count(), "c").aggregate(Last("n"), "n").chain_end()
    )
    assert {row.key: row.n for row in chained} == BY_KEY
    assert made(lambda s: s.filter("n < 0").aggregate(Last("n"), "n")) == [(None,)]


def test_behind_a_shuffle_it_is_the_last_too(made: Callable[..., list[Any]]) -> None:
    spread = made(lambda s: s.partition_by("key").parallelism_hint(3).group_by("key").aggregate(Last("n"), "n"))
    assert dict(spread) == BY_KEY
    assert made(lambda s: s.global_().aggregate(Last("n"), "n")) == [(LAST,)]


def test_only_the_last_row_of_each_key_comes_to_the_driver(made: Callable[..., list[Any]]) -> None:
    kept = made(lambda s: s.group_by("key").persistent_aggregate(MemoryMapState.factory(), Last("n"), "n"))
    assert sorted(map(tuple, kept)) == sorted(BY_KEY.items())
    assert made(lambda s: s.persistent_aggregate(MemoryMapState.factory(), Last("n"), "n")) == [(LAST,)]
    nothing = made(lambda s: s.filter("n < 0").persistent_aggregate(MemoryMapState.factory(), Last("n"), "n"))
    assert nothing == []


def test_a_table_of_current_values_has_those_of_the_last_transaction(spark: SparkSession, tmp_path: Path) -> None:
    topology = TridentTopology("prices")
    rows = topology.new_stream("s", FixedBatchSpout(SCHEMA, 7, *ROWS))
    values = rows.group_by("key").persistent_aggregate(SQLiteState(tmp_path / "n.db", table="n"), Last("n"), "n")
    again = values.new_values_stream().persistent_aggregate(SQLiteState(tmp_path / "m.db", table="m"), Last("n"), "n")
    assert again.name
    rows.filter("n < 190").persistent_aggregate(SQLiteState(tmp_path / "o.db", table="o"), Last("n"), "n")
    with topology.start(TridentConfig(max_spout_pending=8), spark=spark, coordination=LocalCoordination()) as query:
        query.process_all_available(PATIENCE_SECONDS)
    found = {}
    for name, columns in (("n", "key, n"), ("m", "n"), ("o", "n")):
        with closing(sqlite3.connect(tmp_path / f"{name}.db")) as database:
            found[name] = database.execute(f"SELECT {columns} FROM {name}").fetchall()  # noqa: S608
    assert dict(found["n"]) == BY_KEY
    assert found["m"] == [(max(dict(ROWS[-4:]).items())[1],)]  # new values come in the order of their keys
    assert found["o"] == [(189,)]
