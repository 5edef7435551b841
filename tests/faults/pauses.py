"""Faults: processes that stand still while others go on."""

from __future__ import annotations

import threading
from functools import partial
from time import monotonic

from tests.faults.case import Case
from tests.faults.catalogue import fault, happened
from tests.faults.drivers import Driver, wait_until
from tests.faults.journal import Event
from tests.faults.points import IN_RECOVERY


@fault("stopped-in-commit", fast=True)
def _(case: Case) -> None:
    """A7: the leader stands still with its transaction open; the other takes over; the first goes on, and is fenced."""
    leader, standby = case.pair(before_db_commit=["hold", 1])
    stopped = case.await_fired(leader)["at"]
    wait_until("it stands still", leader.is_stopped)
    _lose_leadership(case, leader, standby, stopped)


@fault("stopped-before-record")
def _(case: Case) -> None:
    """A7: the leader stands still between the commit and the record, which its successor then writes."""
    leader, standby = case.pair(after_db_commit=["hold", 1])
    stopped = case.await_fired(leader)["at"]
    wait_until("it stands still", leader.is_stopped)
    _lose_leadership(case, leader, standby, stopped)


@fault("stopped-tree")
def _(case: Case) -> None:
    """A7, E3: driver, JVM and Python workers stand still, as on a machine that is suspended."""
    leader, standby = case.pair()
    leader.pause(whole_tree=True)
    _lose_leadership(case, leader, standby, monotonic())


@fault("stopped-in-recovery")
def _(case: Case) -> None:
    """A leader stands still while it raises the fence, with the lock on it; the next one takes over from it."""
    leader, heir = case.world.take(2)
    case.lead(leader)
    case.await_commits(2)
    case.run(heir, in_fence=["hold", 1])
    heir.await_event("stands_by", case.topology)
    leader.kill()
    stopped = case.await_fired(heir)["at"]
    [standby] = case.world.take(1)
    case.run(standby)
    _stand_still(case, heir, standby, stopped)
    # It had not begun to lead, so it has nothing to lose: it stands by again, and leads when its successor is gone.
    standby.kill()
    case.await_takeover(heir, monotonic())
    case.await_commits(2, since=monotonic())


@fault("expired-in-recovery")
def _(case: Case) -> None:
    """B8: a leader's session ends at each step of its recovery, and another one leads; the first does no harm then."""
    leader, heir = case.pair()
    for point in IN_RECOVERY:
        heir.tell("order", orders={point: ["hold", 1]})
        leader.tell("stop")
        wait_until("it ends", partial(case.has_ended, leader))
        held = wait_until(f"{heir.name} is held {point}", partial(_held, case, heir, point))
        case.run(leader)
        wait_until("it leads again", partial(_leads_since, case, leader, held["at"]))
        happened(heir.is_stopped(), "the other stood still all the time")
        heir.go_on()
        case.await_commits(1)


def _leads_since(case: Case, driver: Driver, moment: float) -> bool:
    return any(event["at"] > moment for event in driver.events("leads", case.topology))


def _held(case: Case, driver: Driver, point: str) -> Event | None:
    """The moment at which a driver came to a point in its recovery; it may have to be started again before."""
    if case.has_ended(driver):
        case.run(driver, **{point: ["hold", 1]})
    return next((event for event in driver.events("fired", case.topology) if event["point"] == point), None)


@fault("stopped-shortly")
def _(case: Case) -> None:
    """The leader stands still for less than its session, and leads on."""
    leader, _ = case.pair()
    leader.pause()
    threading.Event().wait(case.session / 3)
    leader.go_on()
    happened(leader.process.poll() is None, "it lives")
    case.await_commits(3, since=monotonic())
    happened(len(case.events("leads")) == 1, "nobody took over")


def _lose_leadership(case: Case, leader: Driver, standby: Driver, stopped: float) -> None:
    _stand_still(case, leader, standby, stopped)
    ended = leader.await_event("ended", case.topology)
    happened(ended["error"] == "FencedError", f"the first ends fenced, not by {ended}")


def _stand_still(case: Case, leader: Driver, standby: Driver, stopped: float) -> None:
    """Let ``leader`` go on only when ``standby`` has led for a while."""
    case.await_takeover(standby, stopped)
    case.await_commits(2, since=stopped)
    wait_until("twice the session", lambda: monotonic() > stopped + 2 * case.session)
    happened(leader.is_stopped(), "the first stood still all the time")
    leader.go_on()
