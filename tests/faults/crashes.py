"""Faults: processes that die, at every moment that matters and at any other."""

from __future__ import annotations

import random
import threading
from functools import partial
from time import monotonic

from tests.faults.case import Case
from tests.faults.catalogue import fault, happened
from tests.faults.drivers import await_death, wait_until
from tests.faults.points import IN_A_BATCH, IN_RECOVERY

FAST = {"after_db_commit", "after_record", "success_delivered"}


def crash(point: str, case: Case) -> None:
    """A1 to A5: the leader dies at this point; the standby goes on."""
    leader, standby = case.pair(**{point: ["crash", 2]})
    died = case.await_fired(leader)["at"]
    happened(await_death(leader), "SIGKILL")
    case.await_takeover(standby, died)
    case.await_commits(2, since=died)


for each in IN_A_BATCH:
    fault(f"crash-{each.replace('_', '-')}", fast=each in FAST)(partial(crash, each))


@fault("crash-at-random")
def _(case: Case) -> None:
    """The leader dies at a moment that nobody chose."""
    leader, standby = case.pair()
    threading.Event().wait(random.SystemRandom().uniform(0, 2))
    leader.kill()
    died = monotonic()
    case.await_takeover(standby, died)
    case.await_commits(2, since=died)


@fault("crash-in-recovery")
def _(case: Case) -> None:
    """A6: one leader after the other dies while it takes over, each at a later step."""
    case.world.prepare(4)
    leader, last = case.world.take(2)
    case.lead(leader)
    case.await_commits(2)
    for point in IN_RECOVERY:
        [heir] = case.world.take(1)
        case.run(heir, **{point: ["crash", 1]})
        heir.await_event("stands_by", case.topology)
        if leader.is_alive:
            leader.kill()
        case.await_fired(heir)
        await_death(heir)
    died = monotonic()
    case.run(last)
    case.await_takeover(last, died)
    case.await_commits(2, since=died)


@fault("sigterm-in-commit", fast=True)
def _(case: Case) -> None:
    """E5: told to end in mid-commit, the leader commits what is under way and ends; the standby needn't wait."""
    leader, standby = case.pair(before_db_commit=["hold", 1])
    case.await_fired(leader)
    wait_until("it stands still", leader.is_stopped)
    leader.terminate()
    leader.go_on()
    ended = leader.await_event("terminated", case.topology)
    happened(leader.process.wait(30) == 0, "exit code 0")
    case.await_takeover(standby, ended["at"])
    case.await_commits(2, since=ended["at"])


@fault("two-at-once")
def _(case: Case) -> None:
    """A9: of two that are started at once, one leads; when that one dies, the other does."""
    both = case.world.take(2)
    for driver in both:
        case.run(driver)
    case.await_commits(2)
    leaders = [driver for driver in both if driver.events("leads", case.topology)]
    happened(len(leaders) == 1, "one leads")
    [other] = [driver for driver in both if driver not in leaders]
    leaders[0].kill()
    case.await_takeover(other, monotonic())
