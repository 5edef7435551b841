"""A join with a Delta table that changes: each batch, and each replay of it, has the prices of its pinned version."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from attrs import evolve
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from tests.integration.trident_py.test_windows import PATIENCE_SECONDS, Failing, select
from trident_py import DeltaSnapshotSpout, FeederBatchSpout, SQLSink, TridentConfig, TridentTopology

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]


class Repricing(Failing):
    """Fails transaction 2 once, and overwrites the prices before its replay."""

    prices: Path

    def commit(self, txid: int) -> None:
        if txid in self.fails - self.failed:
            write(self.prices, 1_000)
        super().commit(txid)


def write(path: Path, price: int) -> None:
    write_deltalake(path, pa.table({"item": ["pen"], "price": [price]}), mode="overwrite")


def test_a_replay_has_the_prices_of_the_version_that_was_pinned(
    spark: SparkSession, config: TridentConfig, tmp_path: Path
) -> None:
    write(tmp_path / "prices", 1)
    repricing, orders = Repricing({2}), FeederBatchSpout("n bigint, item string")
    repricing.prices = tmp_path / "prices"
    topology = TridentTopology("pricing")
    prices = topology.new_stream("prices", DeltaSnapshotSpout(tmp_path / "prices"))
    stream = topology.new_stream("orders", orders)
    priced = topology.join(stream, ["item"], prices, ["item"], ["item", "n", "price"])
    priced.write_to(SQLSink(f"sqlite:///{tmp_path / 'priced.db'}", "priced"))
    stream.partition_persist(repricing, repricing, ["n"])
    with topology.start(evolve(config, max_spout_pending=1), spark=spark) as query:
        for n in (1, 2, 3):
            orders.feed([(n, "pen")])
            if n == 1:
                write(tmp_path / "prices", 20)
        query.process_all_available(PATIENCE_SECONDS)
    assert repricing.failed == {2}
    found = select(tmp_path / "priced.db", "SELECT n, price FROM priced ORDER BY n")
    assert found == [(1, 1), (2, 20), (3, 1_000)]
