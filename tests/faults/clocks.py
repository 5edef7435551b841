"""Faults: clocks that are wrong."""

from __future__ import annotations

from time import monotonic, time

from tests.faults.case import Case
from tests.faults.catalogue import fault, happened

THREE_DAYS_SECONDS = 3 * 24 * 3600


@fault("clocks-differ")
def _(case: Case) -> None:
    """E2: the leader lives three days ahead; the standby, which doesn't, takes over from it."""
    leader = case.world.new_driver(environment={"TRIDENT_CLOCK_AHEAD_SECONDS": str(THREE_DAYS_SECONDS)})
    case.world.await_warm(leader)
    ahead = leader.await_event("ready")["wall"] - time()
    happened(ahead > THREE_DAYS_SECONDS / 2, f"its clock is ahead, by {ahead:.0f} s")
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
