"""Topologies that leave out bad rows, beside those in which a bad row fails its batch.

    python -m benchmarks.quarantine [--sizes full] [--out DIR]

The word count of `benchmarks.large` with a Python function, and that of `benchmarks.small`; no row is bad.

- ``fail``        the default
- ``quarantine``  ``on_bad_row="quarantine"``: one more job for each batch, and an intent to commit in ZooKeeper
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from benchmarks.command import run_part
from benchmarks.competitors import Course
from benchmarks.parts import Cell, Part, Table
from benchmarks.rounds import Measured, race
from benchmarks.sizes import Sizes
from benchmarks.small import SmallCourse
from benchmarks.stage import LARGE, SMALL, Stage
from benchmarks.workloads import PythonWords, text

FAIL, QUARANTINE = "fail", "quarantine"


def measure(stage: Stage, sizes: Sizes) -> Part:
    """Both sizes, with and without."""
    found: dict[str, Mapping[str, Measured]] = {}
    with stage.session(LARGE) as spark:
        lines = text(stage.scratch("lines"), sizes.files, sizes.lines, sizes.warm_up)
        course = Course(stage, spark, PythonWords(lines))
        found[f"{sizes.lines:,} lines a batch"] = _raced(stage, sizes, course.trident)
    with stage.session(SMALL) as spark:
        small = SmallCourse.of(stage, spark, sizes)
        for pending in (min(sizes.small_pending), max(sizes.small_pending)):
            title = f"{sizes.small_sentences} sentences a batch, {pending} pending"
            found[title] = _raced(stage, sizes, partial(small.trident, pending))
    rows: list[dict[str, Cell]] = [
        {"": title, "without, s": result[FAIL].median, "× without": result[QUARANTINE].ratio}
        for title, result in found.items()
    ]
    names = ("large", "small_alone", "small")
    numbers = {f"quarantine_{name}": each[QUARANTINE].ratio for name, each in zip(names, found.values(), strict=True)}
    return Part(
        tables=[Table("word count into SQLite, leaving out bad rows", rows)],
        numbers=numbers,
        spread={
            f"quarantine_{name}": each[QUARANTINE].ratio_spread
            for name, each in zip(names, found.values(), strict=True)
        },
        notes=["a ratio of 0.5 takes twice as long"],
    )


def _raced(stage: Stage, sizes: Sizes, turn: Callable[..., float]) -> Mapping[str, Measured]:
    def run(**settings: Any) -> float:
        return turn(state_dir=stage.scratch("letters"), **settings)

    return race({FAIL: run, QUARANTINE: partial(run, on_bad_row=QUARANTINE)}, sizes.rounds, FAIL)


def main(argv: list[str] | None = None) -> int:
    """This part alone."""
    return run_part("quarantine", measure, argv)


if __name__ == "__main__":
    sys.exit(main())
