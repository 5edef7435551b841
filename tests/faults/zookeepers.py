"""Faults: ZooKeeper servers that die, stand still, run out of disk, or hold what we did not write."""

from __future__ import annotations

import threading
from time import monotonic

from coordinators.backends.zookeeper.record_store import load
from coordinators.backends.zookeeper.znodes import ANY_VERSION, Put
from tests.faults.case import Case
from tests.faults.catalogue import fault, happened
from tests.faults.drivers import wait_until
from tests.faults.small import small_disk
from tests.servers.zookeeper import SIZE, Ensemble


@fault("zookeeper-leader-killed", fast=True)
def _(case: Case) -> None:
    """B1: the server that leads the others dies while records are written; who leads the topology stays."""
    case.pair()
    servers = case.world.ensemble
    victim = servers.leader()
    servers.kill(victim)
    killed = monotonic()
    case.await_commits(3, since=killed)
    happened(servers.leader() != victim, "another server leads")
    servers.start()
    servers.await_quorum()


@fault("zookeeper-two-killed")
def _(case: Case) -> None:
    """B2: no quorum for longer than a session: nothing is committed any more, and somebody goes on afterwards."""
    leader, _ = case.pair()
    servers = case.world.ensemble
    for index in servers.followers():
        servers.kill(index)
    ended = leader.await_event("ended", case.topology)
    happened(ended["error"] == "CoordinationLost", f"the leader gives up by name, not {ended}")
    still = case.committed()
    threading.Event().wait(case.session)
    happened(case.committed() == still, "nothing is committed without a quorum")
    servers.start()
    servers.await_quorum()
    back = monotonic()
    case.await_commits(2, since=back)
    case.takeover = case.events("leads")[-1]["at"] - back


@fault("zookeeper-all-killed")
def _(case: Case) -> None:
    """B11: all servers die at once and come back; no record that was acknowledged is lost."""
    case.pair()
    case.world.ensemble.stop()
    happened(case.world.ensemble.running == [], "none runs")
    killed = monotonic()
    case.world.ensemble.start()
    case.world.ensemble.await_quorum()
    case.await_commits(3, since=killed)


@fault("zookeeper-follower-stopped")
def _(case: Case) -> None:
    """B7: the server that the leader of the topology may be talking to stands still, for each of the followers."""
    case.pair()
    servers = case.world.ensemble
    for index in servers.followers():
        servers.pause(index)
        case.await_commits(2, since=monotonic())
        servers.resume(index)
        servers.await_quorum()


@fault("record-garbage", fast=True)
def _(case: Case) -> None:
    """B13: what is not a record stops everybody by name; nobody starts over."""
    leader, standby = case.pair()
    with case.administration() as (session, paths):
        leader.pause()
        stored = session.retry_within_lease(lambda: load(session, paths))
        assert stored is not None
        head = stored.encoded.head.encode()
        session.commit([Put(paths.record, head[: len(head) // 2], ANY_VERSION)])
        before = case.committed()
        leader.go_on()
        happened(leader.await_event("ended", case.topology)["error"] == "FencedError", "the leader ends by name")
        ended = standby.await_event("ended", case.topology)
        happened(ended["error"] == "MetadataError", f"S13: the standby doesn't start over, it ended with {ended}")
        happened(case.committed() - before in (0, 1), "at most what was under way was committed")
        session.commit([Put(paths.record, head, ANY_VERSION)])
    case.ends.add("MetadataError")
    [third] = case.world.take(1)
    case.run(third)
    case.await_commits(2)


@fault("zookeeper-disk-full")
def _(case: Case) -> None:
    """B9: the servers run out of disk; nothing is lost, and it goes on when there is room again."""
    with small_disk(case.world.directory / "zookeeper-disk", megabytes=16) as disk:
        servers = Ensemble.of(disk.path, bind=case.world.address)
        try:
            servers.start()
            servers.await_quorum()
            case.ensemble = servers
            case.pair()
            disk.fill()
            logs = [disk.path / str(index) / "server.log" for index in range(SIZE)]
            wait_until("a server has no space", lambda: any(_is_full(log.read_bytes()) for log in logs))
            disk.clear()
            back = monotonic()
            servers.stop()
            servers.start()
            servers.await_quorum()
            case.await_commits(2, since=back)
            case.drain()
        finally:
            servers.stop()


def _is_full(log: bytes) -> bool:
    return b"No space left on device" in log
