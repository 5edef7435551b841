"""What tests of several files share: streams, topologies, processes of `trident`, and waiting for something."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from trident_py.interfaces.config import TridentConfig
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.streams.stream import Stream
from trident_py.topology import TridentTopology

TRIDENT = [sys.executable, "-c", "from trident_py.cli import main; raise SystemExit(main())"]
"""The command `trident`, in this Python."""


@pytest.fixture
def topology() -> TridentTopology:
    """An empty topology."""
    return TridentTopology("wordcount")


@pytest.fixture
def words(topology: TridentTopology) -> Stream:
    """A stream of words, each with a number and tags."""
    return topology.new_stream("lines", FixedBatchSpout("word string, n int, tags map<string, int>", 2))


@pytest.fixture
def config(zookeeper: str) -> TridentConfig:
    """A topology's settings for a ZooKeeper: a few transactions at once, and a short session."""
    return TridentConfig(zookeeper=zookeeper, max_spout_pending=3, session_timeout=5)


def until(holds: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until ``holds`` returns true; fail if it doesn't within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def failing_last(rows: DataFrame, directory: Path, files: int) -> DataFrame:
    """Return ``rows`` with an error in the task of the row 5, when ``directory`` has the ``files`` of the other tasks.

    Before that, a task may still write its file after the job has failed.
    """
    place = str(directory)

    def broken(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pathlib import Path
        from threading import Event

        for batch in batches:
            while 5 in batch.column("id").to_pylist():
                if len([*Path(place).rglob("*.parquet")]) == files:
                    raise ValueError("broken")
                Event().wait(0.05)
            yield batch

    return rows.mapInArrow(broken, rows.schema)


def fields(stream: Stream) -> str:
    """Return the fields of a stream, which are known, as a schema is written."""
    assert stream.schema is not None
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in stream.schema.fields)


def read_until(process: subprocess.Popen[str], pattern: str) -> str:
    """Read standard error up to a line like ``pattern``; return what its first group matches, or the whole match."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if found := re.search(pattern, line):
            return found[1] if found.re.groups else found[0]
    pytest.fail(f"no line like {pattern!r} in\n{''.join(lines)}")
