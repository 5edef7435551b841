"""The command line of the simulation; see the package."""

from __future__ import annotations

import argparse
import logging
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import get_context

from tests.simulation.gate import explore_all
from tests.simulation.run import judged, simulate

CHUNK = 8


def say(text: str) -> None:
    """Tell whoever runs it."""
    sys.stdout.write(text)


def seeds(first: int, count: int, workers: int) -> int:
    """Run ``count`` worlds from ``first`` on; 1 if one of them breaks a rule."""
    began, steps, commits, takeovers = time.monotonic(), 0, 0, 0
    with _pool(workers) as pool:
        for number, outcome in enumerate(pool.map(judged, range(first, first + count), chunksize=CHUNK), 1):
            steps, commits = steps + outcome.steps, commits + outcome.committed
            takeovers += outcome.takeovers
            if outcome.violation is not None:
                say(f"seed {outcome.seed} breaks {outcome.violation}\n{_replay(outcome.seed)}\n")
                return 1
            if number % 1000 == 0:
                say(f"{number} seeds, {number / (time.monotonic() - began):.1f} a second\n")
    seconds = time.monotonic() - began
    say(
        f"{count} seeds from {first} on, no violation: {seconds:.0f} s, {count / seconds:.1f} seeds a second, "
        f"{steps} events, {commits} commits, {takeovers} takeovers\n"
    )
    return 0


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def one(seed: int) -> int:
    """One world, with its log, twice; the two have to be the same."""
    logging.disable(logging.CRITICAL)
    outcome, again = simulate(seed), simulate(seed)
    for line in outcome.log:
        say(f"{line}\n")
    say(f"seed {seed}: {outcome.steps} events, {outcome.committed} commits, log {outcome.hash}\n")
    if outcome.hash != again.hash:
        say("the second run went another way\n")
        return 1
    if outcome.violation is not None:
        say(f"seed {seed} breaks {outcome.violation}\n{_replay(seed)}\n")
        return 1
    return 0


def _replay(seed: int) -> str:
    commit = "unknown"
    with suppress(OSError, subprocess.CalledProcessError):
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip()
    return f"replay it at commit {commit} with: python -m tests.simulation --seed {seed}"


def explore(workers: int) -> int:
    """Every scope, and the mutation gate; 1 if a rule is broken, or not needed."""
    began, worlds, failed = time.monotonic(), 0, False
    for found in explore_all(workers):
        say(f"{found}\n")
        worlds += found.worlds
        failed = failed or not found.is_as_wanted
    say(f"{worlds} worlds in {time.monotonic() - began:.0f} s\n")
    return int(failed)


def main(argv: list[str] | None = None) -> int:
    """Exit code 1 where a rule is broken, or isn't where it should be."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Simulated worlds, with faults.")
    parser.add_argument("--seeds", type=int, metavar="N", help="run so many worlds")
    parser.add_argument("--from", type=int, dest="first", metavar="K", help="the first seed; without it, any")
    parser.add_argument("--seed", type=int, metavar="K", help="run this world twice, and show its log")
    parser.add_argument("--explore", action="store_true", help="explore every world at small scope, and the mutants")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes; one a core by default")
    arguments = parser.parse_args(argv)
    if arguments.explore:
        return explore(arguments.workers)
    if arguments.seed is not None:
        return one(arguments.seed)
    if arguments.seeds is None:
        parser.error("say --seeds N, --seed K or --explore")
    first = random.SystemRandom().randrange(10**9) if arguments.first is None else arguments.first
    say(f"seeds {first} to {first + arguments.seeds - 1}\n")
    return seeds(first, arguments.seeds, arguments.workers)


if __name__ == "__main__":
    sys.exit(main())
