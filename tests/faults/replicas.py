"""Two PostgreSQL servers, one of which follows the other and can take its place."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psycopg
from attrs import define, evolve
from psycopg.conninfo import make_conninfo

from tests.faults.drivers import wait_until
from tests.faults.world import end_postgres, postgres_at
from tests.servers.postgresql import PostgresServer


@define
class Replicated:
    """A primary and its replica.

    Attributes:
        address: where both answer.
    """

    primary: PostgresServer
    replica: PostgresServer
    address: str

    @classmethod
    @contextmanager
    def running(cls, directory: Path, address: str) -> Iterator[Replicated]:
        """Start both; in the end both are stopped."""
        primary = postgres_at(address, directory / "one")
        pair = cls(primary, evolve(primary, data=directory / "other", port=0), address)
        try:
            pair.follow()
            yield pair
        finally:
            end_postgres(pair.replica)
            end_postgres(pair.primary)

    @property
    def ports(self) -> list[int]:
        """Where clients find them."""
        return sorted([self.primary.port, self.replica.port])

    def dsn(self, name: str) -> str:
        """How to connect to a database of whichever takes writes."""
        ports = ",".join(map(str, self.ports))
        hosts = f"{self.address},{self.address}"
        return make_conninfo(self.primary.dsn(name), host=hosts, port=ports, target_session_attrs="read-write")

    def create_database(self, name: str) -> None:
        """Make a database."""
        self._ask(f"CREATE DATABASE {name}")

    def follow(self) -> None:
        """Make the replica anew."""
        shutil.rmtree(self.replica.data, ignore_errors=True)
        self.replica.follow(self.primary)
        self.replica.start()
        wait_until(
            "the replica follows", partial(self._ask, "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'")
        )

    def confirm(self) -> None:
        """From now on the primary confirms no commit that its replica doesn't have."""
        self._ask("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self._ask("SELECT pg_reload_conf()")
        wait_until(
            "it has read that", partial(self._ask, "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'")
        )

    def fail_over(self) -> None:
        """The primary dies, the replica takes its place."""
        self.primary.kill()
        self.replica.promote()
        self.primary, self.replica = self.replica, self.primary

    def _ask(self, question: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.primary.dsn(), autocommit=True) as connection:
            cursor = connection.execute(question.encode())
            return cursor.fetchall() if cursor.description else []
