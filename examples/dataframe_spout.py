"""Counts orders by product from a table that gets a partition a day, each order exactly once.

::

    python examples/dataframe_spout.py      each run adds a day, and counts what is new
"""

from __future__ import annotations

import datetime
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from trident_py import DataFrameSpout, TridentTopology
from trident_py.operations import Sum
from trident_py.states import SQLiteState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLE = Path("orders")


def latest(spark: SparkSession) -> str | None:
    """The last day that is complete: whoever writes a day's files marks it, last, by ``_SUCCESS``."""
    return max((mark.parent.name.removeprefix("day=") for mark in TABLE.glob("day=*/_SUCCESS")), default=None)


def read(spark: SparkSession, start: str | None, end: str) -> DataFrame:
    """The orders of the days behind ``start``, up to and with ``end``."""
    orders = spark.read.schema("product string, amount bigint, day string").parquet(str(TABLE))
    return orders.where(orders.day.between(start or "", end) & (orders.day != (start or "")))


topology = TridentTopology("orders-by-product")
(
    topology.new_stream("orders", DataFrameSpout("product string, amount bigint, day string", latest, read))
    .group_by("product")
    .persistent_aggregate(SQLiteState("orders.db", table="orders"), Sum("amount"), "amount")
)


def write_a_day(spark: SparkSession) -> None:
    """What somebody else does in real life."""
    days = len(list(TABLE.glob("day=*")))
    day = datetime.date(2026, 11, 20) + datetime.timedelta(days=days)
    rows = spark.createDataFrame([("tea", 3 + days), ("coffee", 5)], "product string, amount bigint")
    rows.write.parquet(str(TABLE / f"day={day}"))


if __name__ == "__main__":
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark's workers run what this program runs
    session = SparkSession.builder.master("local[2]").getOrCreate()
    write_a_day(session)
    print(topology.explain())
    with topology.start(spark=session) as query:
        query.process_all_available()
        print(query.last_progress)
