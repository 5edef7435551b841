"""Faults: what happens while Spark's tasks stage a change, and while it is merged."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TypeAlias

import psutil
import psycopg
from attrs import define

from tests.faults.case import Case
from tests.faults.catalogue import fault, happened
from tests.faults.drivers import wait_until
from tests.servers.spark import QUICK, SparkCluster

HOLD = """
CREATE FUNCTION public.held() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END $$;
CREATE FUNCTION public.hold() RETURNS event_trigger LANGUAGE plpgsql AS $$
DECLARE made record;
BEGIN
    FOR made IN SELECT * FROM pg_event_trigger_ddl_commands() WHERE object_identity ~ '[.]_counts_[0-9_]+$' LOOP
        EXECUTE 'CREATE TRIGGER held BEFORE INSERT ON ' || made.object_identity ||
            ' FOR EACH STATEMENT EXECUTE FUNCTION public.held()';
    END LOOP;
END $$;
CREATE EVENT TRIGGER hold ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION public.hold();
"""
"""Has every COPY into a staging table wait as long as somebody has the lock."""

COPYING = """
    SELECT activity.pid, host(client_addr), client_port, inet_server_port()
    FROM pg_stat_activity AS activity JOIN pg_locks AS locks USING (pid)
    WHERE locktype = 'advisory' AND NOT granted AND query LIKE 'COPY%'"""
MERGING = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'INSERT INTO %counts%'"

EXECUTOR = "CoarseGrainedExecutorBackend"
SPECULATING = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.task.duration.threshold": "1s",
}

Connection: TypeAlias = tuple[str, int, int]


@define
class Copying:
    """A COPY of a task that waits.

    Attributes:
        server: the server's process.
        connection: the client's address and port, and the server's port. Other processes may have the same port: in
            another network, or for another server.
    """

    server: psutil.Process
    connection: Connection

    def client(self) -> psutil.Process:
        """The worker whose connection it is."""
        workers = (process for process in psutil.process_iter() if process.name().startswith("python"))
        return next(process for process in workers if self.connection in _connections(process))


@fault("staging-worker-killed")
def _(case: Case) -> None:
    """C2: Python workers die while they stage; Spark runs their tasks again, and nothing of the dead is merged."""
    _workers_killed(case)


@fault("tasked-worker-killed")
def _(case: Case) -> None:
    """C2: the same in the commit, while tasks change the state by user code."""
    case.tasked = True
    _workers_killed(case)


def _workers_killed(case: Case) -> None:
    case.shares = False
    case.pair()
    for _ in range(3):
        with _copying(case) as copying:
            copying.client().kill()
        case.await_commits(2, since=monotonic())
    happened(len(case.events("leads")) == 1, "the leader leads on")


@fault("staging-twice")
def _(case: Case) -> None:
    """C1, C4: a task stages a second time, as its first run stands still, then as its executor dies: one is merged."""
    _staged_twice(case)


@fault("tasked-twice")
def _(case: Case) -> None:
    """C1, C4: the same in the commit: a task that changes the state runs twice, then its executor is lost."""
    case.tasked = True
    _staged_twice(case)


def _staged_twice(case: Case) -> None:
    case.shares = False
    given = " ".join(f"--conf {name}={value}" for name, value in SPECULATING.items())
    cluster = SparkCluster(case.world.directory / case.topology)
    quick = f'--conf "spark.executor.extraJavaOptions={QUICK}"'
    environment = {"PYSPARK_SUBMIT_ARGS": f"{given} {quick} pyspark-shell"}
    try:
        cluster.start()
        leader = case.world.new_driver(cluster.url, environment, has_network=False)
        case.world.await_warm(leader)
        case.lead(leader)
        with _copying(case, stops=True):
            case.await_commits(2, since=monotonic())  # by what was run beside it
        with _copying(case) as copying:
            executor = next(each for each in copying.client().parents() if EXECUTOR in " ".join(each.cmdline()))
            executor.kill()
        case.await_commits(2, since=monotonic())
        happened(len(case.events("leads")) == 1, "the leader leads on")
        case.drain()
        leader.kill()  # it is good for nothing without its cluster
    finally:
        cluster.stop()


@fault("takeover-in-merge")
def _(case: Case) -> None:
    """A7: the leader stands still in the middle of a merge; who takes over ends that, and merges its own."""
    case.shares = False
    leader, standby = case.pair()
    with psycopg.connect(case.dsn) as other:
        other.execute("LOCK TABLE counts IN SHARE MODE")
        [(merging,)] = wait_until("a merge waits", partial(case.query, MERGING))
        leader.pause()
        stopped = monotonic()
        case.await_takeover(standby, stopped)
        happened(not psutil.pid_exists(merging), "the merge of the first was ended")
    case.await_commits(2, since=stopped)
    leader.go_on()
    ended = leader.await_event("ended", case.topology)
    happened(ended["error"] == "FencedError", f"the first ends fenced, not by {ended}")


@fault("takeover-in-tasks")
def _(case: Case) -> None:
    """A7: the leader stands still in a commit, and its tasks stage to the end: nothing of that is merged."""
    case.tasked, case.shares = True, False
    leader, standby = case.pair()
    with _copying(case):
        leader.pause()
        stopped = monotonic()
    case.await_takeover(standby, stopped)
    case.await_commits(2, since=stopped)
    leader.go_on()
    ended = leader.await_event("ended", case.topology)
    happened(ended["error"] == "FencedError", f"the first ends fenced, not by {ended}")


@contextmanager
def _copying(case: Case, *, stops: bool = False) -> Iterator[Copying]:
    """Have the next COPY of a task wait; that one also after others may go on, if it ``stops``."""
    with psycopg.connect(case.dsn, autocommit=True) as other:
        if not other.execute("SELECT 1 FROM pg_event_trigger").fetchall():
            other.execute(HOLD)
        other.execute("SELECT pg_advisory_lock(1)")
        [(pid, address, port, server_port), *_] = wait_until("a task copies", lambda: other.execute(COPYING).fetchall())
        copying = Copying(psutil.Process(pid), (address, port, server_port))
        if stops:
            copying.server.suspend()
            other.execute("SELECT pg_advisory_unlock(1)")
        try:
            yield copying
        finally:
            copying.server.resume()


def _connections(process: psutil.Process) -> set[Connection]:
    """The connections of a process; psutil looks in our own network namespace only."""
    own = Path(f"/proc/{process.pid}")
    with suppress(FileNotFoundError, ProcessLookupError):
        sockets = {os.readlink(file) for file in (own / "fd").iterdir()}
        rows = [line.split() for line in (own / "net/tcp").read_text().splitlines()[1:]]
        return {(*_place(row[1]), _place(row[2])[1]) for row in rows if f"socket:[{row[9]}]" in sockets}
    return set()


def _place(text: str) -> tuple[str, int]:
    """An address and a port, as Linux writes them: ``0100007F:1F90``."""
    address, _, port = text.partition(":")
    return socket.inet_ntoa(int(address, 16).to_bytes(4, sys.byteorder)), int(port, 16)
