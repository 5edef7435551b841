"""Kills the processes of a topology, leader and standby, again and again, at moments that a seed chooses."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from itertools import count
from operator import itemgetter
from time import monotonic
from typing import Any

from attrs import define, field

from tests.faults.check import NAMED_ENDS
from tests.faults.drivers import ROOT, Driver, wait_until
from tests.faults.journal import Event
from tests.faults.world import World, say

RUNNING = 2
WAIT_SECONDS_MAX = 6.0
BEFORE_A_COMMIT = 0.2
"""How often a blow falls before whoever took over has committed anything."""
STANDBY = 0.25
"""How often it is the standby's."""
PATIENCE_SECONDS = 180.0
START_SECONDS = 300.0
"""Until the first one leads: two sessions of Spark start side by side."""


@define(eq=False)
class Killing:
    """One topology, and the processes that run it or stand by.

    Attributes:
        module: has a function ``declared``, which makes the topology of ``arguments``.
        master: where Spark runs; each process has a session of its own there.
        kills: of leaders and standbys.
    """

    world: World
    module: str
    arguments: dict[str, Any]
    chance: random.Random
    master: str = "local[1]"
    kills: Counter[str] = field(factory=Counter)
    former: list[Driver] = field(factory=list)
    running: list[Driver] = field(factory=list)
    _numbers: Iterator[int] = field(factory=lambda: count(1))

    def rage(self, *, seconds: float = math.inf, kills: float = math.inf) -> None:
        """Kill one, wait until something is committed again, mostly, and so on.

        Args:
            seconds: from the first commit on.
            kills: as many in all are enough.
        """
        self.replace_the_dead()
        wait_until("somebody leads", lambda: self.events("leads"), START_SECONDS)
        self.await_commit()
        until = monotonic() + seconds
        while monotonic() < until and self.kills.total() < kills:
            threading.Event().wait(self.chance.uniform(0, WAIT_SECONDS_MAX))
            self.strike()
            if self.chance.random() >= BEFORE_A_COMMIT:
                self.await_commit()

    def strike(self) -> None:
        """Kill the leader, or now and then the standby; another one stands by then."""
        leader = self.leader()
        standbys = [driver for driver in self.running if driver is not leader]
        victim = self.chance.choice(standbys) if standbys and self.chance.random() < STANDBY else leader
        if victim is None or not victim.is_alive:
            return
        victim.kill()
        self.kills["leader" if victim is leader else "standby"] += 1
        self.replace_the_dead()

    def await_commit(self) -> None:
        """Return when one more transaction is committed; meanwhile those that end are replaced."""
        since = monotonic()

        def has_committed() -> bool:
            self.replace_the_dead()
            return any(event["at"] > since for event in self.events("committed"))

        wait_until("something is committed", has_committed, PATIENCE_SECONDS)

    def drain(self, seconds: float = PATIENCE_SECONDS) -> None:
        """Kill all, and have another one end when all input is committed.

        Raises:
            TooLate: it doesn't.
        """
        for driver in self.running:
            if driver.is_alive:
                driver.kill()
        self._forget_the_dead()
        last = self._start("--drain")
        wait_until("all is committed", lambda: not last.is_alive, seconds)
        assert last.process.returncode == 0, last.log[-3000:]

    def replace_the_dead(self) -> None:
        """Have as many processes as there should be."""
        self._forget_the_dead()
        while len(self.running) < RUNNING:
            self.running.append(self._start())

    def leader(self) -> Driver | None:
        """Who led last, if that one runs."""
        led = self.events("leads")
        return next((driver for driver in self.running if led and driver.pid == led[-1]["pid"]), None)

    def events(self, kind: str) -> list[Event]:
        """What all processes told, in order."""
        everybody = [*self.former, *self.running]
        told = [event for driver in everybody for event in driver.events(kind, self.topology)]
        return sorted(told, key=itemgetter("at"))

    @property
    def topology(self) -> str:
        """What the topology is called."""
        return str(self.arguments["name"])

    def troubles(self) -> list[str]:
        """How processes ended that nobody has killed, where that is not by being fenced."""
        ends = self.events("ended")
        return [f"{end['error']}: {end['message'][:500]}" for end in ends if end["error"] not in NAMED_ENDS]

    def _forget_the_dead(self) -> None:
        for driver in [each for each in self.running if not each.is_alive]:
            driver.close()
            self.running.remove(driver)
            self.former.append(driver)

    def _start(self, *more: str) -> Driver:
        name = f"{self.topology}{next(self._numbers)}"
        journal = self.world.directory / f"{name}.jsonl"
        options = ["--journal", str(journal), "--zookeeper", self.world.ensemble.hosts, "--master", self.master, *more]
        with journal.with_suffix(".log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.victim", *options, self.module, json.dumps(self.arguments)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env={
                    **os.environ,
                    "PYTHONPATH": str(ROOT),
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    "PYSPARK_PYTHON": sys.executable,
                },
                start_new_session=True,
                text=True,
            )
        driver = Driver(name, journal, process)
        self.world.drivers.append(driver)
        return driver

    def report(self, seconds: float) -> None:
        """Print what was done."""
        killed = ", ".join(f"{times} × {kind}" for kind, times in sorted(self.kills.items()))
        say(
            f"{seconds / 60:.1f} minutes: killed {killed}; "
            f"{len(self.events('leads'))} leaderships, {len(self.events('committed'))} commits told"
        )
