"""A topology that writes files is killed in a commit, and readers look all the time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow.dataset
import pytest

from tests.acceptance.file_sink import PER_BATCH, ROWS
from tests.acceptance.file_sink_twice import BATCHES
from tests.servers.spark import SparkCluster

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.zookeeper]

PAUSE_SECONDS = 0.1
ROOT = Path(__file__).parents[2]
IN_BATCHES = [(txid, number) for txid, number in ((1 + n // PER_BATCH, n) for _, n in ROWS) if number % 12 >= PER_BATCH]
"""What is to be read: each number, with its transaction."""


@pytest.mark.slow
def test_killed_between_rename_and_sync_each_transaction_is_there_whole_and_once(
    tmp_path: Path, zookeeper: str
) -> None:
    path = tmp_path / "rows"
    with reading(path):
        assert run(path, zookeeper, "_publish:after") == -signal.SIGKILL
        assert run(path, zookeeper) == 0
    assert Counter(seen(path)) == Counter(IN_BATCHES)
    (staging,) = (tmp_path / ".rows.staging").iterdir()
    assert sorted(each.name.partition("-")[0] for each in staging.iterdir()) == ["2", "drafts"]


@pytest.mark.slow
def test_a_task_that_runs_twice_side_by_side_writes_its_rows_once(tmp_path: Path, zookeeper: str) -> None:
    path, meeting, cluster = tmp_path / "rows", tmp_path / "meeting", SparkCluster(tmp_path / "cluster")
    meeting.mkdir()
    try:
        cluster.start()
        program = [sys.executable, "-m", "tests.acceptance.file_sink_twice"]
        given = [str(path), zookeeper, cluster.url, str(meeting)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
        subprocess.run([*program, *given], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, check=True)
    finally:
        cluster.stop()
    assert len(list(meeting.glob("second-*"))) == BATCHES
    numbers = pyarrow.dataset.dataset(path, partitioning="hive").to_table()["n"].to_pylist()
    assert sorted(numbers) == list(range(PER_BATCH * BATCHES))


def run(path: Path, *arguments: str) -> int:
    """Run the program; returns how it ended."""
    return subprocess.run(
        [sys.executable, "-m", "tests.acceptance.file_sink", str(path), *arguments], cwd=ROOT, stdin=subprocess.DEVNULL
    ).returncode


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Have somebody read all the time, and see whole transactions only, in order, each once."""
    over = threading.Event()

    def read() -> None:
        while not over.wait(PAUSE_SECONDS):
            found = seen(path) if any(path.glob("txid=*/*/*")) else []
            last = max((txid for txid, _ in found), default=0)
            assert Counter(found) == Counter(row for row in IN_BATCHES if row[0] <= last)

    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(read)
        try:
            yield
        finally:
            over.set()
        reader.result()


def seen(path: Path) -> list[tuple[int, int]]:
    """The transaction and number of each row."""
    rows = pyarrow.dataset.dataset(path, partitioning="hive").to_table()
    return list(zip(rows["txid"].to_pylist(), rows["n"].to_pylist(), strict=True))
