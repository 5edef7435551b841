"""All parts, one after the other, or those that are named: ``python -m benchmarks [--quick] [part …]``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import (
    connections,
    event_time,
    files,
    growth,
    kafka,
    large,
    listing,
    memory,
    nexmark,
    placement,
    quarantine,
    rows,
    shards,
    sinks,
    small,
    takeover,
    trickle,
    watched,
)
from benchmarks.command import Measure, run
from benchmarks.sizes import BY_NAME
from benchmarks.storm import run as storm

MAIN: dict[str, Measure] = {"large": large.measure, "small": small.measure}
MORE: dict[str, Measure] = {
    "memory": memory.measure,
    "growth": growth.measure,
    "rows": rows.measure,
    "shards": shards.measure,
    "windows": event_time.measure,
    "nexmark": nexmark.measure,
    "files": files.measure,
    "placement": placement.measure,
    "sinks": sinks.measure,
    "kafka": kafka.measure,
    "trickle": trickle.measure,
    "watched": watched.measure,
    "quarantine": quarantine.measure,
    "connections": connections.measure,
    "listing": listing.measure,
    "takeover": takeover.measure,
    "storm": storm.measure,
}


def main(argv: list[str] | None = None) -> int:
    """Measure, print Markdown, and one JSON object as the last line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measures trident_py beside its peers.")
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(MAIN | MORE)}; all of them by default")
    parser.add_argument("--quick", action="store_true", help="the main ratios, in less than five minutes")
    parser.add_argument("--sizes", choices=BY_NAME, default="full", help="how much to measure")
    parser.add_argument("--out", type=Path, help="a directory for JSON, Markdown and plots (benchmarks/results)")
    arguments = parser.parse_args(argv)
    if unknown := sorted(set(arguments.parts) - set(MAIN | MORE)):
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(MAIN | MORE)}")
    if arguments.quick:
        return run(MAIN, BY_NAME["quick"], arguments.out)
    if arguments.parts:
        chosen = {name: (MAIN | MORE)[name] for name in arguments.parts}
        return run(chosen, BY_NAME[arguments.sizes], arguments.out)
    return run(MAIN | MORE, BY_NAME[arguments.sizes], arguments.out or Path(__file__).parent / "results")


if __name__ == "__main__":
    sys.exit(main())
