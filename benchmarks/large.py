"""Large batches: rows a second beside bare Spark, a hand-written loop and Structured Streaming.

    python -m benchmarks.large [--sizes full] [--out DIR]

One file is one batch. What is done with it is in `benchmarks.workloads`, who does it in `benchmarks.competitors` and
`benchmarks.passing`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping

from attrs import evolve
from pyspark.sql import SparkSession

from benchmarks.command import run_part
from benchmarks.competitors import BARE, LOOP, OURS, STREAMING, Course, with_pending
from benchmarks.parts import Part
from benchmarks.passing import Passing
from benchmarks.rates import rates
from benchmarks.rounds import Measured, race
from benchmarks.sizes import Sizes
from benchmarks.stage import LARGE, Stage
from benchmarks.workloads import DriverUpdates, FileWords, Inputs, NativeWords, PythonWords, Updates, text, updates

MIDDLE = 10
"""Files of middle size have so many times fewer rows."""

Race = tuple[str, Inputs, dict[str, Callable[[], float]]]
"""A title, the files, and the competitors."""

log = logging.getLogger("benchmarks")


def measure(stage: Stage, sizes: Sizes) -> Part:
    """Every workload, its competitors in turn."""
    parts: dict[str, Part] = {}
    with stage.session(LARGE) as spark:
        for name, (title, inputs, competitors) in races(stage, sizes, spark).items():
            log.info("large: %s …", title)
            results = race(competitors, sizes.rounds, BARE)
            parts[name] = Part(
                tables=[rates(title, inputs, results, BARE, LOOP, STREAMING)],
                numbers=numbers(name, results, sizes),
                spread=spread(name, results, sizes),
            )
    return Part(
        tables=[table for part in parts.values() for table in part.tables],
        numbers={key: value for part in parts.values() for key, value in part.numbers.items()},
        spread={key: value for part in parts.values() for key, value in part.spread.items()},
    )


def races(stage: Stage, sizes: Sizes, spark: SparkSession) -> dict[str, Race]:
    """All of them, by the beginning of the names of their numbers."""
    middle = evolve(sizes, lines=sizes.lines // MIDDLE)
    lines = text(stage.scratch("lines"), sizes.files, sizes.lines, sizes.warm_up)
    found = word_counts("large", lines, stage, sizes, spark)
    if sizes.middle:
        lines_middle = text(stage.scratch("lines"), sizes.files, middle.lines, sizes.warm_up)
        found |= word_counts("middle", lines_middle, stage, middle, spark)
    if sizes.extras:
        rows = updates(stage.scratch("updates"), sizes.files, sizes.lines, sizes.keys, sizes.warm_up)
        what = f"{sizes.lines:,} updates of {sizes.keys:,} keys a batch"
        summed, emitted = (Course(stage, spark, kind(rows)) for kind in (Updates, DriverUpdates))
        found["updates"] = f"{what}, from Parquet files", rows, summed.competitors(sizes.pending)
        found["driver"] = f"{what}, emitted on the driver", rows, emitted.competitors(sizes.pending)
        passing = Passing(stage, spark, lines).competitors(sizes.pending)
        found["files"] = f"pass-through into Parquet files, {sizes.lines:,} lines a batch", lines, passing
    return found


def word_counts(size: str, lines: Inputs, stage: Stage, sizes: Sizes, spark: SparkSession) -> dict[str, Race]:
    """All kinds of word count."""
    found: dict[str, Race] = {}
    kinds: dict[str, tuple[str, type[NativeWords]]] = {
        "native": ("native functions", NativeWords),
        "python": ("Python functions", PythonWords),
    }
    if sizes.extras:
        kinds["files"] = "native functions behind FileSpout", FileWords
    for name, (functions, kind) in kinds.items():
        title = f"word count into SQLite, {sizes.lines:,} lines a batch, {functions}"
        found[f"{size}_{name}"] = title, lines, Course(stage, spark, kind(lines)).competitors(sizes.pending)
    return found


def ratios(name: str, results: Mapping[str, Measured], sizes: Sizes) -> Iterator[tuple[str, Measured]]:
    """The ratios that the last line has, by their names there."""
    ours = {"": OURS} | {f"_pending_{number}": with_pending(number) for number in sizes.pending}
    for suffix, competitor in ours.items():
        yield f"{name}_vs_bare{suffix}", results[competitor]
        if name == "large_native":
            yield f"wordcount_vs_loop{suffix}", results[competitor].over(results[LOOP])
            yield f"wordcount_vs_streaming{suffix}", results[competitor].over(results[STREAMING])


def numbers(name: str, results: Mapping[str, Measured], sizes: Sizes) -> dict[str, float]:
    """How many times as fast as each of the others."""
    return {key: result.ratio for key, result in ratios(name, results, sizes)}


def spread(name: str, results: Mapping[str, Measured], sizes: Sizes) -> dict[str, float]:
    """The highest of those ratios over the lowest."""
    return {key: result.ratio_spread for key, result in ratios(name, results, sizes)}


def main(argv: list[str] | None = None) -> int:
    """This part alone."""
    return run_part("large", measure, argv)


if __name__ == "__main__":
    sys.exit(main())
