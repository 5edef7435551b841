"""Faults: tasks that stay for small batches are killed, stand still, are cut off, or lose their executor."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from time import monotonic

import psutil

from tests.faults.case import Case
from tests.faults.catalogue import fault, happened
from tests.faults.drivers import Driver, wait_until
from tests.faults.journal import Event
from tests.faults.world import World
from tests.servers.spark import SparkCluster

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


# --- on a standalone cluster, where Spark starts a second copy of each task that stays --------------------------------

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.task.duration.threshold": "2s",
    "spark.executor.heartbeatInterval": "1s",
    "spark.network.timeout": "10s",
    "spark.network.timeoutInterval": "2s",
}
"""Long tasks get a copy on another host, and an executor that doesn't answer is soon given up."""


def links(events: list[Event]) -> Iterator[tuple[Event, list[Event]]]:
    """Each answer, with the connections of its task at that time, oldest first."""
    there: dict[int, Event] = {}
    for event in events:
        if event["kind"] == "joined":
            there[event["link"]] = event
        elif event["kind"] == "left":
            there.pop(event["link"], None)
        elif event["link"] in there:  # else it is the late answer of one that was closed
            task = there[event["link"]]["task"]
            yield event, [each for each in there.values() if each["task"] == task]


def connected(leader: Driver, case: Case) -> list[Event]:
    """The connections that there are, oldest first."""
    gone = {event["link"] for event in leader.events("left", case.topology)}
    return [event for event in leader.events("joined", case.topology) if event["link"] not in gone]


def worker_of(case: Case, leader: Driver, link: Event) -> psutil.Process:
    """The Python worker at the other end of a connection."""
    for each in psutil.net_connections("tcp"):
        if each.laddr and each.raddr and (each.laddr.port, each.raddr.port) == (link["peer"], link["port"]):
            return psutil.Process(each.pid)
    raise AssertionError(f"nobody has connection {link}")


def executor_of(worker: psutil.Process) -> psutil.Process:
    """What has started a Python worker."""
    return next(each for each in worker.parents() if "CoarseGrained" in " ".join(each.cmdline()))


def harmed_on_a_cluster(case: Case, harm: Callable[[Driver, Event], object], times: int = 2) -> None:
    """Harm the task that is used, several times; each time the topology goes on. Spark starts one spare in all."""
    case.resident = 1
    cluster = SparkCluster(case.world.directory / f"spark-{case.topology}", cores=2)
    settings = " ".join(f"--conf {name}={value}" for name, value in SPECULATION.items())
    try:
        cluster.start()
        given = {"PYSPARK_SUBMIT_ARGS": f"{settings} pyspark-shell"}
        leader = case.world.new_driver(cluster.url, given, has_network=False)
        case.world.await_warm(leader)
        case.lead(leader)
        wait_until("a spare", lambda: len(connected(leader, case)) > 1)
        for _ in range(times):
            await_answer(case, leader)
            harm(leader, connected(leader, case)[0])
            wait_until("a task", partial(connected, leader, case))
        await_answer(case, leader)
        happened(len(case.events("leads")) == 1, "the leader leads on")
        happened(no_attempt_failed(case), "no attempt has failed")
        case.drain()
        answers = list(links(leader.events_of("joined", "left", "answered", topology=case.topology)))
        happened(any(len(there) > 1 for _, there in answers), "something was answered while a spare was there")
        used_spares = [event for event, there in answers if event["link"] != there[0]["link"]]
        happened(not used_spares, f"spares wait, and don't answer: {used_spares[:3]}")
        leader.kill()  # it is good for nothing without its cluster
    finally:
        cluster.stop()


def has_left(case: Case, leader: Driver, link: Event) -> bool:
    """Whether a connection has ended."""
    return link["link"] not in [each["link"] for each in connected(leader, case)]


@fault("resident-cluster-executor-killed")
def _(case: Case) -> None:
    """On a cluster with speculation, the executor of the task that is used is killed under load."""

    def kill(leader: Driver, used: Event) -> None:
        executor_of(worker_of(case, leader, used)).kill()
        case.await_commits(2, since=monotonic())
        wait_until("it has left", lambda: has_left(case, leader, used))

    harmed_on_a_cluster(case, kill)


@fault("resident-cluster-executor-stopped")
def _(case: Case) -> None:
    """The executor of the task that is used stands still until after the deadline; then it goes on."""

    def stop(leader: Driver, used: Event) -> None:
        executor = executor_of(worker_of(case, leader, used))
        family = [executor, *executor.children(recursive=True)]
        for each in family:
            each.suspend()
        case.await_commits(2, since=monotonic())
        wait_until("it has missed its deadline", lambda: has_left(case, leader, used))
        for each in family:
            with suppress(psutil.NoSuchProcess):
                each.resume()
        case.await_commits(2)

    harmed_on_a_cluster(case, stop, times=1)


def no_filter(world: World) -> str | None:
    """Why packets on the loopback network can't be dropped here."""
    return None if os.geteuid() == 0 and shutil.which("nft") else "no nft, or not root"


@contextmanager
def dropped(port: int) -> Iterator[None]:
    """Drop what goes to and comes from a port of this machine."""
    table = f"inet trident_faults_{os.getpid()}"
    rules = [f"add rule {table} cut tcp {side} {port} drop" for side in ("dport", "sport")]
    script = "\n".join(
        [f"add table {table}", f"add chain {table} cut {{ type filter hook input priority 0; }}", *rules]
    )
    subprocess.run(["nft", "-f", "-"], input=script, text=True, check=True, capture_output=True, timeout=10)
    try:
        yield
    finally:
        subprocess.run(["nft", "delete", "table", *table.split()], check=True, capture_output=True, timeout=10)


@fault("resident-cluster-cut-off", lack=no_filter)
def _(case: Case) -> None:
    """No packet passes between the leader and its tasks that stay, while Spark's other connections are whole."""

    def cut(leader: Driver, used: Event) -> None:
        with dropped(used["port"]):
            case.await_commits(2, since=monotonic())
            wait_until("it is found out", lambda: not connected(leader, case))
            case.await_commits(2)

    harmed_on_a_cluster(case, cut, times=1)
