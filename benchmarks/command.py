"""The command line that all parts share: how much to measure, and where the results go."""

from __future__ import annotations

import argparse
import json
import logging
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks import machine
from benchmarks.parts import Part
from benchmarks.report import Report
from benchmarks.sizes import BY_NAME, Sizes
from benchmarks.stage import Stage

Measure = Callable[[Stage, Sizes], Part]

INTERRUPTED = 130
"""The exit code that shells expect after Ctrl-C."""

log = logging.getLogger("benchmarks")


def run_part(name: str, measure: Measure, argv: list[str] | None) -> int:
    """The command of one part: ``python -m benchmarks.<name>``."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=f"Measures the part {name}.")
    parser.add_argument("--sizes", choices=BY_NAME, default="full", help="how much to measure")
    parser.add_argument("--out", type=Path, help="a directory for JSON, Markdown and plots")
    arguments = parser.parse_args(argv)
    return run({name: measure}, BY_NAME[arguments.sizes], arguments.out)


def run(parts: Mapping[str, Measure], sizes: Sizes, out: Path | None) -> int:
    """Measure ``parts``; print them as Markdown, and what they come to as one line of JSON; return the exit code."""
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr, format="%(asctime)s %(message)s")
    log.setLevel(logging.INFO)
    interrupted: list[int] = []

    def interrupt(number: int, _: object) -> None:
        interrupted.append(number)
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):  # so that `timeout` leaves nothing behind either
        signal.signal(number, interrupt)
    try:
        report = measured(parts, sizes, out)
    except BaseException:
        if interrupted:  # whatever became of it on its way through others' code
            return INTERRUPTED
        raise
    print(report.as_markdown())
    print(json.dumps(report.summary(), allow_nan=False), flush=True)
    return 0


def measured(parts: Mapping[str, Measure], sizes: Sizes, out: Path | None) -> Report:
    """Measure ``parts`` one after the other, on one stage; what is known is in ``out`` after each of them."""
    with Stage.standing() as stage:
        about = machine.described(stage.directory, stage.zookeeper)
        results: dict[str, Part] = {}
        report = Report(about, sizes, results)
        for name, measure in parts.items():
            log.info("%s …", name)
            results[name] = measure(stage, sizes)
            if out:
                report.write(out)
    return report
