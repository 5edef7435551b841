"""The driver: carries the machine's commands out, in order, and tells it what happened.

One thread runs it, one turn at a time. A turn takes the notices that have come in, lets the machine answer each and
then one tick, writes the record once if anything durable changed, and only then announces. Effects never call back:
whatever they lead to is posted and taken in a later turn. No user code runs here.

`CoordinatorDriver.turn` does no waiting and reads time as arguments, so a simulation can run it step by step: ``now``
by the monotonic clock, ``wall`` by that of the machine, in seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any

from attrs import define, evolve, field

from coordinators.admission import Admission
from coordinators.attempt import TransactionAttempt
from coordinators.canonical import canonical_json, content_hash
from coordinators.definitions import Definitions
from coordinators.errors import TridentError
from coordinators.failures import Failures
from coordinators.idleness import IdleWaiters
from coordinators.master import MasterBatchCoordinator
from coordinators.messages import (
    Acked,
    Broken,
    Defined,
    DefinitionFailed,
    DefinitionMessage,
    Failed,
    Fingerprinted,
    IdleWanted,
    Message,
    NotReady,
    OffsetsResolved,
    Reported,
    StopRequested,
    SuccessDelivered,
)
from coordinators.numbers import SpoutNumbers
from coordinators.owed import OwedSuccesses
from coordinators.patience import SourcePatience
from coordinators.phases import Phases
from coordinators.protocol import (
    AttemptFailed,
    CancelAttempt,
    Command,
    EmitBatch,
    EmitCommit,
    EmitSuccess,
    Event,
    Paused,
    StoreRecord,
    StreamId,
    Ticked,
)
from coordinators.publisher import Publisher
from coordinators.record import CommitIntent, CoordinatorRecord
from coordinators.retries import Retries
from coordinators.store import RecordStore
from coordinators.streams import BatchStreams
from coordinators.transaction_time import LeaderClock, TransactionTimes
from coordinators.wish_desk import Request, WishDesk
from coordinators.wishes import OUTCOMES_KEPT

log = logging.getLogger(__name__)


# large: where all parts of a leadership meet: one turn in one order; what each part decides is in a file of its own
@define(kw_only=True)
class CoordinatorDriver:
    """Runs one topology for the length of one leadership.

    Attributes:
        record: the durable state as this leadership has last written it.
        exact: those of ``spouts`` that define a transaction once and for all.
        clock: what this leadership takes for the time of day.
        group_max: how many transactions may commit in one step of every state.
        draw_edge: a random number from 1 to ``EDGE_MAX``.
        message_timeout: seconds of silence after which a phase fails.
        batch_interval: seconds between two new batches, at least.
        source_patience: seconds for which a source that is away is waited for; None: without end.
        idle_turn: seconds after which a turn is taken although nothing happened, so that leadership is proved in time.
        publisher: tells everybody else what happens, and where it is.
        wished: told by the store, on any thread, when an operator may have left a wish; leads to a `WishesChanged`.
    """

    topology: str
    store: RecordStore
    record: CoordinatorRecord
    streams: BatchStreams
    spouts: tuple[str, ...]
    exact: frozenset[str]
    clock: LeaderClock
    draw_edge: Callable[[], int]
    max_spout_pending: int
    message_timeout: float
    batch_interval: float = 0.0
    idle_turn: float = 1.0
    store_intents: bool = False
    group_max: int = 1
    retries: Retries = field(factory=Retries)
    source_patience: float | None = None
    publisher: Publisher = field(factory=Publisher)
    wished: Callable[[object], None] = lambda _: None
    machine: MasterBatchCoordinator = field(init=False)
    definitions: Definitions = field(init=False)
    times: TransactionTimes = field(init=False)
    failures: Failures = field(init=False)
    phases: Phases = field(init=False)
    stopping: bool = field(default=False, init=False)
    finished: bool = field(default=False, init=False)
    owed: OwedSuccesses = field(init=False)
    _wall: float = field(default=0.0, init=False)  # the time of day at the beginning of this turn
    _followups: list[Event] = field(factory=list, init=False)
    wishes: WishDesk = field(init=False)
    idle: IdleWaiters = field(factory=IdleWaiters, init=False)
    admission: Admission = field(init=False)

    def __attrs_post_init__(self) -> None:
        record = self.record
        self.machine = MasterBatchCoordinator(
            max_spout_pending=self.max_spout_pending,
            current_txid=record.current_txid,
            attempt_ids={txid: a for txid, a in record.attempt_ids.items() if txid >= record.current_txid},
            group_max=self.group_max,
            store_intents=self.store_intents,
            committing=tuple(pin.attempt for pin in record.committing),
            standing=record.standing,
        )
        self.wishes = WishDesk(self.topology, self.store, self.wished)
        self.phases = Phases(epoch=self.store.epoch, message_timeout=self.message_timeout)
        self.definitions = Definitions.restored(record, self.spouts, self.exact)
        self.times = TransactionTimes(self.clock, dict(record.times))
        patience = SourcePatience(self.source_patience, self.retries.backoff)
        self.failures = Failures(topology=self.topology, retries=self.retries, patience=patience)
        self.failures.restore({txid: each for txid, each in record.failures.items() if txid >= record.current_txid})
        self.admission = Admission(
            machine=self.machine,
            definitions=self.definitions,
            times=self.times,
            failures=self.failures,
            numbers=record.numbers,
            batch_interval=self.batch_interval,
        )
        owed = {txid: a for txid, a in record.attempt_ids.items() if txid < record.current_txid}
        self.owed = OwedSuccesses(owed, record.success_upto)
        self.publisher.follow(self.topology, self.store.epoch, self.admission)

    @property
    def numbers(self) -> SpoutNumbers:
        """By what number spouts know a transaction."""
        return self.admission.numbers

    def start(self, now: float, wall: float) -> None:
        """Deliver the successes that an earlier leader owed; the first turn comes next."""
        for warning in self.times.start(now, wall):
            log.warning("topology %s: %s", self.topology, warning)
        self.phases.rotate_at(now)
        self._wall = wall
        self.publisher.leads(wall)
        for attempt in self.owed.attempts:
            self._announce(EmitSuccess(attempt))

    # --- one turn -----------------------------------------------------------------------------------------------------

    def turn(self, messages: Iterable[Message], now: float, wall: float) -> None:
        """Take ``messages``, then tick once; carry out what follows. Any exception ends this leadership."""
        self._wall = wall
        events, self._followups = self._followups, []
        commands = [command for event in events for command in self._handle(event, now)]
        for message in messages:
            for event in self._take(message, now):
                commands += self._handle(event, now)
        for wished in self.wishes.take():
            commands += self._handle(wished, now)
        commands += self._handle(Ticked(self.admission.ready(now, self.streams.next_window_at())), now)
        self._carry_out(commands, now)
        self._expire_silent(now)
        for spout, ask in self.admission.asks(now):
            self.streams.ask(spout, ask)
        self._answer_idle()
        self._end_if_given_up()
        self.store.heartbeat()

    def next_turn_at(self, now: float) -> float:
        """Return the latest moment for the next turn, should no notice come before."""
        if self._followups or self.wishes.is_due:
            return now
        moments = self.admission.moments()
        return max(now, min([now + self.idle_turn, self.phases.next_rotation_at, *moments]))

    def _handle(self, event: Event, now: float) -> list[Command]:
        commands = self.machine.handle(event)
        self.publisher.handled(event, commands, now, self._wall)
        return commands

    def _take(self, message: Message, now: float) -> Iterable[Event]:
        match message:
            case Acked():
                return self.phases.take(message)
            case Failed():
                return self._failed(message, now)
            case Defined() | NotReady() | DefinitionFailed() | OffsetsResolved() | Fingerprinted():
                self._take_definition(message, now)
            case SuccessDelivered(txid):
                self._delivered(txid)
            case Reported():
                return self._take_reports(now)
            case Broken(cause):
                raise cause
            case IdleWanted():
                self.idle.add(message, self.definitions.inquiries.asked)
                self.definitions.inquiries.ask_now()
            case _:
                return self._take_request(message)
        return ()

    def _take_reports(self, now: float) -> Iterator[Event]:
        # One by one: what a message means depends on what the machine has made of the one before.
        for message in self.streams.take():
            yield from self._take(message, now)

    def _take_request(self, request: Request | StopRequested) -> Iterable[Event]:
        if not isinstance(request, StopRequested):
            return self.wishes.hear(request, is_stopping=self.stopping)
        self.stopping = True
        self.finished = self.finished or not request.drain
        return (Paused(),)

    def _carry_out(self, commands: list[Command], now: float) -> None:
        stores = [command for command in commands if isinstance(command, StoreRecord)]
        for command in commands:
            if isinstance(command, EmitBatch):
                self._admit(command.attempt, now)
            elif isinstance(command, EmitSuccess):
                self.owed.owe(command.attempt)
        if stores or self._only_success_is_new() or self.failures.waits_are_news(self.record):
            # All of a turn travels in one write, ahead of every announcement: none can come before what it rests on.
            self._write(*stores)
        announced = [each for each in commands if not isinstance(each, StoreRecord)]
        self.publisher.announced(announced, now, self._wall, is_stopping=self.stopping)
        for kind, alike in groupby(announced, type):
            self._announce_all(kind, list(alike))

    def _admit(self, attempt: TransactionAttempt, now: float) -> None:
        self.admission.admit(attempt.txid, now, self._wall)

    def _announce_all(self, kind: type[Command], commands: list[Any]) -> None:
        if kind is EmitCommit:
            self.streams.emit_commit({each.attempt: self._open(each.attempt, StreamId.COMMIT) for each in commands})
            for each in commands:
                self.failures.read(each.attempt.txid)
        for command in commands:
            self._announce(command)

    def _announce(self, command: Command) -> None:
        match command:
            case EmitBatch(attempt):
                edges = self._open(attempt, StreamId.BATCH)
                number, metadata = self.numbers.of(attempt.txid), self.admission.metadata(attempt.txid)
                self.streams.emit_batch(attempt, number, metadata, self.times.known[attempt.txid], edges)
            case EmitSuccess(attempt):
                self.failures.forget(attempt.txid)
                self.streams.emit_success(attempt, self.numbers.of(attempt.txid))
            case CancelAttempt(attempt):
                self.phases.forget(attempt)
                self.definitions.go_back(self.admission.first_number(attempt.txid))
                self.streams.cancel(attempt)

    def _open(self, attempt: TransactionAttempt, stream: StreamId) -> list[int]:
        edges = [self.draw_edge() for _ in range(self.streams.consumers(stream))]
        self._followups.extend(self.phases.open(attempt, stream, edges))
        return edges

    # --- failures -----------------------------------------------------------------------------------------------------

    def _failed(self, failed: Failed, now: float) -> Iterable[Event]:
        if not self.machine.is_live(failed.attempt):
            log.debug("topology %s: attempt %s is not live, its failure changes nothing", self.topology, failed.attempt)
            return ()
        self.failures.attempt_failed(failed, now, self._wall)
        self.publisher.failed(failed)
        return (AttemptFailed(failed.attempt),)

    def _expire_silent(self, now: float) -> None:
        if now < self.phases.next_rotation_at:
            return
        self.phases.rotate_at(now)
        for failed in self.phases.silent(self.streams.alive()):
            self._followups.extend(self._failed(failed, now))

    def _end_if_given_up(self) -> None:
        verdict = self.failures.verdict(self.machine.current_txid)
        if verdict is None:
            return
        try:
            self._write()  # what has failed, for whoever asks afterwards
        except TridentError as error:
            log.warning("topology %s: why it ends could not be stored: %s", self.topology, error)
        raise verdict

    # --- definitions --------------------------------------------------------------------------------------------------

    def _take_definition(self, message: DefinitionMessage, now: float) -> None:
        match message:
            case OffsetsResolved(attempt) | Fingerprinted(attempt):
                number = self.numbers.of(attempt.txid)
                if self.machine.is_live(attempt) and number is not None:
                    self.definitions.take_emission(self.topology, number, message)
            case Defined(spout):
                self.failures.answered(spout, now)
                self.definitions.take_defined(message)
            case NotReady(spout):
                self.failures.answered(spout, now)
                self.definitions.take_not_ready(message, now)
            case DefinitionFailed(txid=number):
                failed = evolve(message, txid=self.numbers.txid(number))
                self.definitions.take_failure(message, self.failures.definition_failed(failed, now, self._wall))

    # --- what is durable ----------------------------------------------------------------------------------------------

    def _write(self, *stores: StoreRecord) -> None:
        stored = stores[-1] if stores else None
        outcomes = [outcome for each in stores for outcome in each.outcomes]
        current = self.record.current_txid if stored is None else stored.current_txid
        number = self.admission.first_number(current)
        self.definitions.close_before(number)
        self.definitions.forget_before(number - 1)
        self.admission.numbers = self.numbers.kept_from(min(self.owed.upto + 1, current - 1))
        live = self.machine.attempt_ids if stored is None else stored.attempt_ids
        committing = self.machine.committing if stored is None else stored.committing
        record = evolve(
            self.record,
            epoch=self.store.epoch,
            seq=self.record.seq + 1,
            current_txid=current,
            attempt_ids={**self.owed.durable, **live},
            metadata=self.definitions.stored_metadata,
            committing=tuple(self._pin(attempt) for attempt in committing),
            cursors=dict(self.definitions.cursors),
            success_upto=self.owed.upto,
            fingerprints=self.definitions.stored_fingerprints,
            failures=self.failures.durable(current),
            times=self.times.from_txid(current - 1),
            numbers=self.numbers,
            standing=self.machine.standing if stored is None else stored.standing,
            outcomes=(*self.record.outcomes, *outcomes)[-OUTCOMES_KEPT:],
        )
        self.store.write(record)
        self.record = record

    def _pin(self, attempt: TransactionAttempt) -> CommitIntent:
        earlier = next((pin for pin in self.record.committing if pin.attempt == attempt), None)
        return earlier or CommitIntent(attempt, content_hash(canonical_json(self.admission.metadata(attempt.txid))))

    def _delivered(self, txid: int) -> None:
        if attempt := self.owed.deliver(txid, self.record.current_txid - 1):
            self.publisher.succeeded(attempt, self._wall)

    def _only_success_is_new(self) -> bool:
        # It rides on the next write; it gets one of its own only when none is in sight.
        return not self.machine.active and not self.owed.attempt_ids and self.record.success_upto < self.owed.upto

    # --- idleness and the end -----------------------------------------------------------------------------------------

    def _answer_idle(self) -> None:
        quiet = not (self.machine.active or self.owed.attempt_ids or self._followups)
        if self.stopping and quiet:
            self.finished = True
        if not self.stopping and (refusal := self.wishes.refusal(self.machine)):
            self.idle.refuse(refusal)
        if quiet and self.record.success_upto >= self.owed.upto:
            is_at_frontier = self.numbers.txid(self.definitions.frontier) == self.machine.current_txid
            self.idle.answer(lambda asked: is_at_frontier and self.definitions.refused_since(asked))

    def end(self, error: BaseException | None, unread: Iterable[Message]) -> None:
        """Cancel what is live, and store what was delivered. Who waits for idleness waits on."""
        for entry in list(self.machine.active.values()):
            self.streams.cancel(entry.attempt)
        self.finished = True
        for message in (*unread, *self.streams.take()):
            if isinstance(message, IdleWanted):
                self.idle.add(message, 0)
            elif isinstance(message, SuccessDelivered):
                self._delivered(message.txid)
        if error is None and self.record.success_upto < self.owed.upto:
            self._write()
