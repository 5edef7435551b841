"""Who may connect as a resident task, over the loopback network; the tasks are threads here."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator

import pytest
from attrs import evolve

from tests.unit.trident_py.resident import SECONDS, Driver, begun, joined
from trident_py.worker.wire import Frame


@pytest.fixture
def driver() -> Iterator[Driver]:
    made = Driver()
    yield made
    made.server.close()


def test_a_task_of_another_driver_is_not_let_in(driver: Driver) -> None:
    begun(evolve(driver.task({}), secret=b"another"))
    begun(driver.task({0: joined}))
    what, link, _ = driver.next()
    assert what == "joined"
    assert driver.asked(link, 0, 1).head["counts"] == []
    assert driver.told.empty()


def garbage(peer: socket.socket) -> None:
    peer.sendall(struct.pack("!II", 5, 0) + b"[1,2]")


def too_long(peer: socket.socket) -> None:
    peer.sendall(struct.pack("!II", 8, 1 << 30) + b"{}")


def without_a_secret(peer: socket.socket) -> None:
    peer.sendall(Frame({"task": 0, "nonce": "x", "proof": ["y"]}).encoded())


@pytest.mark.parametrize("says", [garbage, too_long, without_a_secret])
def test_a_stranger_is_disconnected(driver: Driver, says: Callable[[socket.socket], None]) -> None:
    with socket.create_connection(("127.0.0.1", driver.server.port), SECONDS) as peer:
        says(peer)
        while peer.recv(1024):
            pass
    begun(driver.task({}))
    assert driver.next()[0] == "joined"


def test_a_large_frame_comes_whole_and_others_are_served_meanwhile(driver: Driver) -> None:
    """The network takes only a part at once, as the task reads slowly."""
    for _ in range(2):
        begun(driver.task({0: joined}))
    links = [driver.next()[1] for _ in range(2)]
    driver.server.send(links[0], Frame({"number": 1, "branch": 9, "txids": []}, b"x" * (32 << 20)))
    assert driver.asked(links[1], 0, 1).head["number"] == 5
    what, link, frame = driver.next()
    assert (what, link, frame.head["number"]) == ("received", links[0], 1)


def test_while_a_large_answer_arrives_others_are_served(driver: Driver) -> None:
    """It comes as one frame, of which each turn reads a part."""
    begun(driver.task({0: joined}))
    _, other, _ = driver.next()
    with socket.create_connection(("127.0.0.1", driver.server.port), SECONDS) as peer:
        driver.task({})._greeted(peer, 1)
        _, slow, _ = driver.next()
        answer = Frame({"number": 1}, b"x" * (60 << 20)).encoded()
        peer.sendall(answer[: 40 << 20])
        assert driver.asked(other, 0, 1).head["counts"] == []
        peer.sendall(answer[40 << 20 :])
        what, link, frame = driver.next()
        assert (what, link, frame.head, len(frame.body)) == ("received", slow, {"number": 1}, 60 << 20)
