"""Faults: networks that are cut, one way or both, and replies that are lost."""

from __future__ import annotations

import socket
import threading
from time import monotonic

from tests.faults.case import Case
from tests.faults.catalogue import fault, happened, no_network
from tests.faults.drivers import Driver, wait_until
from tests.servers.proxy import commit_proxy, hang_up
from tests.servers.zookeeper_proxy import CuttingProxy


def _cut(case: Case, driver: Driver, *ports: int, ways: tuple[str, ...] = ("input", "output")) -> float:
    assert case.world.network is not None
    assert driver.namespace is not None
    case.world.network.drop(driver.namespace, *ports, ways=ways)
    happened(case.world.network.dropped(driver.namespace) == len(ways), "the rules are there")
    return monotonic()


def _heal(case: Case, driver: Driver) -> None:
    assert case.world.network is not None
    assert driver.namespace is not None
    case.world.network.heal(driver.namespace)


@fault("cut-zookeeper-shortly", lack=no_network)
def _(case: Case) -> None:
    """B3: the leader is cut off for less than its session, and leads on."""
    leader, _ = case.pair()
    cut = _cut(case, leader, *case.world.zookeeper_ports)
    threading.Event().wait(case.session / 4)
    _heal(case, leader)
    case.await_commits(3, since=cut)
    happened(len(case.events("leads")) == 1, "nobody took over")


def _cut_long(case: Case, *ways: str) -> None:
    leader, standby = case.pair()
    cut = _cut(case, leader, *case.world.zookeeper_ports, ways=ways)
    ended = leader.await_event("ended", case.topology)
    happened(ended["error"] == "CoordinationLost", f"it gives up by itself, not {ended}")
    happened(ended["at"] - cut < case.session + 5, f"in time, not after {ended['at'] - cut:.1f} s")
    case.await_takeover(standby, cut)
    case.await_commits(2, since=cut)
    _heal(case, leader)


@fault("cut-zookeeper", lack=no_network)
def _(case: Case) -> None:
    """B4: the leader is cut off for longer than its session; it gives up, and the standby goes on."""
    _cut_long(case, "input", "output")


@fault("cut-zookeeper-replies", lack=no_network)
def _(case: Case) -> None:
    """B5: what the leader sends arrives, no answer does."""
    _cut_long(case, "input")


@fault("cut-zookeeper-requests", lack=no_network)
def _(case: Case) -> None:
    """B5: nothing that the leader sends arrives."""
    _cut_long(case, "output")


@fault("cut-postgres", lack=no_network)
def _(case: Case) -> None:
    """The leader can't reach its state for a while; it leads on, and commits when it can."""
    leader, _ = case.pair()
    _cut(case, leader, case.world.postgres.port)
    threading.Event().wait(2 * case.session)
    before = case.committed()
    _heal(case, leader)
    case.await_commits(2, since=monotonic())
    happened(before <= case.committed() - 2, "it goes on")


@fault("lost-commit-reply", fast=True)
def _(case: Case) -> None:
    """D1: the COMMIT arrives, its answer doesn't; the outcome is read back."""
    lost: list[bytes] = []

    def lose(client: socket.socket, server: socket.socket, data: bytes) -> None:
        hang_up(client)
        server.sendall(data)
        lost.append(data)

    with commit_proxy(case.world.postgres.port, case.world.address) as proxy:
        case.other = {"dsn": case.dsn.replace(str(case.world.postgres.port), str(proxy.port))}
        [leader] = case.world.take(1)
        case.lead(leader)
        case.await_commits(2)
        for _ in range(3):
            proxy.on_commit = lose
            wait_until("a COMMIT", lambda: proxy.on_commit is None)
            case.await_commits(2, since=monotonic())
        happened(len(lost) == 3, "three were lost")
        case.drain()


@fault("lost-record-reply", fast=True)
def _(case: Case) -> None:
    """B6: the record is written, the answer is lost; it is looked for, and not written twice."""
    proxy = CuttingProxy(case.world.zookeeper_ports[0], case.world.address)
    threading.Thread(target=proxy.serve, daemon=True).start()
    try:
        case.other = {"zookeeper": f"{case.world.address}:{proxy.port}"}
        [leader] = case.world.take(1)
        case.lead(leader)
        case.await_commits(2)
        leader.tell("order", orders={"before_record": ["hold", 1]})
        case.await_fired(leader)
        wait_until("it stands still", leader.is_stopped)
        proxy.lose_reply = 0
        leader.go_on()
        wait_until("a reply was lost", lambda: proxy.lost == 1)
        case.await_commits(2, since=monotonic())
        happened(len(case.events("leads")) == 1, "it leads on")
        case.drain()
    finally:
        proxy.close()
