"""Random faults for as long as you like, in noisy and quiet phases; the same seed gives the same ones.

    python -m tests.faults.nemesis --minutes 30 --seed N [--keep]

Its PostgreSQL has a replica that confirms every commit, and takes the primary's place now and then. Some of the drivers
let transactions share jobs, the others' tasks stage what they make. After each noisy phase it measures how long it
takes until something is committed again; in the end everything is counted, and the checker looks at it.
"""

from __future__ import annotations

import statistics
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from time import monotonic

import psycopg
from attrs import define, field

from coordinators.record.wishes import Action, Rate
from tests.faults.case import Case
from tests.faults.check import Violation
from tests.faults.drivers import Driver, TooLate, wait_until
from tests.faults.replicas import Replicated
from tests.faults.schedule import KINDS, Blow, Schedule
from tests.faults.world import World, end_postgres, options, say
from tests.servers.zookeeper import SIZE
from trident_py.errors import TridentError

PHASES_MAX = 10_000
DRIVERS = 2
CALM_COMMITS = 3


@define(eq=False)
class Nemesis:
    """Deals out blows to one case, and heals them again.

    Attributes:
        dealt: how often each kind of fault was there.
        healing: what is to be undone, and when.
        recoveries: seconds from each quiet moment to the next commit.
        stands: whether something may stand that an operator has wished.
    """

    case: Case
    servers: Replicated
    dealt: Counter[str] = field(factory=Counter)
    healing: list[tuple[float, Callable[[], None]]] = field(factory=list)
    recoveries: list[float] = field(factory=list)
    stands: bool = False

    def rage(self, schedule: Schedule, until: float) -> None:
        """One phase after the other, until the time is over."""
        for driver in self.case.world.take(DRIVERS):
            self._run(driver)
        self.case.await_commits(CALM_COMMITS)
        for number, blows in zip(count(1), schedule.phases, strict=False):
            if monotonic() > until:
                return
            self.phase(blows)
            say(f"phase {number}: {len(blows)} blows, next commit after {self.recoveries[-1]:.1f} s")

    def phase(self, blows: tuple[Blow, ...]) -> None:
        """Some noise, then quiet until it goes on."""
        for blow in blows:
            self._sleep(blow.wait)
            self._deal(blow)
        self._heal(everything=True)
        self._replace_the_dead(wait=True)
        if self.stands:
            wait_until("what stands is lifted", partial(self._wish, Action.RESUME))
            self.stands = False
        quiet = monotonic()
        self.case.await_commits(CALM_COMMITS, since=quiet)
        assert self.case.recovery is not None
        self.recoveries.append(self.case.recovery)

    # --- blows --------------------------------------------------------------------------------------------------------

    def _deal(self, blow: Blow) -> None:
        self._replace_the_dead(wait=False)
        heal = self._strike(blow)
        if heal is not None:
            self.dealt[blow.kind] += 1
            self.healing.append((monotonic() + blow.lasts, heal))

    def _strike(self, blow: Blow) -> Callable[[], None] | None:
        """Do it; returns what heals it, None if there was nothing to do it to."""
        what, _, whom = blow.kind.partition(" ")
        if what == "wish":
            return self._wish_something(Action(whom))
        if "zookeeper" in whom and what != "cut":
            return self._strike_zookeeper(what, 2 if "two" in whom else 1, blow.which)
        if whom == "postgres" and what != "cut":
            return self._strike_postgres(what)
        return self._strike_driver(what, whom, blow.which)

    def _strike_driver(self, what: str, whom: str, which: int) -> Callable[[], None] | None:
        leader = self._leader()
        driver = next((each for each in self._alive() if each is not leader), None) if whom == "standby" else leader
        if driver is None:
            return None
        if whom == "workers":
            for worker in driver.family("pyspark.daemon")[1:]:
                worker.kill()
            return lambda: None
        if what == "kill":
            driver.go_on()
            driver.kill()
            return lambda: None
        if what == "pause":
            driver.pause(whole_tree=whom == "tree")
            return driver.go_on
        return self._cut(driver, whom, which)

    def _cut(self, driver: Driver, whom: str, which: int) -> Callable[[], None] | None:
        network, namespace = self.case.world.network, driver.namespace
        if network is None or namespace is None or network.dropped(namespace):
            return None
        ports = self.servers.ports if whom == "postgres" else self.case.world.zookeeper_ports
        ways = (("input",), ("output",))[which % 2] if whom.endswith("one way") else ("input", "output")
        network.drop(namespace, *ports, ways=ways)
        return lambda: network.heal(namespace)

    def _strike_zookeeper(self, what: str, number: int, which: int) -> Callable[[], None]:
        servers = self.case.world.ensemble
        for index in [(which + nth) % SIZE for nth in range(number)]:
            if what == "kill":
                servers.kill(index)
            elif index in servers.running:
                servers.pause(index)
        return servers.start

    def _strike_postgres(self, what: str) -> Callable[[], None] | None:
        match what:
            case "restart":
                end_postgres(self.servers.primary)
                self.servers.primary.start()
            case "fail over":
                return self._fail_over()
            case "lock":
                return self._lock()
            case _:
                with suppress(psycopg.Error):
                    self.case.query(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                    )
        return lambda: None

    def _fail_over(self) -> Callable[[], None] | None:
        """The replica takes the primary's place, and gets one of its own when that is over."""
        if not self.servers.replica.is_running:
            return None
        self.servers.fail_over()

        def heal() -> None:
            self.servers.follow()
            self.servers.confirm()

        return heal

    def _lock(self) -> Callable[[], None] | None:
        """Somebody else has the table, so that what is to be merged waits."""
        try:
            other = psycopg.connect(self.case.dsn, connect_timeout=5)
            other.execute("SET lock_timeout = '1s'")
            other.execute("LOCK TABLE counts IN SHARE MODE")
        except psycopg.Error:
            return None
        return other.close

    def _wish_something(self, action: Action) -> Callable[[], None] | None:
        """An operator wishes something, and after a while that all goes on as before."""
        if not self._wish(action):
            return None
        self.stands = True

        def heal() -> None:
            self._wish(Action.RESUME)  # once more when there is quiet, should no server answer

        return heal

    def _wish(self, action: Action) -> bool:
        """Whether the servers took it."""
        try:
            self.case.wish(action, Rate(batches_per_second=5.0, pending=1) if action is Action.RATE else None)
        except TridentError:
            return False
        return True

    # --- healing ------------------------------------------------------------------------------------------------------

    def _sleep(self, seconds: float) -> None:
        until, never = monotonic() + seconds, threading.Event()
        while (left := until - monotonic()) > 0:
            self._heal()
            never.wait(min(left, 0.1))

    def _heal(self, *, everything: bool = False) -> None:
        due = [each for each in self.healing if everything or each[0] <= monotonic()]
        for each in due:
            self.healing.remove(each)
            each[1]()

    def _replace_the_dead(self, *, wait: bool) -> None:
        """Have others stand by for drivers that have ended; where we don't wait, those that are warm by now."""
        ended = [each for each in self.case.drivers if each.is_alive and self.case.has_ended(each)]
        for driver in ended:
            self.case.world.give_back(driver)
            self.case.drivers.remove(driver)
            self.case.former.append(driver)
        missing = max(0, DRIVERS - len(self._alive()))
        for driver in self.case.world.take(missing if wait else min(missing, self.case.world.warm)):
            self._run(driver)
        self.case.world.prepare(2)

    def _run(self, driver: Driver) -> None:
        self.case.shares = not self.case.shares
        self.case.run(driver)

    def _alive(self) -> list[Driver]:
        return [driver for driver in self.case.drivers if driver.is_alive]

    def _leader(self) -> Driver | None:
        led = self.case.events("leads")
        return next((driver for driver in self._alive() if led and driver.pid == led[-1]["pid"]), None)


def report(nemesis: Nemesis, broken: list[Violation], seconds: float) -> None:
    """Print what came of it."""
    case, times = nemesis.case, nemesis.recoveries
    say(f"{seconds / 60:.1f} minutes, {nemesis.dealt.total()} faults in {len(times)} noisy phases")
    for kind in KINDS:
        say(f"  {kind:24}{nemesis.dealt[kind]:4}")
    say(f"{case.committed()} commits, {len(case.events('leads'))} leaderships")
    if times:
        say(f"recovery: median {statistics.median(times):.1f} s, at most {max(times):.1f} s")
    say("\n".join(map(str, broken)) or "nothing lost, nothing doubled, every rule held")


def main(argv: list[str] | None = None) -> int:
    """Go on for so many minutes, then look."""
    parser = options("Random faults, and whether every word is counted once all the same.")
    parser.add_argument("--minutes", type=float, default=30)
    arguments = parser.parse_args(argv)
    schedule, began = Schedule.drawn(arguments.seed, PHASES_MAX), monotonic()
    say(f"seed {arguments.seed}")
    with (
        World.running(keep=arguments.keep) as world,
        Replicated.running(world.directory / "replicated", world.address) as servers,
        Case.of(world, "nemesis", arguments.seed) as case,
    ):
        servers.create_database("words")
        servers.confirm()
        case.dsn, case.asks = servers.dsn("words"), True
        case.ends.add("StateError")  # a takeover that finds no database says so, and ends
        nemesis = Nemesis(case, servers)
        try:
            nemesis.rage(schedule, began + arguments.minutes * 60)
            broken = case.finish()
        except TooLate as late:
            broken = [Violation("L1 progress", str(late))]
        report(nemesis, broken, monotonic() - began)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
