"""The stored data of one topology, and its status by that data: the view of processes that don't lead."""

from __future__ import annotations

from datetime import datetime

from attrs import frozen

from coordinators.record.record import CoordinatorRecord
from coordinators.record.store import TopologyIdentity
from coordinators.record.wishes import Wish
from coordinators.status.candidate import Leader
from coordinators.status.status import SourceStatus, TopologyStatus, TransactionStatus
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.transaction_time import MILLIS


@frozen(kw_only=True)
class TopologyDescription:
    """The stored data of one topology.

    Attributes:
        identity: its identity for its sinks.
        epoch: the number of the last leadership; 0 if it was never led.
        leader: the current leader; None if no process leads.
        record: its position; None before its first write, and after a reset.
        wishes: the operators' wishes that were not carried out yet, oldest first.
    """

    identity: TopologyIdentity
    epoch: int
    leader: Leader | None
    record: CoordinatorRecord | None
    wishes: tuple[Wish, ...] = ()

    def status(self, at: float) -> TopologyStatus:
        """Return the status according to the record, for the time of day ``at``, in seconds since 1970.

        The record has neither the values in a leader's memory (`rows`, `counts`, `late`, …) nor the phase of a begun
        transaction.
        """
        record, leader = self.record or CoordinatorRecord(epoch=self.epoch), self.leader
        standing = record.standing.led_by(self.epoch if leader else 0)
        failures = {txid: each for txid, each in record.failures.items() if txid >= record.current_txid}
        return TopologyStatus(
            topology=self.identity.name,
            at=at,
            is_active=leader is not None,
            is_paused=standing.is_paused,
            standing=standing,
            leader=str(leader) if leader else None,
            leads_since=datetime.fromisoformat(leader.started).timestamp() if leader else None,
            epoch=self.epoch,
            current_txid=record.current_txid,
            transactions=_begun(record),
            sources=tuple(
                SourceStatus(
                    spout=each.spout, txid=txid, cause=each.cause, tries=each.tries, since=each.since, last=each.last
                )
                for txid, each in failures.items()
                if each.spout is not None
            ),
            failures={txid: each for txid, each in failures.items() if each.spout is None or each.count},
            parked=record.parked.entries,
            parking=record.parked.parking_txid,
            seconds_ahead=max(0.0, max(record.times.values(), default=0) / MILLIS - at),
        )


def _begun(record: CoordinatorRecord) -> tuple[TransactionStatus, ...]:
    committing = {intent.attempt for intent in record.committing}
    attempts = [TransactionAttempt(txid, attempt_id) for txid, attempt_id in sorted(record.attempt_ids.items())]
    return tuple(
        TransactionStatus(
            attempt=attempt,
            number=record.bindings.number(attempt.txid),
            phase="committing" if attempt in committing else "begun",
            since=record.times.get(attempt.txid, 0) / MILLIS,
            failures=record.failures[attempt.txid].tries if attempt.txid in record.failures else 0,
        )
        for attempt in attempts
        if attempt.txid >= record.current_txid
    )
