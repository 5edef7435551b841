"""Kills a word count whenever it likes, starts it again, and compares the table with a plain count of the input.

    python -m tests.acceptance.kills [--kills 20] [--megabytes 300] [--seed N]

Each kill is a SIGKILL of the driver, of Spark's JVM, of ZooKeeper, or of all of them, in turn, at a random moment
between the start of the program and some seconds after its first commit. Meanwhile files grow and new ones appear.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import chain, cycle
from pathlib import Path

import psutil
from attrs import define, field

TARGETS = ("driver", "jvm", "zookeeper", "all")
END_WITHIN_SECONDS = 120
"""A program whose JVM or ZooKeeper was killed has to end by itself within this."""


@define
class Killing:
    """One run of the harness in a directory of its own.

    Attributes:
        latest_seconds: a kill comes at a random moment up to this one.
        exits: how the program ended after each kill: target, seconds it ran, exit code.
    """

    directory: Path
    megabytes: float
    chance: random.Random
    files: int = 40
    latest_seconds: float = 40
    exits: list[tuple[str, float, int]] = field(factory=list)
    counted: int = 0

    @property
    def database(self) -> Path:
        """Where the words are counted."""
        return self.directory / "counts.db"

    def write(self, share: float) -> None:
        """Write this share of all input: new files, and new lines at the end of old ones."""
        (self.directory / "input").mkdir(exist_ok=True)
        lines = int(self.megabytes * 1e6 * share / self.files / 45)
        for number in range(self.files):
            old = self.directory / "input" / f"{number:03}.txt"
            new = self.directory / "input" / f"{number:03}-{self.counted}.txt"
            with (old if number % 2 else new).open("a") as file:
                for _ in range(lines):
                    file.write(" ".join(f"word{int(self.chance.paretovariate(0.6))}" for _ in range(6))[:80] + "\n")
        self.counted += 1

    def run(self, kills: int) -> None:
        """Kill so many times, then let it finish."""
        for number, target in zip(range(kills), cycle(TARGETS), strict=False):
            program = self.start()
            began = time.monotonic()
            with suppress(subprocess.TimeoutExpired):
                program.wait(self.chance.uniform(0.5, self.latest_seconds))
            if program.poll() is None:
                self.kill(program, target)
            try:
                code = program.wait(END_WITHIN_SECONDS)
            finally:
                self.end(program)
            self.exits.append((target, time.monotonic() - began, code))
            if number % 5 == 4:
                self.write(0.1)
        program = self.start()
        try:
            code = program.wait(1800)
        finally:
            self.end(program)
        assert code == 0, f"the last run ended with {code}; see {self.directory / 'program.log'}"

    def start(self) -> subprocess.Popen[bytes]:
        """Start the program; what it says goes to a log."""
        arguments = [str(self.directory / "input" / "*.txt"), str(self.database), str(self.directory / "state")]
        with (self.directory / "program.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.acceptance.word_count", *arguments],
                stdout=log,
                stderr=log,
                cwd=Path(__file__).parents[2],
                start_new_session=True,
            )

    def kill(self, program: subprocess.Popen[bytes], target: str) -> None:
        """SIGKILL what ``target`` names."""
        victims = {
            "driver": [program.pid],
            "jvm": [process.pid for process in self.jvms(program)],
            "zookeeper": [process.pid for process in self.zookeepers()],
        }
        # Where the program has not come as far as to have one, the driver goes.
        for pid in chain(*victims.values()) if target == "all" else victims[target] or victims["driver"]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def jvms(self, program: subprocess.Popen[bytes]) -> Iterator[psutil.Process]:
        """Spark's JVM, if the program has come that far."""
        with suppress(psutil.NoSuchProcess):
            for process in psutil.Process(program.pid).children(recursive=True):
                if "SparkSubmit" in " ".join(cmdline(process)):
                    yield process

    def zookeepers(self) -> Iterator[psutil.Process]:
        """The server whose data is in our directory."""
        for process in psutil.process_iter():
            line = " ".join(cmdline(process))
            if "QuorumPeerMain" in line and str(self.directory) in line:
                yield process

    def end(self, program: subprocess.Popen[bytes]) -> None:
        """Nothing of a program outlives it in the next one's way."""
        jvms = list(self.jvms(program))
        program.kill()
        for process in jvms:
            with suppress(psutil.NoSuchProcess):
                process.wait(60)

    def difference(self) -> tuple[Counter[str], Counter[str]]:
        """Words that were lost, and words that were counted too often."""
        expected: Counter[str] = Counter()
        for path in (self.directory / "input").glob("*.txt"):
            expected.update(path.read_text().split())
        with closing(sqlite3.connect(self.database)) as database:
            found = Counter(dict(database.execute("SELECT word, count FROM counts")))
        return expected - found, found - expected


def cmdline(process: psutil.Process) -> list[str]:
    """The command line of a process that may be gone."""
    try:
        return list(process.cmdline())
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return []


def main(argv: list[str] | None = None) -> int:
    """Kill, restart, compare, tell."""
    parser = argparse.ArgumentParser(description="Kill a word count and compare what it counted.")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--megabytes", type=float, default=300)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    arguments = parser.parse_args(argv)
    report = sys.stdout.write
    with tempfile.TemporaryDirectory(prefix="trident-kills-", ignore_cleanup_errors=True) as directory:
        killing = Killing(Path(directory), arguments.megabytes, random.Random(arguments.seed))
        report(f"seed {arguments.seed}, {arguments.megabytes:g} MB in {directory}\n")
        killing.write(0.6)
        began = time.monotonic()
        killing.run(arguments.kills)
        for number, (target, seconds, code) in enumerate(killing.exits, 1):
            report(f"kill {number:2} of {target:9} after {seconds:5.1f} s, exit code {code}\n")
        lost, doubled = killing.difference()
        report(f"{time.monotonic() - began:.0f} s; lost {lost.total()}, counted twice {doubled.total()}\n")
    return 1 if lost or doubled else 0


if __name__ == "__main__":
    sys.exit(main())
