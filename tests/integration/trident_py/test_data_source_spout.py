"""A streaming reader of PySpark's Python Data Source API, in a topology on Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from tests.integration.trident_py.test_windows import PATIENCE_SECONDS, Failing, config, select
from tests.unit.trident_py.spouts.test_data_source import ROWS, Numbers, NumbersSource, SimpleSource
from trident_py import Count, DataSourceSpout, SQLiteState, TridentConfig, TridentTopology

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]

__all__ = ["config"]


@pytest.mark.parametrize("source", [NumbersSource, SimpleSource])
def test_each_row_counts_once_over_a_failed_commit_and_a_restart(
    source: type[DataSource], spark: SparkSession, config: TridentConfig, tmp_path: Path
) -> None:
    Numbers.committed.clear()
    for upto, fails in ((6, {1}), (10, {3})):
        failing, topology = Failing(fails), TridentTopology("numbers")
        rows = topology.new_stream("numbers", DataSourceSpout(source, upto=upto))
        counts = SQLiteState(tmp_path / "counts.db", table="counts")
        rows.group_by("n", "kind").persistent_aggregate(counts, Count(), "times")
        rows.partition_persist(failing, failing, ["n"])
        with topology.start(config, spark=spark) as query:
            query.process_all_available(PATIENCE_SECONDS)
        assert failing.failed == fails
    assert select(tmp_path / "counts.db", "SELECT n, kind, times FROM counts ORDER BY n") == [(*row, 1) for row in ROWS]
    if source is NumbersSource:
        assert Numbers.committed[-1] == {"n": 10}
