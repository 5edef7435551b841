"""Clients that post to a leader and its standby, while whichever leads is killed."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest
from attrs import define, field

from tests.integration.trident_py import http_program
from tests.topologies import until

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper, pytest.mark.slow]

KILLS = 4
CLIENTS = 6
PATIENCE_SECONDS = 180
TOKEN = "a-token-for-the-tests"  # noqa: S105


@define
class Processes:
    """The leader and its standby."""

    zookeeper: str
    directory: Path
    ports: tuple[int, int]
    running: dict[int, subprocess.Popen[bytes]] = field(factory=dict)

    def start(self, port: int) -> None:
        command = [sys.executable, http_program.__file__, self.zookeeper, str(self.directory), str(port)]
        with (self.directory / f"{port}.log").open("ab") as log:
            environment = {**os.environ, "TRIDENT_TOKEN": TOKEN}
            self.running[port] = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def kill(self, port: int) -> None:
        self.running[port].kill()
        self.running[port].wait()


@define
class Client:
    """Sends orders one after the other; those with an even number have a key, and are sent until answered."""

    number: int
    processes: Processes
    ends: threading.Event
    answered: set[str] = field(factory=set)
    unknown: set[str] = field(factory=set)
    leader: int = 0

    def run(self) -> None:
        sent = 0
        while not self.ends.is_set():
            sent += 1
            row = f"{self.number}-{sent}"
            status = self.post(row, key=row if sent % 2 == 0 else None)
            while status != 200 and (sent % 2 == 0 or status is not None):  # a refusal took nothing
                status = self.post(row, key=row if sent % 2 == 0 else None)
            (self.answered if status == 200 else self.unknown).add(row)

    def post(self, row: str, key: str | None) -> int | None:
        """Return the status of the answer; None: there was none, so the row may have been stored."""
        port = self.processes.ports[self.leader]
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        with closing(HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
            try:
                connection.connect()
            except OSError:
                self.turn()
                return 0
            with suppress(OSError, HTTPException):
                given = headers if key is None else {**headers, "Idempotency-Key": key}
                connection.request("POST", "/ingest/orders", json.dumps({"customer": row, "amount": 1}), given)
                answer = connection.getresponse()
                answer.read()
                if answer.status != 200:
                    self.turn()
                # 503 doesn't say whether it was stored
                return None if answer.status == 503 and key is None else answer.status
        self.turn()
        return None

    def turn(self) -> None:
        """Try the other process next, a little later."""
        self.leader = 1 - self.leader
        self.ends.wait(0.1)


@contextmanager
def processes(zookeeper: str, directory: Path) -> Iterator[Processes]:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        ports = one.getsockname()[1], other.getsockname()[1]
    made = Processes(zookeeper, directory, ports)
    try:
        for port in ports:
            made.start(port)
        yield made
    finally:
        for port in [*made.running]:
            made.kill(port)


def counts(directory: Path) -> dict[str, int]:
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(directory / "sums.db", timeout=60)) as database:
        return dict(database.execute("SELECT customer, amount FROM sums"))
    return {}


def test_each_answered_row_counts_once_over_kills_of_the_leader(zookeeper: str, tmp_path: Path) -> None:
    ends = threading.Event()
    with processes(zookeeper, tmp_path) as made:
        clients = [Client(number, made, ends) for number in range(CLIENTS)]
        threads = [threading.Thread(target=each.run) for each in clients]
        for thread in threads:
            thread.start()
        try:
            for _ in range(KILLS):
                before = sum(len(each.answered) for each in clients)
                until(lambda: sum(len(each.answered) for each in clients) > before + 200, PATIENCE_SECONDS)  # noqa: B023
                killed = made.ports[clients[0].leader]
                made.kill(killed)
                made.start(killed)
            before = sum(len(each.answered) for each in clients)
            until(lambda: sum(len(each.answered) for each in clients) > before + 200, PATIENCE_SECONDS)
        finally:
            ends.set()
            for thread in threads:
                thread.join()
        answered = set[str]().union(*(each.answered for each in clients))
        unknown = set[str]().union(*(each.unknown for each in clients))
        until(lambda: answered <= counts(tmp_path).keys(), PATIENCE_SECONDS)
    found = counts(tmp_path)
    assert set(found.values()) == {1}
    assert answered <= found.keys() <= answered | unknown
    assert unknown  # some requests had no answer
