"""Faults while a batch that always fails is parked, and while it is released once the code is mended."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from time import monotonic

from coordinators.record.wishes import Action
from tests.faults.beside import POISON
from tests.faults.case import Case
from tests.faults.catalogue import fault, happened
from tests.faults.drivers import Driver, await_death, wait_until
from tests.faults.points import PARKING, RELEASING, WISHES


def _dies(case: Case, leader: Driver, standby: Driver) -> None:
    died = case.await_fired(leader)["at"]
    happened(await_death(leader), "SIGKILL")
    case.await_takeover(standby, died)


def _poisoned(case: Case) -> Path:
    mended = case.world.directory / "mended" / case.topology
    mended.parent.mkdir(exist_ok=True)
    case.beside = ["poisoned", str(mended)]
    return mended


def _feed_poison(case: Case) -> None:
    (case.feeder.directory / "9999-0.txt").write_text(f"{POISON} behind\n")


def _await_parked(case: Case, txids: int) -> None:
    wait_until(f"{txids} transactions are parked", lambda: len(case.record().parked.entries) == txids)


def parked(point: str, case: Case) -> None:
    """The leader dies around a write that parks a batch; all others count meanwhile, and this one in the end."""
    mended = _poisoned(case)
    leader, standby = case.pair(**{point: ["crash", 1]})
    _feed_poison(case)
    _dies(case, leader, standby)
    _await_parked(case, 1)
    case.await_commits(2, since=monotonic())
    mended.touch()
    case.wish(Action.RELEASE)
    _await_parked(case, 0)


def released(point: str, case: Case) -> None:
    """The leader dies around a write of the release; the batch counts once."""
    mended = _poisoned(case)
    leader, standby = case.pair()
    _feed_poison(case)
    _await_parked(case, 1)
    mended.touch()
    leader.tell("order", orders={point: ["crash", 1]})
    case.wish(Action.RELEASE)
    _dies(case, leader, standby)
    _await_parked(case, 0)


for each in PARKING:
    fault(f"parked-crash-{each.replace('_', '-')}", fast=each == "after_parking")(partial(parked, each))

for each in (*WISHES, *RELEASING):
    fault(f"released-crash-{each.replace('_', '-')}", fast=each == "after_wish")(partial(released, each))
