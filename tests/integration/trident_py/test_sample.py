"""``Stream.sample`` on each road that rows take: the same rows in a job, in one that is shared, and on the driver."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from coordinators.values.attempt import TransactionAttempt
from trident_py import FixedBatchSpout, MemoryMapState
from trident_py.graph.graph import RowFlow
from trident_py.interfaces.operations import ReducerAggregator
from trident_py.planner.plan import Branch, check, plan
from trident_py.planner.sharing import shared
from trident_py.rows.row import rows_of
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.topology import TridentTopology

pytestmark = pytest.mark.spark

SCHEMA = schema_of("key string, n int")
BATCHES = {txid: [(f"key {n * txid % 7}", n % 11) for n in range(60 + txid)] for txid in range(1, 5)}


class Rows(ReducerAggregator[int]):
    """Has all rows come to the driver."""

    in_fields = ("key", "n")

    def init(self) -> int:
        return 0

    def reduce(self, curr: int, row: Any) -> int:
        return curr + 1


@pytest.fixture
def branch(spark: SparkSession) -> Branch:
    topology = TridentTopology("samples")
    rows = topology.new_stream("s", FixedBatchSpout(SCHEMA, 1)).filter(lambda row: row.n != 5).sample(0.4, 42)
    rows.map(tuple, SCHEMA).persistent_aggregate(MemoryMapState.factory(), Rows(), "rows int")
    (branch,) = check(plan(topology._graph), spark).branches
    return branch


def on_driver(branch: Branch, txid: int) -> list[Any]:
    sample: Any = branch.end.inputs[0].inputs[0].operation
    rows = [row for row in BATCHES[txid] if row[1] != 5]
    flow = sample.on_rows([RowFlow.of(arrow_table(rows, SCHEMA).to_batches(), SCHEMA)], TransactionAttempt(txid, 0))
    return list(map(tuple, rows_of(flow.table())))


@pytest.mark.parametrize("tasks", [1, 3])
def test_a_job_keeps_the_same_rows_as_the_driver(spark: SparkSession, branch: Branch, tasks: int) -> None:
    size = -(-len(BATCHES[2]) // tasks)
    parts = [arrow_table(BATCHES[2][at : at + size], SCHEMA) for at in range(0, len(BATCHES[2]), size)]
    frame = reduce(DataFrame.unionAll, [spark.createDataFrame(part, SCHEMA).coalesce(1) for part in parts])
    found = rows_of(branch.build({"s": frame}, TransactionAttempt(2, 5)).toArrow())
    assert sorted(map(tuple, found)) == sorted(on_driver(branch, 2))


def test_transactions_that_share_a_job_keep_the_same_rows_each_in_order(spark: SparkSession, branch: Branch) -> None:
    together = shared(branch, lambda *_: False)
    assert together is not None
    rows: pa.Table = together.together({txid: arrow_table(each, SCHEMA) for txid, each in BATCHES.items()})
    made = together.build(spark.createDataFrame(rows, together.source).coalesce(1).hint("rebalance"))
    found = together.apart(made.toArrow(), list(BATCHES))
    for txid in BATCHES:
        assert sorted(map(tuple, rows_of(found[txid]))) == sorted(on_driver(branch, txid))


def test_an_empty_batch_stays_empty(spark: SparkSession, branch: Branch) -> None:
    frame = spark.createDataFrame(arrow_table([], SCHEMA), SCHEMA)
    assert branch.build({"s": frame}, TransactionAttempt(1, 0)).toArrow().num_rows == 0
