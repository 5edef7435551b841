"""The facts of a topology for a page and for programs, as JSON. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import asdict, frozen

from coordinators.record.wishes import Hold
from coordinators.status.candidate import Leader
from coordinators.status.status import TopologyStatus, Wait
from trident_py.history.transactions import TransactionHistory


@frozen
class Snapshot:
    """A topology at one moment.

    Attributes:
        at: the moment, in seconds since 1970.
        is_live: whether it runs; if not, its stored data doesn't change any more.
        status: the facts of `status_facts`.
        transactions: the last ones, lowest first.
    """

    topology: str
    at: float
    is_live: bool
    status: dict[str, Any]
    transactions: Sequence[TransactionHistory]


def status_facts(status: TopologyStatus, leader: Leader | None = None) -> dict[str, Any]:
    """Return ``status`` for programs; moments are in seconds since 1970.

    Args:
        status: published or stored.
        leader: another process that leads, if there is one.
    """
    standing = status.standing.to_json()
    hold, reason, _ = standing.pop("hold"), standing.pop("reason", ""), standing.pop("paused_by", 0)
    return {
        "message": status.message,
        "state": state_of(status),
        "is_leading": status.is_leading,
        "leader": leader.facts() if leader else None,
        "leads_since": status.leads_since,
        "epoch": status.epoch,
        "current_txid": status.current_txid,
        "in_flight": [str(each.attempt) for each in status.transactions],
        "committed": status.committed,
        "rows": status.rows,
        "counts": dict(status.counts),
        "lag": {spout: dict(lag) for spout, lag in status.lag.items()},
        "unready": list(status.unready),
        "hold": hold,
        "rate": standing,
        "reason": reason,
        "waits_for": wait_facts(status.waits_for),
        "parked": [each.to_json() for each in status.parked],
        "expiring": {str(txid): why for txid, why in status.expiring.items()},
        "resident_tasks": dict(status.resident_tasks),
        "busy_tasks": [asdict(each) for each in status.busy_tasks],
        "error": None if status.error is None else str(status.error),
        "events_dropped": status.events_dropped,
        "history_error": status.history_error,
    }


def state_of(status: TopologyStatus) -> str:
    """Return the activity of a topology in one or two words."""
    if status.error is not None:
        return "failed"
    if not status.is_active:
        return "stopped"
    if status.epoch is None:
        return "standing by"
    if status.standing.hold is not Hold.NOTHING:
        return str(status.standing.hold)
    return "paused" if status.is_paused else "running"


def wait_facts(waits: Sequence[Wait]) -> list[dict[str, Any]]:
    """Return the reasons for a stall."""
    return [{"what": each.what, "since": each.since} for each in waits]
