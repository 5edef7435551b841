"""Builds the Java program beside this file and runs it, a process for each pair of batch size and pending transactions.

    python -m benchmarks.storm [--sizes full]

It counts words into Storm's in-memory state, so there is no disk in it and nothing outlives the process: Storm at its
best. Without Maven, or where Maven can't reach its repository, this part is left out, and says so.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.command import run_part
from benchmarks.parts import Part, Table
from benchmarks.sizes import Sizes
from benchmarks.stage import Stage
from coordinators.backends.zookeeper.java import find_java

HERE = Path(__file__).parent
BUILD_SECONDS_MAX = 600
RUN_SECONDS_MORE = 60
"""For the cluster to come up, and to warm up."""


def measure(stage: Stage, sizes: Sizes) -> Part:
    """Each pair of sizes."""
    if not sizes.storm:
        return Part()
    missing = "Maven is not installed (`mvn`)" if shutil.which("mvn") is None else _built(stage.directory / "storm")
    if missing:
        return Part(notes=(f"left out: {missing}",))
    rows: list[dict[str, Any]] = []
    for batch, pending in sizes.storm:
        found = _run(stage.directory / "storm", sizes.storm_seconds, batch, pending)
        rows.append({"sentences in a batch": batch, "pending": pending} | found)
    title = f"Storm's Trident 2.8.3, LocalCluster, word count into MemoryMapState, {sizes.storm_seconds} s each"
    small = [row["transactions_per_second"] for row in rows if row["sentences in a batch"] <= sizes.small_sentences]
    numbers = {"storm_small_tx_per_s": max(small)} if small else {}
    return Part(tables=[Table(title, rows)], numbers=numbers)


def _built(target: Path) -> str | None:
    """What went wrong; None if the program is in ``target`` now."""
    command = ["mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), f"-DbuildTo={target}", "compile"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired:
        return f"Maven was not done after {BUILD_SECONDS_MAX} s"
    errors = [line for line in done.stdout.splitlines() if "ERROR" in line]
    return f"Maven failed: {errors[0] if errors else done.stderr.strip()}" if done.returncode else None


def _run(target: Path, seconds: int, batch: int, pending: int) -> dict[str, Any]:
    classes = f"{target / 'classes'}:{(target / 'classpath').read_text(encoding='utf-8')}"
    program = ["benchmarks.WordCount", str(seconds), str(batch), str(pending)]
    done = subprocess.run(
        [find_java(), "-Xmx2g", "-cp", classes, *program],
        capture_output=True,
        text=True,
        timeout=seconds + RUN_SECONDS_MORE,
        check=True,
        cwd=target,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(argv: list[str] | None = None) -> int:
    """This part alone."""
    return run_part("storm", measure, argv)
