"""What Spark's UI says of the jobs of a topology, asked by its REST interface."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import json, os, sys
from urllib.request import urlopen
from pyspark.sql import SparkSession
from trident_py import Count, FixedBatchSpout, ForeachBatchSink, MemoryMapState, SQLSink, TridentConfig, TridentTopology
from trident_py.testing import LocalCoordination

os.environ["PYSPARK_PYTHON"] = sys.executable
spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "true").config("spark.ui.port", "0")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
)
topology = TridentTopology("described")
words = topology.new_stream("words", FixedBatchSpout("word string", 1, *[(f"w{n}",) for n in range(20)]))
words.group_by("word").persistent_aggregate(MemoryMapState.factory(), Count(), "count")
words.name("seen").write_to(ForeachBatchSink(lambda frame, tx: frame.write.format("noop").mode("overwrite").save()))
same = words.transform(lambda frame: frame.distinct())
same.name("kept").write_to(SQLSink("sqlite:///canary-5up3r-53cr3t.db", "words"))
with topology.start(TridentConfig(max_spout_pending=8), spark=spark, coordination=LocalCoordination()) as query:
    query.process_all_available()
spark.range(1).count()
base = f"{spark.sparkContext.uiWebUrl}/api/v1/applications/{spark.sparkContext.applicationId}/jobs"
spark.sparkContext.setLogLevel("OFF")
print(json.dumps(json.load(urlopen(base))))
"""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.local
def test_jobs_are_described_by_topology_transactions_and_output(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], text=True, capture_output=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    jobs = json.loads(done.stdout.splitlines()[-1])
    said = {job["description"] for job in jobs if "description" in job}
    last = max(job["jobId"] for job in jobs if "description" in job)
    assert all("description" in job for job in jobs if job["jobId"] < last), "the program's own came behind them"
    assert {f"described: {txid}:0 → {output}" for txid in range(1, 21) for output in ("seen", "kept")} <= said
    shared = [each for each in said if each.endswith(" → words-state")]
    assert len(shared) < 20
    assert any(re.fullmatch(r"described: \d+:0 to \d+:0 → words-state", each) for each in shared)
    assert "canary" not in str(jobs)
