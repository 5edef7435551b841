"""Faults: clocks that are wrong."""

from __future__ import annotations

from pathlib import Path
from time import monotonic

from tests.faults.case import Case
from tests.faults.catalogue import fault, happened
from tests.faults.world import World

LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


def _no_library(_: World) -> str | None:
    return None if LIBRARY else "no libfaketime (Debian: apt-get install faketime)"


@fault("clocks-differ", lack=_no_library)
def _(case: Case) -> None:
    """E2: the leader lives three days ago; the standby, which doesn't, takes over from it."""
    # Only what the calendar says is wrong; with libfaketime's "fix" for monotonic waits a JVM spins in all of them.
    kept = {"DONT_FAKE_MONOTONIC": "1", "FAKETIME_FORCE_MONOTONIC_FIX": "0"}
    wrong = {"LD_PRELOAD": str(LIBRARY), "FAKETIME": "-3d", **kept}
    leader = case.world.new_driver(environment=wrong)
    case.world.await_warm(leader)
    case.lead(leader)
    [standby] = case.world.take(1)
    case.run(standby)
    standby.await_event("stands_by", case.topology)
    case.await_commits(2)
    happened(leader.is_alive, "the leader is there")
    leader.kill()
    killed = monotonic()
    case.await_takeover(standby, killed)
    case.await_commits(2, since=killed)
