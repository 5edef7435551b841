"""Looks of a `FileSpout` at an object store: requests, keys, CPU and memory, for more and more objects.

    python -m benchmarks.listing [--sizes full] [--out DIR]

A server of ours (`benchmarks.list_server`) lists objects that don't exist. A process (`benchmarks.looks`) takes all of
them, without an order and with ``order="name"``, and then looks ten times.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.command import run_part
from benchmarks.looks import LOOKS
from benchmarks.parts import Cell, Part, Table
from benchmarks.sizes import Sizes
from benchmarks.stage import Stage

ORDERS = {"any": "any order", "name": 'order="name"'}


def measure(stage: Stage, sizes: Sizes) -> Part:
    """Measure each number of objects in both orders."""
    with serving() as url:
        asked = [(count, order) for count in sizes.listing_objects for order in ORDERS]
        facts = {(count, order): looked(url, count, order) for count, order in asked}
    rows = [_row(count, order, each) for (count, order), each in facts.items()]
    few, many = min(sizes.listing_objects), max(sizes.listing_objects)
    ratio = facts[many, "name"]["cpu"] / facts[few, "name"]["cpu"]
    return Part(
        tables=[Table(f"{LOOKS} looks at objects, one of which is new each time", rows)],
        numbers={"listing_cpu_of_fewer": ratio, "listing_memory_mb": facts[many, "name"]["memory"]},
    )


def _row(count: int, order: str, facts: dict[str, float]) -> dict[str, Cell]:
    return {
        "objects": count,
        "order": ORDERS[order],
        "requests/look": facts["requests"] / LOOKS,
        "keys/look": facts["keys"] / LOOKS,
        "CPU/look, s": facts["cpu"] / LOOKS,
        "memory, MB": facts["memory"],
        "position in the record, bytes": facts["position"],
        "all taken in, CPU s": facts["taken_cpu"],
        "full look, CPU s": facts.get("full_cpu"),
    }


def looked(url: str, count: int, order: str) -> dict[str, float]:
    """Return the numbers that a process has measured."""
    command = [sys.executable, "-m", "benchmarks.looks", url, str(count), order]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    facts: dict[str, float] = json.loads(done.stdout)
    return facts


@contextmanager
def serving() -> Iterator[str]:
    """Run the server; give its URL."""
    command = [sys.executable, "-m", "benchmarks.list_server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        if process.stdout is None:
            raise AssertionError("it has a pipe")
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def main(argv: list[str] | None = None) -> int:
    """Measure this part alone."""
    return run_part("listing", measure, argv)


if __name__ == "__main__":
    raise SystemExit(main())
