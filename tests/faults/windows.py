"""Faults under a topology with windows in a PostgreSQL table, whose results are counted in another one.

A crash may come between the commits of the two; drivers are asked for a count all the time. Windows by time close when
there is no input any more, in a transaction that no spout has a part in.
"""

from __future__ import annotations

from functools import partial
from time import monotonic

from tests.faults.case import Case
from tests.faults.catalogue import fault, happened
from tests.faults.crashes import crash
from tests.faults.databases import crash_at
from tests.faults.drivers import wait_until
from tests.faults.points import CLOSING

PER_WINDOW = 3

WINDOW_SECONDS = 4


def _with_windows(case: Case) -> Case:
    case.per_window, case.asks = PER_WINDOW, True
    return case


for point in ("before_db_commit", "after_db_commit"):

    @fault(f"windows-crash-{point.replace('_', '-')}")
    def _(case: Case, point: str = point) -> None:
        """A2, A3: the leader dies around the second of two commits; no row of a window is lost or comes twice."""
        crash(point, _with_windows(case))
        _was_asked(case)


@fault("windows-postgres-restarted")
def _(case: Case) -> None:
    """D2: the server crashes between the two commits."""
    crash_at(_with_windows(case), before_db_commit=["hold", 1])
    _was_asked(case)


@fault("windows-stopped-in-commit")
def _(case: Case) -> None:
    """A7: the leader stands still between the two commits; the standby goes on with what both tables have."""
    leader, standby = _with_windows(case).pair(before_db_commit=["hold", 1])
    stopped = case.await_fired(leader)["at"]
    wait_until("it stands still", leader.is_stopped)
    case.await_takeover(standby, stopped)
    case.await_commits(2, since=stopped)
    leader.go_on()
    ended = leader.await_event("ended", case.topology)
    happened(ended["error"] == "FencedError", f"the first ends fenced, not by {ended}")
    _was_asked(case)


for point in CLOSING:

    @fault(f"window-without-input-crash-{point.removesuffix('_closing_commit')}")
    def _(case: Case, point: str = point) -> None:
        """A2, A3: there is no input, and the leader dies around the commit that closes a window: it closes once."""
        case.window_secs = WINDOW_SECONDS
        leader, standby = case.pair(**{point: ["crash", 1]})
        case.feeder.stop()
        died = case.await_fired(leader)["at"]
        happened(wait_until("it is dead", lambda: not leader.is_alive), "SIGKILL")
        case.await_takeover(standby, died)
        case.drain()
        [(closing,)] = case.query("SELECT count(*) FROM ledger WHERE extents = '[]' AND deltas <> '{}'")
        happened(closing > 0, "a transaction without input has closed a window")


def _was_asked(case: Case) -> None:
    """Return when somebody was given an answer after the fault."""
    now = monotonic()
    wait_until("an answer", partial(_answered, case, now))


def _answered(case: Case, moment: float) -> bool:
    return any(event["began"] > moment for event in case.events("answer"))
