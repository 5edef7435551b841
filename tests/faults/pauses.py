"""Faults: processes that stand still while others go on."""

from __future__ import annotations

from time import monotonic

from tests.faults.case import Case
from tests.faults.catalogue import fault, happened
from tests.faults.drivers import wait_until


@fault("stopped-in-commit", fast=True)
def _(case: Case) -> None:
    """A7: the leader stands still with its transaction open; the other takes over; the first goes on, and is fenced."""
    leader, standby = case.pair(before_db_commit=["hold", 1])
    stopped = case.await_fired(leader)["at"]
    happened(wait_until("it stands still", leader.is_stopped), "SIGSTOP")
    case.await_takeover(standby, stopped)
    case.await_commits(2, since=stopped)
    wait_until("twice the session", lambda: monotonic() > stopped + 2 * case.session)
    happened(leader.is_stopped(), "still stopped")
    leader.go_on()
    ended = leader.await_event("ended", case.topology)
    happened(ended["error"] in ("FencedError", "CoordinationLost"), f"the first ends by name, not {ended}")
