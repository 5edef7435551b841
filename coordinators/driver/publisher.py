"""Publishes a leadership's status every turn, and one event for each change of a transaction."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import attrgetter
from typing import TypedDict

from attrs import define, evolve, field

from coordinators.batches.admission import Admission
from coordinators.protocol.master import AttemptStatus
from coordinators.protocol.messages import Failed, FailureKind
from coordinators.protocol.protocol import (
    AttemptFailed,
    CancelAttempt,
    Command,
    EmitBatch,
    EmitCommit,
    EmitSuccess,
    Event,
    ParkWanted,
    PhaseAcked,
    Wished,
)
from coordinators.record.parking import Parked
from coordinators.record.store import RecordStore, TopologyIdentity
from coordinators.status.listener import (
    CommittedEvent,
    Counts,
    CountsOf,
    EmittedEvent,
    FailedEvent,
    LeadingEvent,
    ParkedEvent,
    ProcessedEvent,
    ResidentTasksEvent,
    SucceededEvent,
    Tell,
    WishedEvent,
    no_counts,
    tell_nobody,
)
from coordinators.status.status import BusyTask, TopologyStatus, TransactionStatus
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Json
from coordinators.values.errors import TridentError
from coordinators.values.transaction_time import MILLIS


@define
class _Flight:
    """The live attempt of a transaction; moments are by the monotonic clock."""

    status: TransactionStatus
    emitted: float
    definition: Mapping[str, Json]
    is_parked: bool
    processed: float = 0.0
    commit_begun: float = 0.0


_STATUS = attrgetter("status")


class _Known(TypedDict, total=False):
    """The known attributes of an attempt, which become those of `TransactionEvent`."""

    rows: int
    counts: Mapping[str, int]
    written: Mapping[str, int]
    processing: float
    committing: float
    waiting: float
    number: int | None
    definition: Mapping[str, Json]


RESIDENTS_SECONDS = 1.0
"""The shortest time between two events with the numbers of resident tasks, which change with each small batch."""


# large: one field for each fact of the status, and for each event that must be published once
@define(kw_only=True)
class Publisher:
    """Publishes for one leadership. Pure: ``now`` is the monotonic clock, ``wall`` the time of day, both in seconds.

    Attributes:
        tell: called with each event, before any other component is notified of it.
        counted: returns how many rows a live attempt has read and counted.
        late: describes the work for which commits have waited too long; empty: none.
        lag: returns how many records wait in the sources, by spout and part of it.
        expiring: returns, by parked transaction, why its rows may soon be gone.
        resident_tasks: returns the numbers of `TopologyStatus.resident_tasks`.
        busy_tasks: returns `TopologyStatus.busy_tasks`.
        status: the last published status; any thread may read it.
    """

    tell: Tell = tell_nobody
    counted: CountsOf = no_counts
    late: Callable[[], str] = str
    lag: Callable[[], Mapping[str, Mapping[str, int]]] = dict
    expiring: Callable[[], Mapping[int, str]] = dict
    resident_tasks: Callable[[], Mapping[str, int]] = dict
    busy_tasks: Callable[[], Sequence[BusyTask]] = tuple
    status: TopologyStatus = field(init=False)
    _identity: TopologyIdentity = field(init=False)
    _admission: Admission = field(init=False)  # only read, with everything that it refers to
    _moved: float = field(default=0.0, init=False)
    _committed: int = field(default=0, init=False)
    _totals: Counts = field(factory=Counts, init=False)
    _flights: dict[int, _Flight] = field(factory=dict, init=False)
    _failed: dict[TransactionAttempt, Failed] = field(factory=dict, init=False)
    _parked: tuple[Parked, ...] = field(default=(), init=False)  # as it was last told
    _wished: list[Wished] = field(factory=list, init=False)  # not durable yet
    _resident_numbers: Mapping[str, int] = field(factory=dict, init=False)  # as they were last told
    _residents_due: float = field(default=-math.inf, init=False)
    _untold: dict[int, _Known] = field(factory=dict, init=False)  # committed transactions without delivered success

    def follow(self, topology: str, store: RecordStore, admission: Admission) -> None:
        """Prepare for a leadership that is about to begin."""
        self._identity, self._admission = store.identity, admission
        machine = admission.machine
        self.status = TopologyStatus(  # complete: who starts a topology may ask at once
            topology=topology,
            is_leading=True,
            epoch=store.epoch,
            current_txid=machine.current_txid,
            standing=machine.standing,
            parked=machine.parked.entries,
            parking=machine.parked.parking_txid,
            resident_tasks=self.resident_tasks(),
        )

    def leads(self, wall: float) -> None:
        """Publish that the leadership has begun."""
        self._moved = wall
        self.status = evolve(self.status, at=wall, leads_since=wall, moved=wall)
        self.tell(
            LeadingEvent(
                topology=self.status.topology,
                at=wall,
                epoch=self.status.epoch or 0,
                current_txid=self._admission.machine.current_txid,
                uuid=self._identity.uuid,
                incarnation=self._identity.incarnation,
            )
        )

    # --- events -------------------------------------------------------------------------------------------------------

    def failed(self, failed: Failed) -> None:
        """Record that a live attempt has failed; called before the machine handles the failure."""
        self._failed[failed.attempt] = failed
        flight = self._flights.get(failed.attempt.txid)
        if flight is not None:  # before anything is defined again
            flight.definition = self._admission.metadata(failed.attempt.txid)

    def handled(self, event: Event, commands: Sequence[Command], now: float, wall: float) -> None:
        """Publish the changes that follow from ``event``, which the machine has handled."""
        match event:
            case PhaseAcked(attempt):
                self._move(attempt, wall)
                self._look_at(attempt, now, wall)
                for command in commands:
                    if isinstance(command, EmitCommit):
                        self._look_at(command.attempt, now, wall)
            case ParkWanted(txid):
                why = TridentError(f"transaction {txid} is to be parked", topology=self.status.topology, txid=txid)
                cancelled = (each.attempt for each in commands if isinstance(each, CancelAttempt))
                self._failed |= {each: Failed(each, why, FailureKind.INTERRUPTED) for each in cancelled}
            case Wished():
                self._wished.append(event)
            case AttemptFailed(attempt) if commands:  # without commands: it was aborted before, with another attempt
                failed = self._failed[attempt]
                self._failed |= {each.attempt: failed for each in commands if isinstance(each, CancelAttempt)}

    def announced(self, commands: Collection[Command], now: float, wall: float, *, is_stopping: bool) -> None:
        """Publish ``commands``, which are about to be carried out; the state they rely on is durable."""
        for command in commands:
            match command:
                case EmitBatch(attempt):
                    self._move(attempt, wall)
                    self._emitted(attempt, now, wall)
                case EmitSuccess(attempt):
                    self._moved = wall
                    self._close(attempt, now, wall)
                case CancelAttempt(attempt):
                    self._give_up(attempt, wall)
        self._publish(now, wall, is_stopping=is_stopping)  # first: the receiver of an event finds it in the status
        self._tell_wished(wall)
        self._tell_parked(wall)
        self._tell_of_residents(now, wall)

    def _tell_wished(self, wall: float) -> None:
        wished, self._wished = self._wished, []
        for each in wished:
            wish = each.wish
            parked = each.parking.txid if each.parking else None
            self.tell(
                WishedEvent(
                    topology=self.status.topology,
                    at=wall,
                    wish=wish.id,
                    action=str(wish.action or ""),
                    txids=wish.txids or (() if parked is None else (parked,)),
                    by=wish.by,
                    reason=wish.reason,
                    refused=each.refusal,
                    found=each.split.found if each.split else {},
                )
            )

    def _tell_parked(self, wall: float) -> None:
        parked = self._admission.machine.parked.entries
        if parked != self._parked:
            self._parked = parked
            self.tell(ParkedEvent(topology=self.status.topology, at=wall, parked=parked))

    def succeeded(self, attempt: TransactionAttempt, wall: float) -> None:
        """Publish that every spout has received the success of ``attempt``."""
        committed = self._untold.pop(attempt.txid, {})  # an earlier leader's is not known
        self.tell(SucceededEvent(topology=self.status.topology, attempt=attempt, at=wall, **committed))

    def _move(self, attempt: TransactionAttempt, wall: float) -> None:
        if attempt.attempt_id == 0:  # a mere retry is no progress
            self._moved = wall

    def _emitted(self, attempt: TransactionAttempt, now: float, wall: float) -> None:
        status = TransactionStatus(
            attempt=attempt,
            number=self._admission.bindings.number(attempt.txid),
            phase=str(AttemptStatus.PROCESSING),
            since=wall,
            failures=self._admission.failures.retries.failures(attempt.txid),
        )
        machine, metadata = self._admission.machine, self._admission.metadata(attempt.txid)
        is_parked = attempt.txid in (machine.parked.parking_txid, machine.storing)
        flight = self._flights[attempt.txid] = _Flight(status, now, metadata, is_parked)
        known = self._known(flight)
        self.tell(EmittedEvent(topology=self.status.topology, attempt=attempt, at=wall, lag=self.lag(), **known))

    def _look_at(self, attempt: TransactionAttempt, now: float, wall: float) -> None:
        entry, flight = self._admission.machine.active.get(attempt.txid), self._flights.get(attempt.txid)
        if entry is None or flight is None or not entry.attempt == attempt == flight.status.attempt:
            return  # it is not live, or is about to be closed
        before, phase = flight.status.phase, str(entry.status)
        if phase == before:
            return
        known = flight.status
        flight.status = TransactionStatus(
            attempt=attempt, number=known.number, phase=phase, since=wall, failures=known.failures
        )
        if phase == AttemptStatus.COMMITTING:
            flight.commit_begun = now
        if before == AttemptStatus.PROCESSING:
            flight.processed, flight.definition = now, self._admission.metadata(attempt.txid)
            facts = self._known(flight)
            self.tell(ProcessedEvent(topology=self.status.topology, attempt=attempt, at=wall, **facts))

    def _close(self, attempt: TransactionAttempt, now: float, wall: float) -> None:
        flight = self._flights.pop(attempt.txid, None)
        if flight is None:
            return  # an earlier leader has committed it
        known = self._known(flight) | _Known(committing=now - flight.processed)
        self._committed += 1
        self._totals += Counts(known["rows"], known["counts"])
        self._untold[attempt.txid] = known
        topology, is_parked = self.status.topology, flight.is_parked
        self.tell(CommittedEvent(topology=topology, attempt=attempt, at=wall, is_parked=is_parked, **known))

    def _give_up(self, attempt: TransactionAttempt, wall: float) -> None:
        known, failed = self._known(self._flights.pop(attempt.txid)), self._failed.pop(attempt)
        self.tell(
            FailedEvent(
                topology=self.status.topology,
                attempt=attempt,
                at=wall,
                error=failed.cause,
                failed=failed.attempt,
                **known,
            )
        )

    def _known(self, flight: _Flight) -> _Known:
        counted = self.counted(flight.status.attempt)
        return _Known(
            rows=counted.rows,
            counts=counted.by_name,
            written=counted.written,
            processing=max(0.0, flight.processed - flight.emitted),
            waiting=max(0.0, flight.commit_begun - flight.processed),
            number=flight.status.number,
            definition=flight.definition,
        )

    # --- the status ---------------------------------------------------------------------------------------------------

    def _publish(self, now: float, wall: float, *, is_stopping: bool) -> None:
        machine, failures, times = self._admission.machine, self._admission.failures, self._admission.times
        current_txid = machine.current_txid
        self.status = evolve(
            self.status,
            at=wall,
            is_paused=machine.is_paused and not is_stopping,
            standing=machine.standing,
            parked=machine.parked.entries,
            parking=machine.parked.parking_txid,
            is_stopping=is_stopping,
            current_txid=current_txid,
            transactions=tuple(map(_STATUS, self._flights.values())),
            committed=self._committed,
            rows=self._totals.rows,
            counts=self._totals.by_name,
            lag=self.lag(),
            expiring=self.expiring(),
            resident_tasks=self.resident_tasks(),
            busy_tasks=self.busy_tasks(),
            sources=tuple(wait.status(spout) for spout, wait in failures.patience.waits.items()),
            failures={txid: each for txid, each in failures.retries.known.items() if txid >= current_txid},
            seconds_ahead=times.ahead / MILLIS,
            seconds_ahead_of_zookeeper=times.clock.ahead_of_zookeeper(now, wall) / MILLIS,
            late=self.late(),
            moved=self._moved,
            held_until=self._held_until(now, wall),
            unready=self._admission.definitions.inquiries.unready,
        )

    def _tell_of_residents(self, now: float, wall: float) -> None:
        numbers = self.status.resident_tasks
        if numbers != self._resident_numbers and now >= self._residents_due:
            self._resident_numbers, self._residents_due = numbers, now + RESIDENTS_SECONDS
            self.tell(ResidentTasksEvent(topology=self.status.topology, at=wall, numbers=numbers))

    def _held_until(self, now: float, wall: float) -> float | None:
        held_until = self._admission.failures.held_until(self._admission.machine.current_txid)
        is_held = not self._admission.machine.active and now < held_until < math.inf
        return wall + held_until - now if is_held else None
