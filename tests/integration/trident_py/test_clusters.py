"""`trident run` on a standalone master with two workers, and on a Spark Connect server: small and large batches."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.servers.spark import SparkCluster, SparkConnectServer
from tests.topologies import TRIDENT

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.zookeeper]

JOB = """
from pathlib import Path

from trident_py import Count, FileSpout, SQLiteState, TridentTopology

HERE = Path({here!r})


def split(line):
    from helper import words

    return [(word,) for word in words(line.value)]


topology = TridentTopology("clustered")
lines = FileSpout(HERE / "lines" / "*.txt", max_bytes_per_batch=1 << 17)
words = topology.new_stream("lines", lines).flat_map(split, "word string")
words.group_by("word").persistent_aggregate(SQLiteState(HERE / "counts.db", table="counts"), Count(), "n")
"""
HELPER = "def words(text):\n    return text.split()\n"


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A word count of one large and one small batch, which needs a module that nobody has installed."""
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "1.txt").write_text("".join(f"to be or not {n % 40} to be\n" for n in range(5_000)))
    (tmp_path / "lines" / "2.txt").write_text("to be\n" * 20)
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "job.py").write_text(JOB.format(here=str(tmp_path)))
    return tmp_path / "job.py"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    cluster = SparkCluster(tmp_path / "cluster")
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[SparkConnectServer]:
    server = SparkConnectServer(directory=tmp_path / "connect")
    try:
        server.start()
        yield server
    finally:
        server.close()


def run(job: Path, zookeeper: str, *place: str) -> Counter[str]:
    """Run it until its input is counted, and the process has ended; what is in the table then."""
    given = ["run", str(job), "--once", "--json", "--zookeeper", zookeeper, "--state-dir", str(job.parent)]
    given += ["--py-files", str(job.with_name("helper.py"))]
    done = subprocess.run([*TRIDENT, *given, *place], cwd=job.parent / "lines", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["total_input_rows"] == 5_020
    with closing(sqlite3.connect(job.with_name("counts.db"))) as connection:
        return Counter(dict(connection.execute("SELECT word, n FROM counts")))


def expected(job: Path) -> Counter[str]:
    return Counter(word for file in job.with_name("lines").iterdir() for word in file.read_text().split())


@pytest.mark.slow
def test_a_topology_runs_on_a_standalone_master_and_ships_its_code(
    job: Path, zookeeper: str, cluster: SparkCluster
) -> None:
    assert run(job, zookeeper, "--master", cluster.url) == expected(job)


@pytest.mark.long
def test_a_topology_runs_on_spark_connect_and_its_process_ends(
    job: Path, zookeeper: str, connect: SparkConnectServer
) -> None:
    assert run(job, zookeeper, "--remote", connect.url) == expected(job)


@pytest.mark.long
def test_a_module_that_workers_lack_is_named_before_the_first_batch(job: Path, zookeeper: str) -> None:
    job.write_text(f"import helper\n{job.read_text()}")
    given = ["run", str(job), "--once", "--zookeeper", zookeeper]
    done = subprocess.run([*TRIDENT, *given], cwd=job.parent / "lines", capture_output=True, text=True)
    assert done.returncode == 1
    assert "which lacks 'helper'" in done.stderr
    assert not job.with_name("counts.db").exists()
