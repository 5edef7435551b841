"""Faults: what happens to leaders and servers while what an operator has wished is carried out, or stands."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from time import monotonic

import psycopg

from coordinators.record.wishes import Action, Hold, Rate
from tests.faults.case import Case
from tests.faults.catalogue import fault, happened
from tests.faults.drivers import await_death, wait_until
from tests.faults.points import WISHES

SLOW = Rate(batches_per_second=5.0, pending=2)


def _await_hold(case: Case, hold: Hold) -> None:
    wait_until(f"the topology is {hold}", lambda: case.record().standing.hold is hold)


def _under_way(case: Case) -> list[int]:
    record = case.record()
    return [txid for txid in record.attempt_ids if txid >= record.current_txid]


def _await_rest(case: Case) -> None:
    """What stands lets nothing new start: there is input, and none of it is committed."""
    _await_hold(case, Hold.PAUSED)
    wait_until("all that was under way is committed", lambda: not _under_way(case))
    still = case.committed()
    threading.Event().wait(case.session)
    happened(case.committed() == still, "nothing starts")


def _await_drained(case: Case) -> None:
    """A drain becomes a pause when all that was begun is committed, no sooner."""
    _await_hold(case, Hold.PAUSED)
    happened(not _under_way(case), "all that was begun is committed")
    _await_rest(case)


def _resume(case: Case) -> None:
    case.wish(Action.RESUME)
    case.await_commits(2, since=monotonic())
    happened(case.record().standing.hold is Hold.NOTHING, "nothing stands any more")


@contextmanager
def _held_up(case: Case) -> Iterator[None]:
    """Commits wait, so that transactions are under way, until the block ends."""
    with psycopg.connect(case.dsn, connect_timeout=5) as other:
        other.execute("LOCK TABLE counts IN SHARE MODE")
        wait_until("transactions are under way", partial(_under_way, case))
        yield


def killed_around(point: str, case: Case) -> None:
    """The leader dies right before or after the write that carries a drain out; it is carried out once, and stands."""
    leader, standby = case.pair(**{point: ["crash", 1]})
    wish = case.wish(Action.DRAIN)
    died = case.await_fired(leader)["at"]
    happened(await_death(leader), "SIGKILL")
    case.await_takeover(standby, died)
    _await_drained(case)
    told = [outcome.wish for outcome in case.record().outcomes]
    happened(told.count(wish) == 1, f"the drain is carried out once: {told}")
    _resume(case)


for each in WISHES:
    fault(f"killed-{each.replace('_', '-')}", fast=each == "after_wish")(partial(killed_around, each))


@fault("takeover-in-mid-drain")
def _(case: Case) -> None:
    """The leader dies in a drain; its successor commits what was begun, begins nothing, and pauses."""
    leader, standby = case.pair()
    with _held_up(case):
        case.wish(Action.DRAIN)
        _await_hold(case, Hold.DRAINING)
        happened(_under_way(case), "transactions are under way in the drain")
        leader.kill()
        died = monotonic()
    case.await_takeover(standby, died)
    _await_drained(case)
    _resume(case)


@fault("zookeeper-restarted-in-a-pause")
def _(case: Case) -> None:
    """All servers die and come back while a pause and a rate stand; both stand afterwards, until they are lifted."""
    case.pair()
    case.wish(Action.RATE, SLOW)
    case.wish(Action.PAUSE)
    _await_rest(case)
    case.world.ensemble.stop()
    happened(case.world.ensemble.running == [], "none runs")
    case.world.ensemble.start()
    case.world.ensemble.await_quorum()
    _await_rest(case)
    happened(case.record().standing.rate == SLOW, "the rate stands")
    _resume(case)
