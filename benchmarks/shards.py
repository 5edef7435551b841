"""Many keys a batch into SQLite files: one file, or shards, and bare Spark.

    python -m benchmarks.shards [--sizes full] [--out DIR]

The updates of `benchmarks.large`. Processor time is that of the driver, the JVM and Python's workers together. It says
more than the clock on a machine that has other work, and whether two busy cores could be faster at all.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median

from attrs import define, evolve, field

from benchmarks.command import run_part
from benchmarks.competitors import BARE, Course
from benchmarks.parts import Cell, Part, Table
from benchmarks.rounds import race
from benchmarks.sizes import Sizes
from benchmarks.stage import LARGE, Stage
from benchmarks.workloads import Updates, updates

NUMBERS = (1, 2, 4)
TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")


@define
class Timed:
    """A competitor, with the processor time of its turns.

    Attributes:
        turn: returns seconds by the clock.
        spent: processor seconds of each turn, from its beginning.
    """

    turn: Callable[[], float]
    spent: list[float] = field(factory=list)

    def __call__(self) -> float:
        """Take a turn."""
        before = processor_seconds()
        seconds = self.turn()
        self.spent.append(processor_seconds() - before)
        return seconds


def measure(stage: Stage, sizes: Sizes) -> Part:
    """Bare Spark, and each number of shards."""
    with stage.session(LARGE) as spark:
        rows = updates(stage.scratch("updates"), sizes.files, sizes.lines, sizes.keys, sizes.warm_up)
        course = Course(stage, spark, Updates(rows))
        competitors = {BARE: Timed(course.bare)}
        competitors |= {shards_name(each): Timed(evolve(course, shards=each).trident) for each in NUMBERS}
        results = race(competitors, sizes.rounds, BARE)
    spent = {name: median(timed.spent[1:]) for name, timed in competitors.items()}
    lines: list[dict[str, Cell]] = [
        {
            "": name,
            "ms a batch": 1000 * result.median / sizes.files,
            "× bare": result.ratio,
            "CPU, ms a batch": 1000 * spent[name] / len(rows.files),
            "× CPU of bare": spent[name] / spent[BARE],
        }
        for name, result in results.items()
    ]
    return Part(
        tables=[Table(f"{sizes.lines:,} updates of {sizes.keys:,} keys a batch, by shards", lines)],
        numbers={f"shards_{each}_vs_bare": results[shards_name(each)].ratio for each in NUMBERS},
        spread={f"shards_{each}_vs_bare": results[shards_name(each)].ratio_spread for each in NUMBERS},
        notes=["the CPU includes the warm-up and, for trident_py, its start"],
    )


def shards_name(number: int) -> str:
    """The name of the competitor with so many shards."""
    return f"{number} shards" if number > 1 else "one file"


def processor_seconds() -> float:
    """The processor time of this process and of all below it, in seconds."""
    parents, spent = dict[int, int](), dict[int, float]()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        parents[int(stat.parent.name)] = int(fields[1])
        spent[int(stat.parent.name)] = sum(map(int, fields[11:15])) * TICK_SECONDS
    own = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in own} - own:
        own |= more
    return sum(spent.get(pid, 0.0) for pid in own)


def main(argv: list[str] | None = None) -> int:
    """This part alone."""
    return run_part("shards", measure, argv)


if __name__ == "__main__":
    sys.exit(main())
