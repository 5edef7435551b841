"""Faults: PostgreSQL servers that lose commits, or have them confirmed by a replica, and fail over to it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import monotonic

import psycopg

from tests.faults.case import Case
from tests.faults.catalogue import fault, happened
from tests.faults.drivers import Driver, wait_until
from tests.faults.replicas import Replicated
from tests.faults.world import end_postgres, postgres_at
from tests.servers.postgresql import PostgresServer

UNSYNCED = {"synchronous_commit": "off", "wal_writer_delay": "10s"}
"""What is committed stays in memory for some seconds."""

FORGETFUL = {"fsync": "off", "checkpoint_timeout": "1h", "bgwriter_lru_maxpages": "0"}
"""Nothing but the log is written between two checkpoints, and nobody sees to it that it is on the disk."""


@fault("postgres-unsynced")
def _(case: Case) -> None:
    """D10: the server confirms commits before they are on disk, and crashes: ours were, since we ask for it."""
    with _server_of_its_own(case, UNSYNCED) as server:
        case.session = 20.0
        leader, _ = case.pair()
        with psycopg.connect(case.dsn, autocommit=True) as other:
            other.execute("CREATE TABLE other (word text)")
            leader.tell("order", orders={"after_db_commit": ["hold", 1]})
            case.await_fired(leader)
            wait_until("it stands still", leader.is_stopped)
            other.execute("INSERT INTO other VALUES ('lost')")
            server.kill()
        server.start()
        happened(case.query("SELECT * FROM other") == [], "the server has lost the commit of somebody else")
        leader.go_on()
        case.await_commits(2, since=monotonic())
        happened(len(case.events("leads")) == 1, "the leader leads on")
        case.drain()


@fault("postgres-loses-commits")
def _(case: Case) -> None:
    """D10: a machine with fsync off loses power: nobody goes on, until the commits are there again."""
    with _server_of_its_own(case, FORGETFUL) as server:
        drivers = case.pair()
        on_disk, whole = server.data.with_name("on-disk"), server.data.with_name("whole")
        with psycopg.connect(case.dsn, autocommit=True) as connection:
            connection.execute("CHECKPOINT")
            shutil.copytree(server.data / "pg_wal", on_disk)
        case.await_commits(2)
        server.kill()
        owner = server.data.owner()
        server.data.rename(whole)
        _copy(whole, server.data, owner)
        shutil.rmtree(server.data / "pg_wal")
        _copy(on_disk, server.data / "pg_wal", owner)
        server.start()
        _nobody_goes_on(case, drivers)
        server.kill()
        shutil.rmtree(server.data)
        whole.rename(server.data)
        server.start()
        _all_go_on(case, drivers)
        case.drain()


@fault("postgres-failover")
def _(case: Case) -> None:
    """D12: the primary dies with a commit that the replica has not confirmed; the replica is promoted: it goes on."""
    with _replicated(case) as pair:
        pair.confirm()
        case.session = 20.0
        case.pair()
        pair.replica.stop()
        waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name LIKE 'trident%'"
        wait_until("a commit waits for the replica", partial(case.query, waiting))
        before = case.committed()
        pair.primary.kill()
        pair.replica.start()
        pair.replica.promote()
        case.await_commits(2, since=monotonic())
        happened(len(case.events("leads")) == 1, "the leader leads on")
        happened(case.committed() > before, "on the replica")
        case.drain()


@fault("postgres-failover-lagging")
def _(case: Case) -> None:
    """D12: a replica that lacks confirmed commits is promoted: nobody goes on, until the old primary is back."""
    with _replicated(case) as pair:
        drivers = case.pair()
        pair.replica.stop()
        case.await_commits(2)
        pair.primary.kill()
        pair.replica.start()
        pair.replica.promote()
        _nobody_goes_on(case, drivers)
        pair.replica.stop()
        pair.primary.start()
        _all_go_on(case, drivers)
        case.drain()


def _nobody_goes_on(case: Case, drivers: tuple[Driver, Driver]) -> None:
    """Both end by name, first who leads, then who takes over; nothing is committed where something is missing."""
    leader, standby = drivers
    before = case.committed()
    ended = leader.await_event("ended", case.topology)
    happened(ended["error"] == "StateError", f"the leader ends by name, not {ended}")
    happened("has lost commits" in ended["message"], f"it tells the cause, not {ended['message']}")
    ended = standby.await_event("ended", case.topology)
    happened(ended["error"] == "StateError", f"the standby doesn't go on, it ended with {ended}")
    happened("are missing from it" in ended["message"], f"it tells the cause, not {ended['message']}")
    happened(case.committed() == before, "nothing was committed")
    case.ends.add("StateError")


def _all_go_on(case: Case, drivers: tuple[Driver, Driver]) -> None:
    for driver in drivers:
        case.run(driver)
    case.await_commits(2, since=monotonic())


@contextmanager
def _server_of_its_own(case: Case, options: dict[str, str]) -> Iterator[PostgresServer]:
    server = postgres_at(case.world.address, case.world.directory / case.topology / "postgres", **options)
    try:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("CREATE DATABASE words")
        case.dsn, case.asks = server.dsn("words", host=case.world.address), True
        yield server
    finally:
        end_postgres(server)


@contextmanager
def _replicated(case: Case) -> Iterator[Replicated]:
    with Replicated.running(case.world.directory / case.topology, case.world.address) as pair:
        pair.create_database("words")
        case.dsn, case.asks = pair.dsn("words"), True
        yield pair


def _copy(source: Path, target: Path, owner: str) -> None:
    """Copy a directory; what is in it belongs to ``owner`` then."""
    shutil.copytree(source, target)
    for path in (target, *target.rglob("*")):
        shutil.chown(path, owner)
