"""Faults: tasks that stay for small batches are killed, stand still, or lose their executor."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

import psutil

from tests.faults.case import Case
from tests.faults.catalogue import fault, happened
from tests.faults.drivers import Driver, wait_until

MASTER = "local[2]"
"""One slot for the task that stays, and one for jobs."""


def resident_leader(case: Case, master: str = MASTER) -> Driver:
    """Have a driver lead with a resident task, which has answered something."""
    case.resident = 1
    leader = case.world.new_driver(master, has_network=False)  # its connections are looked at
    case.world.await_warm(leader)
    case.lead(leader)
    await_answer(case, leader)
    return leader


def await_next(case: Case, leader: Driver, kind: str, before: int) -> None:
    """Return when there are more than ``before`` events of this kind."""
    wait_until(f"one more {kind!r}", lambda: len(leader.events(kind, case.topology)) > before)


def await_answer(case: Case, leader: Driver) -> None:
    """Return when a resident task has answered once more; from then on no job runs beside it."""
    await_next(case, leader, "answered", len(leader.events("answered", case.topology)))


def resident_worker(case: Case, leader: Driver) -> psutil.Process:
    """Return the Python worker that is connected to the leader."""
    port = leader.events("joined", case.topology)[-1]["port"]

    def connected() -> psutil.Process | None:
        for worker in leader.family("pyspark.daemon"):
            with suppress(psutil.Error):
                if any(each.raddr and each.raddr.port == port for each in worker.net_connections("tcp")):
                    return worker
        return None

    return wait_until("the resident worker", connected)


def no_attempt_failed(case: Case) -> bool:
    """Whether each transaction was emitted once."""
    return {event["attempt"] for event in case.events("emitted")} == {0}


def struck(case: Case, strike: Callable[[psutil.Process], object], times: int, master: str = MASTER) -> None:
    """Strike the resident worker so many times; each time the topology goes on, and the task comes back."""
    leader = resident_leader(case, master)
    for _ in range(times):
        await_answer(case, leader)
        joined = len(leader.events("joined", case.topology))
        strike(resident_worker(case, leader))
        case.await_commits(2, since=monotonic())
        await_next(case, leader, "joined", joined)
    await_answer(case, leader)
    happened(len(case.events("leads")) == 1, "the leader leads on")
    happened(no_attempt_failed(case), "no attempt has failed")


@fault("resident-task-killed")
def _(case: Case) -> None:
    """The Python worker of a resident task is killed under load."""
    struck(case, psutil.Process.kill, 3)


@fault("resident-executor-killed")
def _(case: Case) -> None:
    """The executor of a resident task is killed under load."""

    def kill_executor(worker: psutil.Process) -> None:
        executor = next(each for each in worker.parents() if "CoarseGrained" in " ".join(each.cmdline()))
        executor.kill()

    struck(case, kill_executor, 2, "local-cluster[2,1,1024]")


@fault("resident-task-stopped")
def _(case: Case) -> None:
    """A resident task stands still until after its deadline, and its late answer comes."""
    leader = resident_leader(case)
    worker = resident_worker(case, leader)
    worker.suspend()
    case.await_commits(2, since=monotonic())
    worker.resume()
    await_answer(case, leader)
    happened(no_attempt_failed(case), "no attempt has failed")


@fault("resident-leader-killed")
def _(case: Case) -> None:
    """The leader is killed while resident tasks work; those of the standby come, and the old ones end."""
    case.resident = 1
    leader, standby = (case.world.new_driver(MASTER, has_network=False) for _ in range(2))
    for driver in (leader, standby):
        case.world.await_warm(driver)
    case.lead(leader)
    case.run(standby)
    await_answer(case, leader)
    worker = resident_worker(case, leader)
    os.kill(leader.pid, 9)
    killed = monotonic()
    case.await_takeover(standby, killed)
    await_answer(case, standby)
    wait_until("the old task ends", lambda: not worker.is_running())
    leader.kill()
    case.await_commits(2, since=killed)
