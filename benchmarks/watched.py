"""Small transactions while they are watched, beside those that nobody watches.

    python -m benchmarks.watched [--sizes full] [--out DIR]

The topology of `benchmarks.small`, with the most pending transactions, where what is told of each weighs most.

- ``unwatched``  no history, no page
- ``history``    the default: a SQLite file
- ``page``       that, and a page that is open, with the metrics for Prometheus, which are asked for each second
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

from attrs import evolve

from benchmarks.command import run_part
from benchmarks.parts import Cell, Part, Table
from benchmarks.rounds import race
from benchmarks.sizes import Sizes
from benchmarks.small import SmallCourse
from benchmarks.stage import SMALL, Stage
from trident_py import TridentQuery

UNWATCHED, HISTORY, PAGE = "unwatched", "history", "page"

WATCHER = """
import sys, time, urllib.request
address, token = sys.argv[1:]
headers = {"Authorization": f"Bearer {token}"}
scraped = 0.0
for line in urllib.request.urlopen(urllib.request.Request(f"{address}/events", headers=headers)):
    if time.monotonic() - scraped > 1:
        urllib.request.urlopen(f"{address}/metrics").read()
        scraped = time.monotonic()
        print(flush=True)
"""
"""A process of its own, as a browser and Prometheus are, that takes what it is sent."""


def measure(stage: Stage, sizes: Sizes) -> Part:
    """All in turn; for longer, and more often, than elsewhere, as some hundredths are looked for."""
    pending = max(sizes.small_pending)
    sizes = evolve(sizes, small_many=4 * sizes.small_many, rounds=3 * sizes.rounds)
    spent: dict[str, list[float]] = {}
    with stage.session(SMALL) as spark:
        course = SmallCourse.of(stage, spark, sizes)

        def turn(name: str, **settings: Any) -> float:
            began = time.process_time()
            seconds = course.trident(pending, watching if name == PAGE else unwatching, **settings)
            spent.setdefault(name, []).append(time.process_time() - began)
            return seconds

        competitors = {
            UNWATCHED: lambda: turn(UNWATCHED, history=None),
            HISTORY: lambda: turn(HISTORY, history=_history(stage)),
            PAGE: lambda: turn(PAGE, history=_history(stage), serve="127.0.0.1:0"),
        }
        results = race(competitors, sizes.rounds, UNWATCHED)
    transactions = sizes.small_batches * min(pending, sizes.small_many)
    rows: list[dict[str, Cell]] = [
        {
            "": name,
            "transactions/s": sizes.small_batches / result.median,
            "× unwatched": result.ratio,
            "spread": result.ratio_spread,
            "CPU of the driver, ms": 1000 * median(spent[name][1:]) / transactions,
        }
        for name, result in results.items()
    ]
    return Part(
        tables=[Table(f"{pending} pending transactions, watched and not", rows)],
        numbers={f"watched_{name}_of_unwatched": results[name].ratio for name in (HISTORY, PAGE)},
        spread={f"watched_{name}_of_unwatched": results[name].ratio_spread for name in (HISTORY, PAGE)},
        notes=["the CPU is that of Python's process, its start included, for each transaction"],
    )


def _history(stage: Stage) -> Path:
    return stage.scratch("history") / "history.db"


def unwatching(_: TridentQuery) -> AbstractContextManager[None]:
    """Have nobody look."""
    return nullcontext()


@contextmanager
def watching(query: TridentQuery) -> Iterator[None]:
    """Have somebody look at the page."""
    parts = urlsplit(query.page)
    token = parts.query.partition("=")[2]
    command = [sys.executable, "-c", WATCHER, f"{parts.scheme}://{parts.netloc}", token]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as watcher:
        try:
            assert watcher.stdout is not None
            watcher.stdout.readline()  # it has been sent something
            yield
        finally:
            watcher.kill()


def main(argv: list[str] | None = None) -> int:
    """This part alone."""
    return run_part("watched", measure, argv)


if __name__ == "__main__":
    sys.exit(main())
