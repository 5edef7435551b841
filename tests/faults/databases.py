"""Faults: a PostgreSQL that crashes, hangs up, or runs out of disk."""

from __future__ import annotations

import shutil
from time import monotonic

import psycopg

from tests.faults.case import Case
from tests.faults.catalogue import fault, happened
from tests.faults.drivers import wait_until
from tests.faults.small import small_disk


@fault("postgres-restarted-before-merge")
def _(case: Case) -> None:
    """D2: the server crashes between staging and merge: what is staged is gone, nothing else."""
    case.shares = False  # what shares a job is not staged
    crash_at(case, before_merge=["hold", 1])
    happened("was not properly shut down" in case.world.postgres.log, "the server has crashed")


@fault("postgres-restarted-before-commit", fast=True)
def _(case: Case) -> None:
    """D2: the server crashes between merge and COMMIT."""
    crash_at(case, before_db_commit=["hold", 1])


@fault("postgres-backends-terminated")
def _(case: Case) -> None:
    """Every connection to the database is ended by the server, again and again."""
    case.pair()
    ended = 0
    for _ in range(5):
        [(now,)] = case.query(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        ended += int(now)
        case.await_commits(1, since=monotonic())
    happened(ended > 0, "somebody was connected")


@fault("postgres-disk-full")
def _(case: Case) -> None:
    """D9: the tablespace is full: commits fail, and go on when there is room again."""
    with small_disk(case.world.directory / "postgres-disk", megabytes=24) as disk:
        shutil.chown(disk.path, "postgres", "postgres")
        with psycopg.connect(case.world.postgres.dsn(), autocommit=True) as connection:
            connection.execute(f"CREATE TABLESPACE small LOCATION '{disk.path}'".encode())
            connection.execute(f'ALTER DATABASE "{case.topology}" SET TABLESPACE small'.encode())
        leader, _ = case.pair()
        disk.fill()
        wait_until("a commit fails", lambda: "No space left on device" in leader.log)
        disk.clear()
        case.await_commits(2, since=monotonic())
        case.drain()
        with psycopg.connect(case.world.postgres.dsn(), autocommit=True) as connection:
            # Python workers keep their connections.
            connection.execute(f'DROP DATABASE "{case.topology}" WITH (FORCE)'.encode())
            connection.execute("DROP TABLESPACE small")


def crash_at(case: Case, **point: list[object]) -> None:
    """The server crashes and starts again while the leader stands still at ``point``; the leader leads on."""
    case.session = 60.0  # a crashed server takes half a minute to recover where the disk is busy
    leader, _ = case.pair(**point)
    case.await_fired(leader)
    wait_until("it stands still", leader.is_stopped)
    case.world.postgres.stop("immediate")
    case.world.postgres.start()
    leader.go_on()
    case.await_commits(2, since=monotonic())
    happened(len(case.events("leads")) == 1, "the leader leads on")
