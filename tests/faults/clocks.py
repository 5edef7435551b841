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
    """E2: the leader lives three days ahead; the standby, which doesn't, takes over from it."""
    # Ahead, and all clocks alike: with others of libfaketime's settings Python can't sleep, and a JVM never does.
    wrong = {"LD_PRELOAD": str(LIBRARY), "FAKETIME": "+3d"}
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
