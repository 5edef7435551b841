"""Faults: a pooler between the drivers and PostgreSQL."""

from __future__ import annotations

from time import monotonic

from attrs import evolve

from tests.faults.case import Case
from tests.faults.catalogue import fault, happened
from tests.faults.world import World
from tests.servers.pgbouncer import PgBouncer, missing


def _no_pgbouncer(_: World) -> str | None:
    return missing()


@fault("pgbouncer", lack=_no_pgbouncer)
def _(case: Case) -> None:
    """A pooler that keeps no session is refused before anything is made; one that does may die under the leader."""
    directory = case.world.directory / case.topology
    directory.mkdir(mode=0o755)
    pooler = PgBouncer(directory, case.world.postgres, "transaction", case.world.address)
    try:
        pooler.start()
        case.other = {"dsn": pooler.dsn(case.topology)}
        [leader] = case.world.take(1)
        case.run(leader)
        ended = leader.await_event("ended", case.topology)
        happened(ended["error"] == "StateError" and "a pooler in between" in ended["message"], f"by name, not {ended}")
        case.ends.add("StateError")
        happened(case.query("SELECT 1 FROM pg_tables WHERE schemaname = 'public'") == [], "nothing was made")
        pooler.stop()
        pooler = evolve(pooler, mode="session")
        pooler.start()
        case.lead(leader)
        case.await_commits(2)
        pooler.stop()
        pooler.start()
        case.await_commits(2, since=monotonic())
        happened(len(case.events("leads")) == 1, "the leader leads on")
        case.drain()
    finally:
        pooler.stop()
