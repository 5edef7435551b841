"""A streaming writer of PySpark's Python Data Source API, in a topology on Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve
from pyspark.sql import SparkSession

from tests.integration.trident_py.test_windows import PATIENCE_SECONDS, Failing, config
from tests.unit.trident_py.sinks.test_data_source import Parts, committed
from trident_py import DataSourceSink, FixedBatchSpout, TridentConfig, TridentTopology

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]

__all__ = ["config"]


@pytest.mark.parametrize("arrow", [False, True])
def test_a_batch_that_is_committed_again_has_the_same_id_and_what_failed_is_taken_back(
    arrow: bool, spark: SparkSession, config: TridentConfig, tmp_path: Path
) -> None:
    written, failing, topology = tmp_path / "written", Failing({2}), TridentTopology("numbers")
    written.mkdir()
    rows = [(n, "even" if n % 2 == 0 else "odd") for n in range(9)]
    stream = topology.new_stream("numbers", FixedBatchSpout("n bigint, kind string", 3, *rows))
    stream.name("parts").write_to(DataSourceSink(Parts, path=written, arrow=arrow))
    stream.partition_persist(failing, failing, ["n"])
    # One at a time: a later batch would be cancelled, and nobody learns which files a cancelled task has written.
    with topology.start(evolve(config, max_spout_pending=1), spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
    assert failing.failed == {2}
    assert committed(written) == rows
    assert {path.name for path in written.iterdir()} == {"batch-1", "batch-2", "batch-3"}
