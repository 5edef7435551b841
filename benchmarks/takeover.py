"""A leader is killed, and a standby takes over: seconds from the end of the leader's session to the first commit.

    python -m benchmarks.takeover [--sizes full] [--out DIR]

The topology (`benchmarks.candidate`) is like that of `benchmarks.small`. One process leads and one stands by, each with
its own Spark. The leader is killed with SIGKILL under load. After the session timeout, ZooKeeper deletes the leader's
node; the clock runs from then on. The standby becomes the next leader to be killed.

- ``Spark jobs``      without resident tasks
- ``resident tasks``  with two
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue
from statistics import median
from threading import Thread

from attrs import define, field, frozen

from benchmarks.candidate import NAME
from benchmarks.command import log, run_part
from benchmarks.parts import Cell, Part, Table
from benchmarks.sizes import Sizes
from benchmarks.stage import Stage
from coordinators.backends.zookeeper.session import ZooKeeperSession

ROOT = Path(__file__).parents[1]
SESSION_SECONDS = 5.0
SECONDS_MAX = 180.0
RESIDENT = {"Spark jobs": 0, "resident tasks": 2}
MOMENTS = {"leads": "on_leading", "first batch": "on_emitted", "processed": "on_processed", "committed": "on_committed"}


@define(eq=False)
class Candidate:
    """A process that leads or stands by, and when it said what."""

    process: subprocess.Popen[str]
    moments: dict[str, float] = field(factory=dict)
    _told: SimpleQueue[tuple[str, float]] = field(factory=SimpleQueue)

    def __attrs_post_init__(self) -> None:
        Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            moment, at = line.split()
            self._told.put((moment, float(at)))

    def at(self, moment: str) -> float:
        """Wait for a moment; return its time."""
        while moment not in self.moments:
            name, at = self._told.get(timeout=SECONDS_MAX)
            self.moments[name] = at
        return self.moments[moment]


@frozen
class Place:
    """Where the candidates meet.

    Attributes:
        stage: for ZooKeeper.
        directory: the name of which is also that of the node.
        resident: how many tasks stay.
    """

    stage: Stage
    directory: Path
    resident: int

    @contextmanager
    def candidate(self) -> Iterator[Candidate]:
        """Start one, and kill it at the end."""
        words = [f"{self.stage.zookeeper}/{self.directory.name}", str(self.directory / "counts.db")]
        command = [sys.executable, "-m", "benchmarks.candidate", *words, str(SESSION_SECONDS), str(self.resident)]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        with subprocess.Popen(
            command, cwd=self.directory, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            try:
                yield Candidate(process)
            finally:
                process.kill()

    def ended(self, session: ZooKeeperSession) -> SimpleQueue[float]:
        """Return where the time at which the present leader's session ends will be put."""
        ended: SimpleQueue[float] = SimpleQueue()
        path = f"/{self.directory.name}/trident/{NAME}/leader"
        leader = session.retry_within_lease(lambda: session.watch(path, lambda _: ended.put(time.time())))
        assert leader is not None
        return ended


def measure(stage: Stage, sizes: Sizes) -> Part:
    """With and without resident tasks."""
    found = {name: kills(stage, resident, sizes) for name, resident in RESIDENT.items()}
    rows: list[dict[str, Cell]] = [
        {
            "": name,
            **{f"{title}, ms": 1000 * median(kill[title] for kill in each) for title in MOMENTS},
            "fastest, ms": 1000 * min(kill["committed"] for kill in each),
            "slowest, ms": 1000 * max(kill["committed"] for kill in each),
        }
        for name, each in found.items()
    ]
    commits = {
        f"takeover_{name.replace(' ', '_').lower()}_s": [kill["committed"] for kill in each]
        for name, each in found.items()
    }
    return Part(
        tables=[
            Table(f"A standby takes over, {sizes.takeover_kills} kills: time since the leader's session ended", rows)
        ],
        numbers={name: median(each) for name, each in commits.items()},
        spread={name: max(each) / min(each) for name, each in commits.items()},
    )


def kills(stage: Stage, resident: int, sizes: Sizes) -> list[dict[str, float]]:
    """Kill leaders; return for each the seconds from the end of its session to the moments of its successor."""
    place = Place(stage, stage.scratch("takeover"), resident)
    found: list[dict[str, float]] = []
    with ExitStack() as stack:
        leader = stack.enter_context(place.candidate())
        leader.at("on_committed")
        for _ in range(sizes.takeover_kills):
            standby = stack.enter_context(place.candidate())
            standby.at("stands_by")
            time.sleep(sizes.takeover_standby_seconds)
            session = ZooKeeperSession.connect(stage.zookeeper, who="the benchmark", session_timeout=SESSION_SECONDS)
            ended = place.ended(session)
            leader.process.kill()
            at = ended.get(timeout=SECONDS_MAX)
            found.append({title: standby.at(moment) - at for title, moment in MOMENTS.items()})
            log.info("%d resident tasks: committed after %.3f s", resident, found[-1]["committed"])
            session.close()
            leader = standby
    return found


def main(argv: list[str] | None = None) -> int:
    """This part alone."""
    return run_part("takeover", measure, argv)


if __name__ == "__main__":
    sys.exit(main())
