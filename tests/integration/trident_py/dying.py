"""Programs whose topology kills its own process in the middle of commits, and the runs of such a program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from trident_py import TridentConfig, TridentTopology

PATIENCE_SECONDS = 180


def main(declare: Callable[[TridentTopology, Path, Callable[[], None]], object]) -> None:
    """Run a topology to its end, or until one of its functions has called ``dies`` so often.

    The arguments of the program are ZooKeeper's address, a directory, and that number; 0: it lives.
    """
    zookeeper, directory, left = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])

    def dies() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    topology = TridentTopology("killed")
    declare(topology, directory, dies)
    config = TridentConfig(zookeeper=zookeeper, session_timeout=2, state_dir=directory / "state", max_spout_pending=3)
    with topology.start(config) as query:
        query.process_all_available(120)


def run_over_kills(program: str | None, zookeeper: str, directory: Path, dies_after: Sequence[int]) -> None:
    """Run a program once for each number of calls after which it dies, then to its end."""
    assert program is not None
    for calls in (*dies_after, 0):
        done = subprocess.run(
            [sys.executable, program, zookeeper, str(directory), str(calls)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert (done.returncode == -9) == bool(calls), done.stderr[-2000:]
    assert done.returncode == 0, done.stderr[-2000:]
