"""One topology under one fault: its input that grows, its drivers, and what it leaves behind."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from operator import itemgetter
from pathlib import Path
from time import monotonic
from typing import Any

import psycopg
from attrs import define, field

from coordinators.backends.zookeeper.administration import leave_wish
from coordinators.backends.zookeeper.record_store import load
from coordinators.backends.zookeeper.session import ZooKeeperSession
from coordinators.backends.zookeeper.znodes import TopologyPaths
from coordinators.record.record import CoordinatorRecord
from coordinators.record.wishes import Action, Rate, Wish
from tests.faults.beside import LEAVES_OUT
from tests.faults.check import Entry, Evidence, Logged, Violation, counted, violations, words_in
from tests.faults.churn import DATABASE
from tests.faults.drivers import ROOT, Driver, wait_until
from tests.faults.journal import Event
from tests.faults.world import SESSION_SECONDS, World
from tests.servers.zookeeper import Ensemble

FEED_SECONDS = 0.1
GONE = (psycopg.OperationalError, psycopg.errors.UndefinedTable)


@define(eq=False)
class Feeder:
    """Appends lines to text files, one of which is new now and then, until it is told to stop."""

    directory: Path
    chance: random.Random
    _over: threading.Event = field(factory=threading.Event, init=False)
    _thread: threading.Thread = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.directory.mkdir(parents=True)
        self._feed(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def files(self) -> list[Path]:
        """All that was written."""
        return sorted(self.directory.glob("*.txt"))

    def stop(self) -> None:
        """Write no more."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        turn = 0
        while not self._over.wait(FEED_SECONDS):
            turn += 1
            self._feed(turn)

    def _feed(self, turn: int) -> None:
        with (self.directory / f"{turn // 100:04}-{turn % 3}.txt").open("a") as file:
            for _ in range(3):
                file.write(" ".join(f"word{int(self.chance.paretovariate(0.7)) % 5000}" for _ in range(5)) + "\n")


@define(eq=False)
class Case:
    """A word count on a database of its own.

    Attributes:
        other: where those drivers that are told to run from now on find the servers, if elsewhere.
        drivers: those that run it or stand by, in the order in which they came.
        takeover: seconds from the fault to the next leader.
        recovery: seconds from the fault to the next commit.
        former: those that ran it, have ended, and were given back.
        shares: whether transactions share jobs; where they don't, tasks stage their changes.
        per_window: of how many of each word there is one in the counts; 0: there is no window.
        window_secs: after how many seconds each words are counted; 0: at once.
        tasked: whether tasks change the counts in the commit phase, by user code.
        together: whether words are counted in two states and written by a sink, all of one database.
        churn: which states whose keys go there are, as `tests.faults.churn` has them; empty: none.
        beside: kind and place of one more output or source, as `tests.faults.beside` has them; empty: none.
        asks: whether drivers are asked for a count all the time.
        resident: how many tasks stay for small batches.
        since: when the topology was reset last; what was told before is of another life.
        ends: how a driver may end besides by being fenced.
    """

    world: World
    topology: str
    feeder: Feeder
    dsn: str
    ensemble: Ensemble
    other: dict[str, str] = field(factory=dict)
    session: float = SESSION_SECONDS
    drivers: list[Driver] = field(factory=list)
    takeover: float | None = None
    recovery: float | None = None
    ends: set[str] = field(factory=set)
    fired: list[str] = field(factory=list)
    left: Evidence | None = None
    shares: bool = True
    per_window: int = 0
    window_secs: int = 0
    tasked: bool = False
    together: bool = False
    churn: str = ""
    beside: list[str] = field(factory=list)
    asks: bool = False
    resident: int = 0
    since: float = 0.0
    runs: Counter[Driver] = field(factory=Counter)
    former: list[Driver] = field(factory=list)

    @classmethod
    @contextmanager
    def of(cls, world: World, name: str, seed: int = 1) -> Iterator[Case]:
        """A new one; its drivers are given back in the end."""
        topology = f"{name}-{next(world.numbers)}"
        feeder = Feeder(world.directory / "input" / topology, random.Random(seed))
        case = cls(world, topology, feeder, world.new_database(topology), world.ensemble)
        try:
            yield case
        finally:
            feeder.stop()
            for driver in case.drivers:
                case.release(driver)

    def release(self, driver: Driver) -> None:
        """Have a driver end this topology, however that may be, and give it back."""
        if driver.is_alive:
            driver.go_on()
            if self.world.network and driver.namespace:
                self.world.network.heal(driver.namespace)
            if self.has_ended(driver):
                self.world.give_back(driver)
                return
            driver.kill()
        self.world.give_back(driver)

    # --- running ------------------------------------------------------------------------------------------------------

    def run(self, driver: Driver, **orders: list[Any]) -> Driver:
        """Have a driver stand by, or lead where nobody does."""
        if driver not in self.drivers:
            self.drivers.append(driver)
        self.runs[driver] += 1
        driver.tell(
            "run",
            topology=self.topology,
            input=str(self.feeder.directory / "*.txt"),
            session=self.session,
            shares=self.shares,
            per_window=self.per_window,
            window_secs=self.window_secs,
            tasked=self.tasked,
            together=self.together,
            churn=self.churn,
            beside=self.beside,
            asks=self.asks,
            resident=self.resident,
            orders=orders,
            **{"zookeeper": self.ensemble.hosts, "dsn": self.dsn} | self.other,
        )
        return driver

    def has_ended(self, driver: Driver) -> bool:
        """Whether a driver runs the topology no more."""
        return len(driver.events("ended", self.topology)) >= self.runs[driver]

    def lead(self, driver: Driver, **orders: list[Any]) -> Driver:
        """Have a driver lead, and commit something."""
        self.run(driver, **orders)
        driver.await_event("leads", self.topology)
        return driver

    def pair(self, **orders: list[Any]) -> tuple[Driver, Driver]:
        """A leader that has committed something, with these orders from then on, and a standby."""
        leader, standby = self.world.take(2)
        self.lead(leader)
        self.run(standby)
        standby.await_event("stands_by", self.topology)
        self.await_commits(2)
        if orders:
            leader.tell("order", orders=orders)
        return leader, standby

    def events(self, *kinds: str) -> list[Event]:
        """What all drivers told, in order."""
        everybody = {*self.drivers, *self.former}
        told = [event for driver in everybody for kind in kinds for event in driver.events(kind, self.topology)]
        return sorted((event for event in told if event["at"] > self.since), key=itemgetter("at"))

    def await_fired(self, driver: Driver) -> Event:
        """The moment that was ordered, as soon as it was reached."""
        event = driver.await_event("fired", self.topology)
        self.fired.append(event["point"])
        return event

    def await_takeover(self, driver: Driver, since: float) -> None:
        """Return when ``driver`` leads; note how long after ``since`` that was."""
        self.takeover = driver.await_event("leads", self.topology)["at"] - since

    def _upto(self) -> int:
        """The last transaction; sees to it that somebody works on the next one."""
        running = [driver for driver in self.drivers if driver.is_alive and not self.has_ended(driver)]
        ended = [driver for driver in self.drivers if driver.is_alive and self.has_ended(driver)]
        if not running and ended:
            # A busy machine may let a session run out; who runs drivers for real starts them again, too.
            self.run(ended[-1])
        return self.committed()

    @property
    def churn_file(self) -> Path:
        """The SQLite database of states whose keys go."""
        return self.feeder.directory / DATABASE

    def committed(self) -> int:
        """The last transaction that the database has; 0 if there is none, or no database."""
        try:
            [(txid,)] = self.query("SELECT coalesce(max(txid), 0) FROM ledger_log")
        except GONE:
            return 0
        return int(txid)

    def query(self, text: str) -> list[tuple[Any, ...]]:
        """Ask the database."""
        with psycopg.connect(self.dsn, autocommit=True, connect_timeout=5) as connection:
            return connection.execute(text.encode()).fetchall()

    def await_commits(self, more: int = 2, since: float | None = None) -> None:
        """Return when so many more transactions are committed; note how long after ``since`` the first was."""
        before = self.committed()
        if since is not None:
            wait_until(f"a transaction after {before}", lambda: self._upto() > before)
            self.recovery = monotonic() - since
        wait_until(f"{more} transactions after {before}", lambda: self._upto() >= before + more)

    # --- the end ------------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Let everything be counted, and stop everybody."""
        self.await_counts()
        for driver in reversed(self.drivers):  # standbys first
            if driver.is_alive and not self.has_ended(driver):
                driver.tell("stop")
                wait_until(f"{driver.name} stops", partial(self.has_ended, driver))
        self.left = self.evidence()

    def await_counts(self) -> None:
        """Feed no more, and wait until everything is counted."""
        self.feeder.stop()
        words = counted(words_in(self.feeder.files), self.per_window).total()
        wait_until(f"{words} words are counted", lambda: self._upto() and self._counted() >= words)

    def finish(self) -> list[Violation]:
        """Let all be counted, unless that was done, and look."""
        if self.left is None:
            self.drain()
        assert self.left is not None
        return violations(self.left)

    def _counted(self) -> int:
        with suppress(*GONE):
            return int(self.query("SELECT coalesce(sum(count), 0) FROM counts")[0][0])
        return 0

    def evidence(self) -> Evidence:
        """What is left behind."""
        [(txid, fence)] = self.query("SELECT txid, fence FROM _trident WHERE state = 'counts'")
        return Evidence(
            files=self.feeder.files,
            counts={word: count for word, count in self.query("SELECT word, count FROM counts")},
            ledger=[Entry(*row) for row in self.query("SELECT txid, epoch, attempt, deltas, extents FROM ledger")],
            log=[Logged(*row) for row in self.query("SELECT txid, epoch, attempt FROM ledger_log ORDER BY seq")],
            book=(txid, fence),
            staging=[
                name
                for (name,) in self.query(r"SELECT tablename FROM pg_tables WHERE tablename ~ '^_counts_\d+_\d+_\d+$'")
            ],
            record=self.record(),
            events=self.events("record", "leads", "success", "emitted", "answer", "ended"),
            per_window=self.per_window,
            is_timed=self.window_secs > 0,
            parks=bool(self.beside) and self.beside[0] in LEAVES_OUT,
            ends=frozenset(self.ends),
        )

    def reset(self) -> None:
        """Have an operator reset the topology, which nobody runs, and give it an empty database."""
        trident = str(Path(sys.executable).with_name("trident"))
        command = [trident, "reset", self.topology, "--yes", "--zookeeper", self.ensemble.hosts]
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stdout + done.stderr
        self.dsn = self.world.new_database(f"{self.topology}-reset")
        self.since = monotonic()

    def record(self) -> CoordinatorRecord:
        """The record as it is in ZooKeeper."""
        with self.administration() as (session, paths):
            stored = session.retry_within_lease(lambda: load(session, paths))
        assert stored is not None
        return stored.record

    def wish(self, action: Action, rate: Rate | None = None) -> str:
        """Have an operator wish something; returns the id of the wish."""
        wish = Wish(f"{action}-{next(self.world.numbers)}", action, rate or Rate())
        leave_wish(self.topology, wish, hosts=self.ensemble.hosts)
        return wish.id

    @contextmanager
    def administration(self) -> Iterator[tuple[ZooKeeperSession, TopologyPaths]]:
        """A session of our own, and where the topology's nodes are."""
        session = ZooKeeperSession.connect(self.ensemble.hosts, who="the faults", session_timeout=30.0)
        try:
            yield session, TopologyPaths(f"{session.chroot}/trident/{self.topology}")
        finally:
            session.close()
