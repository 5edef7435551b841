"""The road of a batch, as docs/explanation/architecture.md tells it, is the one that a recorded batch takes."""

from __future__ import annotations

import gc
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from attrs import define, field
from pyspark.sql import SparkSession

from trident_py import TridentConfig, TridentTopology
from trident_py.operations import Count
from trident_py.spouts import FixedBatchSpout
from trident_py.states import SQLiteState

ROOT = Path(__file__).parents[3]
TOLD = {"CoordinatorDriver._take": "message", "DataPlane.handle": "stimulus"}
"""Where the driver takes what it is told, and the argument that this is."""


@define
class Recording:
    """What was called, and what the driver took, in order: the number of its turn, file and name."""

    called: list[tuple[int, str, str]] = field(factory=list)
    turns: int = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event != "call" or not path.is_relative_to(ROOT) or path.is_relative_to(ROOT / ".venv"):
            return
        name = frame.f_code.co_qualname
        self.turns += name == "CoordinatorDriver.turn"
        if name in TOLD:
            self.called.append((self.turns, "", type(frame.f_locals[TOLD[name]]).__name__))
        self.called.append((self.turns, str(path.relative_to(ROOT)), name))


@contextmanager
def recording() -> Iterator[Recording]:
    """All that threads do which are started within."""
    recorded = Recording()
    gc.disable()  # CPython 3.11.2 has crashed here: it collected garbage while a profiled call began
    threading.setprofile(recorded)
    try:
        yield recorded
    finally:
        threading.setprofile(None)
        gc.enable()


def road() -> list[list[tuple[str, str]]]:
    """For each visit that the page lists: names, with the file where it names one, in order."""
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    section = re.search(r"^## The road of one batch: six visits.*?(?=^`master)", page, re.DOTALL | re.MULTILINE)
    assert section is not None
    visits = re.split(r"^\d\. ", section[0], flags=re.MULTILINE)[1:]
    names = r"`(\w+(?:\.\w+)?)`(?:\s+\(`([\w/]+\.py)`\))?"
    return [re.findall(names, visit) for visit in visits]


@pytest.mark.spark
@pytest.mark.zookeeper
def test_a_recorded_batch_takes_the_road_that_the_page_tells(spark: SparkSession, tmp_path: Path) -> None:
    topology = TridentTopology("road")
    (
        topology.new_stream("lines", FixedBatchSpout("line string", 2, ("to be",), ("or not",)))
        .flat_map(lambda row: [(word,) for word in row.line.split()], "word string")
        .group_by("word")
        .persistent_aggregate(SQLiteState(tmp_path / "counts.db", table="counts"), Count(), "count")
    )
    with recording() as recorded, topology.start(TridentConfig(state_dir=tmp_path), spark=spark) as query:
        query.process_all_available(timeout=120)
    visits = road()
    assert len(visits) == 6
    called, turn = iter(recorded.called), 0
    for names in visits:
        for number, (name, path) in enumerate(names):
            found = next((each for each in called if each[2] == name and each[1].endswith(path)), None)
            assert found is not None, f"{name} in {path} was not called where the page says"
            if number == 0:
                assert found[0] > turn, f"{name} is no visit of its own"
                turn = found[0]
