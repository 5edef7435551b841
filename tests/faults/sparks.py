"""Faults: parts of Spark that die under a driver."""

from __future__ import annotations

from time import monotonic

from tests.faults.case import Case
from tests.faults.catalogue import fault, happened
from tests.faults.drivers import wait_until


@fault("python-worker-killed")
def _(case: Case) -> None:
    """C2: Python workers of the leader die in mid-task; Spark runs the tasks again."""
    leader, _ = case.pair()
    for _ in range(3):
        # The first is the daemon that makes the others.
        workers = wait_until("workers at work", lambda: leader.family("pyspark.daemon")[1:])
        for worker in workers:
            worker.kill()
        case.await_commits(2, since=monotonic())
    happened(len(case.events("leads")) == 1, "the leader leads on")


@fault("jvm-killed")
def _(case: Case) -> None:
    """C7: the JVM of the leader dies, its Python lives: it ends by name, and the standby goes on."""
    leader, standby = case.pair()
    [jvm] = leader.family("SparkSubmit")
    jvm.kill()
    killed = monotonic()
    ended = leader.await_event("ended", case.topology)
    happened(ended["error"] == "SparkLost", f"it ends by name, not {ended}")
    case.ends.add("SparkLost")
    case.await_takeover(standby, killed)
    case.await_commits(2, since=killed)
    leader.kill()  # it is good for nothing any more


@fault("executor-killed")
def _(case: Case) -> None:
    """C1: an executor dies in mid-job; Spark runs its tasks on another one."""
    leader = case.world.new_driver("local-cluster[2,1,1024]")
    case.world.await_warm(leader)
    case.lead(leader)
    case.await_commits(2)
    executors = leader.family("CoarseGrainedExecutorBackend")
    happened(executors, "there are executors")
    executors[0].kill()
    case.await_commits(3, since=monotonic())
    happened(len(case.events("leads")) == 1, "the leader leads on")
