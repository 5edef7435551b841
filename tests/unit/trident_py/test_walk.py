"""How many files one batch runs through: what a reader opens to follow it from the spout to the committed row."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import trident_py
from trident_py import TridentConfig, TridentTopology
from trident_py.operations import Count
from trident_py.spouts import FeederBatchSpout
from trident_py.states import SQLiteState
from trident_py.testing import LocalCoordination

FILES_MAX = 67
ROOT = Path(trident_py.__file__).parents[1]
OURS = tuple(f"{ROOT}/{package}/" for package in ("coordinators", "trident_py"))


class Trace:
    """Notes the files of the product whose functions are called, on all threads, while it is switched on."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.is_on = False

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if self.is_on and event == "call" and frame.f_code.co_filename.startswith(OURS):
            self.files.add(frame.f_code.co_filename)


@contextmanager
def tracing() -> Iterator[Trace]:
    trace = Trace()
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        yield trace
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def test_one_batch_runs_through_few_files(tmp_path: Path) -> None:
    topology, lines = TridentTopology("walk"), FeederBatchSpout("line string")
    (
        topology.new_stream("lines", lines)
        .flat_map(lambda row: [(word,) for word in row.line.split()], "word string")
        .group_by("word")
        .persistent_aggregate(SQLiteState(tmp_path / "counts.db", table="counts"), Count(), "count")
    )
    with tracing() as trace, topology.start(TridentConfig(), coordination=LocalCoordination()) as query:
        lines.feed([("one to warm up",)])
        query.process_all_available()
        trace.is_on = True
        lines.feed([("and one to follow",)])
        query.process_all_available()
        trace.is_on = False
    opened = sorted(str(Path(file).relative_to(ROOT)) for file in trace.files)
    assert "coordinators/protocol/master.py" in opened
    assert len(opened) <= FILES_MAX, opened
