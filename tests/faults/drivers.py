"""Driver processes: started ahead of time, told what to do, listened to, and hurt."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

import psutil
from attrs import define

from tests.faults.journal import Event, read

ROOT = Path(__file__).parents[2]
POLL_SECONDS = 0.05
PATIENCE_SECONDS = 60.0
T = TypeVar("T")


class TooLate(Exception):
    """What was waited for did not come."""


def await_death(driver: Driver) -> bool:
    """Wait until a driver is dead; whether that came to be."""
    return wait_until(f"{driver.name} is dead", lambda: not driver.is_alive)


def wait_until(what: str, condition: Callable[[], T | None], seconds: float = PATIENCE_SECONDS) -> T:
    """What ``condition`` answers as soon as that is true.

    Raises:
        TooLate: it is not for so many seconds.
    """
    until, never = monotonic() + seconds, threading.Event()
    while not (answer := condition()):
        if monotonic() > until:
            raise TooLate(f"not within {seconds:g} s: {what}")
        never.wait(POLL_SECONDS)
    return answer


@define(eq=False)
class Driver:
    """A process with the test program.

    Attributes:
        namespace: the network namespace that it is in, if any.
    """

    name: str
    journal: Path
    process: subprocess.Popen[str]
    namespace: str | None = None

    @classmethod
    def start(
        cls, name: str, directory: Path, namespace: str | None, master: str | None, environment: Mapping[str, str]
    ) -> Driver:
        """Start one; it is warm when it says ``ready``."""
        journal = directory / f"{name}.jsonl"
        which = ["--master", master] if master else []
        inside = ["ip", "netns", "exec", namespace] if namespace else []
        program = [sys.executable, "-m", "tests.faults.program", "--journal", str(journal), *which]
        with (directory / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [*inside, *program],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env={
                    **os.environ,
                    "PYTHONPATH": str(ROOT),
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    "PYSPARK_PYTHON": sys.executable,
                    **environment,
                },
                start_new_session=True,
                text=True,
            )
        return cls(name, journal, process, namespace)

    @property
    def pid(self) -> int:
        """The driver's own process; Spark's JVM is another."""
        return self.process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended."""
        return self.process.poll() is None

    @property
    def log(self) -> str:
        """What it has written to standard error."""
        return self.journal.with_suffix(".log").read_text()

    def tell(self, do: str, **what: Any) -> None:
        """Have it do something."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **what}) + "\n")
        self.process.stdin.flush()

    def events(self, kind: str, topology: str = "") -> list[Event]:
        """What it told of this kind."""
        return [event for event in read(self.journal) if event["kind"] == kind and event["topology"] == topology]

    def events_of(self, *kinds: str, topology: str) -> list[Event]:
        """What it told of these kinds, in order."""
        return [event for event in read(self.journal) if event["kind"] in kinds and event["topology"] == topology]

    def await_event(self, kind: str, topology: str = "", seconds: float = PATIENCE_SECONDS) -> Event:
        """The first event of this kind, as soon as there is one."""

        def told() -> list[Event]:
            was_alive = self.is_alive
            events = self.events(kind, topology)
            if not events and not was_alive:
                raise TooLate(f"{self.name} is dead, and never told {kind!r}")
            return events

        return wait_until(f"{self.name} tells {kind!r}", told, seconds)[0]

    # --- harm ---------------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """SIGKILL the driver, and return when it and its JVM are gone."""
        family = self.family()
        self.process.kill()
        self.process.wait(PATIENCE_SECONDS)
        self.bury(family)

    def close(self) -> None:
        """Close our end of what a dead driver was told by, and see that nothing of it lives on."""
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()
        self.bury([process for process in psutil.process_iter() if _session(process) == self.pid])

    def bury(self, family: list[psutil.Process]) -> None:
        """Return when the JVM of a dead driver, and its workers, are gone; they end by themselves, or are ended."""
        _, alive = psutil.wait_procs(family, timeout=5)
        for process in alive:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(alive, timeout=PATIENCE_SECONDS)

    def pause(self, *, whole_tree: bool = False) -> None:
        """SIGSTOP the driver; the JVM and Python workers as well, if so wanted."""
        for process in [*self.family(), psutil.Process(self.pid)] if whole_tree else [psutil.Process(self.pid)]:
            with suppress(psutil.NoSuchProcess):
                process.suspend()

    def go_on(self) -> None:
        """SIGCONT to all of them that are still there."""
        with suppress(psutil.NoSuchProcess):
            psutil.Process(self.pid).resume()
        for process in self.family():
            with suppress(psutil.NoSuchProcess):
                process.resume()

    def is_stopped(self) -> bool:
        """Whether it stands still."""
        return bool(psutil.Process(self.pid).status() == psutil.STATUS_STOPPED)

    def family(self, command: str = "") -> list[psutil.Process]:
        """The processes below it whose command line has this."""
        with suppress(psutil.NoSuchProcess):
            below = psutil.Process(self.pid).children(recursive=True)
            return [process for process in below if command in _command_line(process)]
        return []

    def terminate(self) -> None:
        """SIGTERM."""
        os.kill(self.pid, signal.SIGTERM)


def _session(process: psutil.Process) -> int | None:
    """Whose session it is of: that of a driver, for all that it has started, also when it is dead."""
    with suppress(ProcessLookupError):
        return os.getsid(process.pid)
    return None


def _command_line(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        return " ".join(process.cmdline())
    return ""
