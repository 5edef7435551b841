"""A page while thousands of clients hold connections and ask nothing: whether requests are answered, and batches go on.

    python -m benchmarks.connections [--sizes full] [--out DIR]

A topology of small batches (`benchmarks.endless`) runs in a process that may open 1,024 files. Its rate and the latency
of a request with the token are measured alone, then while others hold connections (`benchmarks.crowd`), and alone
again.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

from attrs import define, field

from benchmarks.command import run_part
from benchmarks.parts import Cell, Part, Table
from benchmarks.rounds import quantile
from benchmarks.sizes import Sizes
from benchmarks.stage import Stage

ROOT = Path(__file__).parents[1]
FILES = 1024
TOKEN = "the token of the benchmark"  # noqa: S105 - as it says
EVERY_SECONDS = 0.1
WARM_UP_TRANSACTIONS = 300
TRIDENT = [sys.executable, "-c", "from trident_py.cli import main; raise SystemExit(main())"]


@define
class Phase:
    """What was measured for a while."""

    transactions: float = 0.0
    seconds: float = 0.0
    latencies: list[float] = field(factory=list)

    @property
    def rate(self) -> float:
        """Transactions a second."""
        return self.transactions / self.seconds


@define
class Served:
    """A topology with a page, in a process of its own."""

    address: str

    def committed(self) -> int:
        """Return how many transactions it has committed."""
        request = Request(f"{self.address}/status", headers={"Authorization": f"Bearer {TOKEN}"})  # noqa: S310 - ours
        with urlopen(request, timeout=60) as response:  # noqa: S310
            return int(json.load(response)["committed"])

    def measure(self, seconds: float) -> Phase:
        """Measure for so many seconds."""
        phase, began, first = Phase(), time.monotonic(), self.committed()
        last = first
        while time.monotonic() - began < seconds:
            asked = time.monotonic()
            last = self.committed()
            phase.latencies.append(time.monotonic() - asked)
            time.sleep(EVERY_SECONDS)
        phase.transactions, phase.seconds = last - first, time.monotonic() - began
        return phase


def measure(stage: Stage, sizes: Sizes) -> Part:
    """Alone, with others, and alone again."""
    seconds = sizes.connection_seconds
    with serving(stage) as served:
        while served.committed() < min(WARM_UP_TRANSACTIONS, 10 * seconds):
            time.sleep(EVERY_SECONDS)
        before = served.measure(min(seconds, 60))
        with crowd(served, sizes):
            during = served.measure(seconds)
        after = served.measure(min(seconds, 60))
    alone = Phase(before.transactions + after.transactions, before.seconds + after.seconds)
    alone.latencies = before.latencies + after.latencies
    held = f"{sizes.connection_silent} silent and {sizes.connection_slow} slow connections"
    rows: list[dict[str, Cell]] = [
        {
            "": name,
            "transactions/s": phase.rate,
            "request p50, ms": 1000 * quantile(phase.latencies, 0.5),
            "request p99, ms": 1000 * quantile(phase.latencies, 0.99),
        }
        for name, phase in (("alone", alone), (held, during))
    ]
    return Part(
        tables=[Table(f"A page that others hold connections to, {seconds} s, at most {FILES} files", rows)],
        numbers={
            "connections_rate_of_alone": during.rate / alone.rate,
            "connections_p99_ms": 1000 * quantile(during.latencies, 0.99),
        },
    )


@contextmanager
def serving(stage: Stage) -> Iterator[Served]:
    """Run the topology."""
    directory = stage.scratch("connections")
    command = [*TRIDENT, "run", str(ROOT / "benchmarks" / "endless.py"), "--serve", "127.0.0.1:0"]
    command += ["--zookeeper", f"{stage.zookeeper}/{directory.name}"]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "TRIDENT_TOKEN": TOKEN, "PYTHONPATH": path}
    errors = directory / "errors.txt"
    with (
        errors.open("w") as file,
        subprocess.Popen(command, cwd=directory, env=env, stderr=file, stdout=file, preexec_fn=_limit_files) as process,
    ):
        try:
            while not (found := re.search(r"^page: (.*)/\?token=", errors.read_text(), re.MULTILINE)):
                if process.poll() is not None:
                    raise RuntimeError(errors.read_text())
                time.sleep(EVERY_SECONDS)
            yield Served(found[1])
            if "Too many open files" in errors.read_text():
                raise RuntimeError(errors.read_text())
        finally:
            process.terminate()


def _limit_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


@contextmanager
def crowd(served: Served, sizes: Sizes) -> Iterator[None]:
    """Have others hold connections."""
    host, _, port = served.address.removeprefix("http://").rpartition(":")
    command = [sys.executable, "-m", "benchmarks.crowd", host, port]
    command += [str(sizes.connection_silent), str(sizes.connection_slow)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield
        finally:
            process.kill()


def main(argv: list[str] | None = None) -> int:
    """This part alone."""
    return run_part("connections", measure, argv)


if __name__ == "__main__":
    sys.exit(main())
