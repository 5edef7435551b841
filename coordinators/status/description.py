"""What is stored about one topology, and where the topology is by that: how other processes than the leader see it."""

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
    """What is stored about one topology.

    Attributes:
        identity: who it is to its sinks.
        epoch: the number of the last leadership; 0 if it was never led.
        leader: who leads at this moment; None if nobody does.
        record: its position; None before its first write, and after a reset.
        wishes: what operators wish of it and nobody has carried out, oldest first.
    """

    identity: TopologyIdentity
    epoch: int
    leader: Leader | None
    record: CoordinatorRecord | None
    wishes: tuple[Wish, ...] = ()

    def status(self, at: float) -> TopologyStatus:
        """Return where the topology is, as far as the record says, to whoever asks ``at`` that time of day.

        The record has neither what a leader keeps in memory (`rows`, `counts`, `late`, …) nor how far a transaction has
        come that was begun.
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
            seconds_ahead=max(0.0, max(record.times.values(), default=0) / MILLIS - at),
        )


def _begun(record: CoordinatorRecord) -> tuple[TransactionStatus, ...]:
    committing = {intent.attempt for intent in record.committing}
    attempts = [TransactionAttempt(txid, attempt_id) for txid, attempt_id in sorted(record.attempt_ids.items())]
    return tuple(
        TransactionStatus(
            attempt=attempt,
            number=record.numbers.of(attempt.txid),
            phase="committing" if attempt in committing else "begun",
            since=record.times.get(attempt.txid, 0) / MILLIS,
            failures=record.failures[attempt.txid].tries if attempt.txid in record.failures else 0,
        )
        for attempt in attempts
        if attempt.txid >= record.current_txid
    )
