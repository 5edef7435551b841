"""The driver: carries out the machine's commands in order, and passes the events to it.

One thread runs it, one turn at a time. A turn:

1. takes the messages that have arrived, and lets the machine handle each, and then one tick;
2. writes the record once, if anything durable changed;
3. makes the announcements.

Effects never call back: their results are posted, and handled in a later turn. No user code runs here.

`CoordinatorDriver.turn` never waits and takes the time as arguments. So a simulation can run it step by step.
``now`` is by the monotonic clock, ``wall`` is the machine's time of day, both in seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, Self

from attrs import define, evolve, field

from coordinators.batches.admission import Admission
from coordinators.batches.bad_rows import BadRowsOfAttempts
from coordinators.batches.definitions import Definitions, check_same
from coordinators.batches.failures import Failures
from coordinators.batches.parking_rules import ParkingRules
from coordinators.driver.batch_streams import Batch, BatchStreams
from coordinators.driver.bisect_desk import BisectDesk
from coordinators.driver.letters_desk import LettersDesk
from coordinators.driver.parking_desk import ParkingDesk
from coordinators.driver.publisher import Publisher
from coordinators.driver.record_writer import OwedSuccesses, RecordWriter
from coordinators.driver.trials import Trials
from coordinators.driver.wish_desk import Request, WishDesk
from coordinators.protocol.acker import Phases
from coordinators.protocol.master import MasterBatchCoordinator
from coordinators.protocol.messages import (
    Acked,
    BadRowsFound,
    Broken,
    Defined,
    DefinitionFailed,
    DefinitionMessage,
    Failed,
    Fingerprinted,
    IdleWanted,
    LettersRead,
    Message,
    NotReady,
    OffsetsResolved,
    OutputsAnswered,
    Reported,
    RowsFailed,
    RowsStored,
    StopRequested,
    SuccessDelivered,
    TrialPassed,
)
from coordinators.protocol.protocol import (
    AskOutputs,
    AttemptFailed,
    CancelAttempt,
    Command,
    EmitBatch,
    EmitCommit,
    EmitSuccess,
    Event,
    PhaseAcked,
    Stopping,
    StoreRecord,
    StreamId,
    Ticked,
)
from coordinators.record.record import Bindings, CoordinatorRecord
from coordinators.record.store import RecordStore
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.errors import SpoutError, TopologyError, TridentError
from coordinators.values.log_fields import logging_about
from coordinators.values.settings import LeadershipSettings
from coordinators.values.transaction_time import LeaderClock, TransactionTimes

log = logging.getLogger(__name__)


@define
class IdleWaiters:
    """The callers that wait until the topology is idle, each with the number of asks at its arrival."""

    _waiting: list[tuple[int, IdleWanted]] = field(factory=list, init=False)

    def add(self, wanted: IdleWanted, asked: int) -> None:
        """Add a waiter, to be answered by a check that begins after ask number ``asked``."""
        self._waiting.append((asked, wanted))

    def answer(self, is_idle_since: Callable[[int], bool]) -> None:
        """Notify every waiter for which ``is_idle_since`` is true.

        ``is_idle_since(n)`` is true if no spout had input when it was asked after ask number ``n``.
        """
        for asked, wanted in self._waiting[:]:
            if is_idle_since(asked):
                self._waiting.remove((asked, wanted))
                wanted.done(None)

    def refuse(self, error: BaseException) -> None:
        """Fail all waiters with ``error``."""
        for _, wanted in self._waiting:
            wanted.done(error)
        self._waiting.clear()


# large: all parts of a leadership meet here: one turn in one order; the decisions of each part are in its own file
@define(kw_only=True)
class CoordinatorDriver:
    """Runs one topology for the length of one leadership; create it with `leading`.

    Attributes:
        streams: the data plane, which carries out the announcements.
        draw_edge: returns a random number from 1 to ``EDGE_MAX``.
        stored_spouts: as in `LeadershipSettings`.
        idle_turn: seconds after which a turn is taken even if no message arrives.
        publisher: publishes events and the status.
        stopping: whether the process was asked to stop.
        finished: whether no further turn is to be taken.
    """

    topology: str
    store: RecordStore
    streams: BatchStreams
    draw_edge: Callable[[], int]
    idle_turn: float
    publisher: Publisher
    phases: Phases
    admission: Admission
    owed: OwedSuccesses
    writer: RecordWriter
    wishes: WishDesk
    parking: ParkingDesk
    stored_spouts: frozenset[str]
    bisecting: BisectDesk = field(init=False)
    letters: LettersDesk = field(init=False)
    trials: Trials = field(init=False)
    machine: MasterBatchCoordinator = field(init=False)  # this and the next three belong to the admission
    definitions: Definitions = field(init=False)
    times: TransactionTimes = field(init=False)
    failures: Failures = field(init=False)
    idle: IdleWaiters = field(factory=IdleWaiters, init=False)
    stopping: bool = field(default=False, init=False)
    finished: bool = field(default=False, init=False)
    _wall: float = field(default=0.0, init=False)  # the time of day at the beginning of this turn
    _followups: list[Event] = field(factory=list, init=False)

    @classmethod
    def leading(
        cls,
        *,
        topology: str,
        store: RecordStore,
        record: CoordinatorRecord,
        streams: BatchStreams,
        spouts: tuple[str, ...],
        exact: frozenset[str],
        clock: LeaderClock,
        draw_edge: Callable[[], int],
        settings: LeadershipSettings,
        publisher: Publisher | None = None,
        wished: Callable[[object], None] = lambda _: None,
    ) -> Self:
        """Create the driver of a leadership that continues from ``record``; call `start` next.

        The ``spouts`` define transactions; a definition by an ``exact`` one is final. The store calls ``wished``, on
        any thread, when an operator may have stored a wish. By default, ``publisher`` has no listeners.
        """
        admission = _admission(topology, record, settings, Definitions.restored(record, spouts, exact), clock)
        owed = OwedSuccesses.restored(record)
        wishes = WishDesk(topology, store, wished)
        publisher = publisher or Publisher()
        publisher.follow(topology, store, admission)
        return cls(
            topology=topology,
            store=store,
            streams=streams,
            draw_edge=draw_edge,
            idle_turn=settings.idle_turn,
            publisher=publisher,
            phases=Phases(epoch=store.epoch, message_timeout=settings.message_timeout),
            admission=admission,
            owed=owed,
            writer=RecordWriter(store, record, admission, owed),
            wishes=wishes,
            parking=ParkingDesk(wishes, ParkingRules(admission, settings, store.identity.incarnation)),
            stored_spouts=settings.stored_spouts,
        )

    def __attrs_post_init__(self) -> None:
        self.machine, self.definitions = self.admission.machine, self.admission.definitions
        self.times, self.failures = self.admission.times, self.admission.failures
        self.bisecting = BisectDesk(self.wishes, self.parking.rules)
        self.letters = LettersDesk(self.wishes, self.parking.rules)
        self.trials = Trials(self.streams, self.phases, self.bisecting, self._open)

    @property
    def record(self) -> CoordinatorRecord:
        """The durable state, as this leadership has last written it."""
        return self.writer.record

    @property
    def bindings(self) -> Bindings:
        """The binding of each transaction."""
        return self.admission.bindings

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
        """Handle ``messages``, then tick once; carry out the resulting commands. Any exception ends this leadership."""
        self._wall = wall
        events, self._followups = self._followups, []
        commands = [command for event in events for command in self._handle(event, now)]
        for message in messages:
            for event in self._take(message, now):
                commands += self._handle(event, now)
        if self.wishes.is_due or self.wishes.waiting or self.machine.storing:
            for event in self._decided():
                commands += self._handle(event, now)
        commands += self._handle(Ticked(self.admission.ready(now, self.streams.next_window_at())), now)
        self._carry_out(commands, now)
        self._expire_silent(now)
        for spout, ask in self.admission.asks(now):
            self.streams.ask(spout, ask)
        if self.wishes.waiting and not self.stopping:
            self.trials.start(self.times.at(now))
            if (wish := self.letters.due()) is not None:
                self.streams.read_letters(wish)
        self._answer_idle()
        self._end_if_given_up()
        self.store.heartbeat()

    def next_turn_at(self, now: float) -> float:
        """Return the latest moment for the next turn if no message arrives before."""
        if self._followups or self.wishes.is_due:
            return now
        moments = self.admission.moments()
        return max(now, min([now + self.idle_turn, self.phases.next_rotation_at, *moments]))

    def _decided(self) -> Iterator[Event]:
        yield from self.parking.events()
        if self.wishes.waiting:
            yield from self.bisecting.events()
            yield from self.letters.events()

    def _handle(self, event: Event, now: float) -> list[Command]:
        if isinstance(event, PhaseAcked) and event.attempt.is_trial:
            self.trials.processed(event.attempt)
            return []
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
                return self._take_definition(message, now)
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
        # One by one: the meaning of a message depends on the machine's state after the message before it.
        for message in self.streams.take():
            yield from self._take(message, now)

    def _take_request(
        self,
        message: Request
        | StopRequested
        | LettersRead
        | OutputsAnswered
        | RowsFailed
        | RowsStored
        | BadRowsFound
        | TrialPassed,
    ) -> Iterable[Event]:
        match message:
            case OutputsAnswered():
                return self.parking.answered(message, self._wall)
            case LettersRead():
                return self.letters.read(message, self._wall)
            case TrialPassed() | RowsFailed() | RowsStored(attempt=TransactionAttempt(is_trial=True)):
                self.trials.take(message)
                return ()
            case RowsStored(attempt) | BadRowsFound(attempt):
                if self.machine.is_live(attempt):
                    self._take_rows(message)
                return ()
            case StopRequested(drain):
                self.stopping = True
                self.finished = self.finished or not drain
                return (Stopping(),)
            case _:
                return self.wishes.hear(message, is_stopping=self.stopping)

    def _take_rows(self, message: RowsStored | BadRowsFound) -> None:
        if isinstance(message, RowsStored):
            self.parking.take_stored(message)
        else:
            self.admission.bad_rows.take(message)

    def _carry_out(self, commands: list[Command], now: float) -> None:
        stores = [command for command in commands if isinstance(command, StoreRecord)]
        for command in commands:
            if isinstance(command, EmitBatch):
                self._admit(command.attempt, now)
            elif isinstance(command, EmitSuccess):
                self.owed.owe(command.attempt)
        if stores or self.writer.is_due:
            # One write stores all changes of a turn before any announcement: none is made before its basis is durable.
            self.writer.write(*stores)
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
                self._emit_batch(attempt)
            case EmitSuccess(attempt):
                self.failures.forget(attempt.txid)
                self.streams.emit_success(attempt, self.bindings.number(attempt.txid))
            case CancelAttempt(attempt):
                self.phases.forget(attempt)
                self.admission.define_again(attempt.txid)
                self.streams.cancel(attempt)
            case AskOutputs(txid):
                pinned = any(intent.txid == txid for intent in self.machine.committing)
                may_have_begun = pinned or not self.machine.store_intents
                self.streams.ask_outputs(self._next_attempt(txid), may_have_begun=may_have_begun)

    def _emit_batch(self, attempt: TransactionAttempt) -> None:
        txid, parked = attempt.txid, self.machine.parked
        time, edges = self.times.known[txid], self._open(attempt, StreamId.BATCH)
        if (parking := parked.parking) is not None and parking.txid == txid:
            commits, parks = None if parked.released_in(txid) else parking.entry.number, parking.first_attempt_id
            self.streams.emit_batch(
                Batch(attempt=attempt, number=None, metadata={}, time=time, edges=edges, commits=commits, parks=parks)
            )
            return
        metadata, number = self.admission.metadata(txid), self.bindings.number(txid)
        bad_rows, has_failed = self.admission.bad_rows, self.failures.retries.has_failed(txid)
        stores = self.machine.storing == txid
        released = None if stores else parked.released_in(txid)
        if stores:
            metadata = {spout: each for spout, each in metadata.items() if spout in self.stored_spouts}
        elif released is not None and (why := self.parking.rules.unreleasable(released)):
            raise TopologyError(f"topology {self.topology!r}: transaction {txid} is a release: {why}", txid=txid)
        self.streams.emit_batch(
            Batch(
                attempt=attempt,
                number=released.number if released else number,
                metadata=metadata,
                time=time,
                edges=edges,
                commits=number,
                parks=attempt.attempt_id if stores else None,
                stores=stores,
                stored=released.stored if released else {},
                letters_of=released.letters_of if released else "",
                bad_rows=bad_rows.fixed(txid, self.machine.committing),
                sifts=bad_rows.are_looked_for(txid, has_failed=has_failed),
            )
        )

    def _next_attempt(self, txid: int) -> TransactionAttempt:
        return TransactionAttempt(txid, self.machine.attempt_ids[txid] + 1)

    def _open(self, attempt: TransactionAttempt, stream: StreamId) -> list[int]:
        edges = [self.draw_edge() for _ in range(self.streams.consumers(stream))]
        self._followups.extend(self.phases.open(attempt, stream, edges))
        return edges

    # --- failures -----------------------------------------------------------------------------------------------------

    def _failed(self, failed: Failed, now: float) -> Iterable[Event]:
        if failed.attempt.is_trial:
            self.trials.take(failed)
            return ()
        if not self.machine.is_live(failed.attempt):
            with logging_about(attempt=failed.attempt):
                log.debug(
                    "topology %s: attempt %s isn't live, its failure changes nothing", self.topology, failed.attempt
                )
            return ()
        with logging_about(attempt=failed.attempt):
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
        if verdict is None or self.parking.deciding:
            return
        if not self.stopping and (parks := self.parking.poisoned(verdict)):
            self._followups.append(parks)
            return
        try:
            self.writer.write()  # stores the failures for later readers
        except TridentError as error:
            log.warning("topology %s: the reason for its end could not be stored: %s", self.topology, error)
        raise verdict

    # --- definitions --------------------------------------------------------------------------------------------------

    def _take_definition(self, message: DefinitionMessage, now: float) -> Iterable[Event]:
        match message:
            case OffsetsResolved(attempt) | Fingerprinted(attempt) if self.machine.is_live(attempt):
                return self._take_emission(message, now)
            case OffsetsResolved(attempt) | Fingerprinted(attempt):
                if attempt.is_trial:
                    self.trials.take(message)
            case Defined(spout):
                self.failures.answered(spout, now)
                self.definitions.take_defined(message)
            case NotReady(spout):
                self.failures.answered(spout, now)
                self.definitions.take_not_ready(message, now)
            case DefinitionFailed(txid=number):
                failed = evolve(message, txid=self.bindings.txid(number))
                with logging_about(txid=failed.txid):
                    again = self.failures.definition_failed(failed, now, self._wall)
                self.definitions.take_failure(message, again)
        return ()

    def _take_emission(self, message: OffsetsResolved | Fingerprinted, now: float) -> Iterable[Event]:
        released = self.machine.parked.released_in(message.attempt.txid)
        number = self.bindings.number(message.attempt.txid)
        if number is not None:
            self.definitions.take_emission(self.topology, number, message)
        elif released is not None and isinstance(message, Fingerprinted):
            try:
                check_same(self.topology, message, released.fingerprints.get(message.spout, message.fingerprint))
            except SpoutError as error:
                self.failures.other_rows(message.attempt, error)
                return self._failed(Failed(message.attempt, error), now)
        return ()

    def _delivered(self, txid: int) -> None:
        if attempt := self.owed.deliver(txid, self.record.current_txid - 1):
            self.publisher.succeeded(attempt, self._wall)

    # --- idleness and the end -----------------------------------------------------------------------------------------

    def _answer_idle(self) -> None:
        machine = self.machine
        is_deciding = machine.asked or (machine.storing and not self.stopping)
        quiet = not (machine.active or self.owed.attempt_ids or self._followups or is_deciding)
        if self.stopping and quiet:
            self.finished = True
        is_held = not (self.stopping or self.machine.takes_new)
        if is_held and (refusal := self.wishes.refusal(self.machine)):
            self.idle.refuse(refusal)
        if quiet and not self.writer.has_new_success and self.machine.parked.waiting is None:
            is_at_frontier = self.bindings.txid(self.definitions.frontier) == self.machine.current_txid
            self.idle.answer(lambda asked: is_at_frontier and self.definitions.refused_since(asked))

    def end(self, error: BaseException | None, unread: Iterable[Message]) -> None:
        """Cancel the live attempts, and store the delivered successes. Waiters for idleness continue to wait."""
        for entry in list(self.machine.active.values()):
            self.streams.cancel(entry.attempt)
        self.finished = True
        for message in (*unread, *self.streams.take()):
            if isinstance(message, IdleWanted):
                self.idle.add(message, 0)
            elif isinstance(message, SuccessDelivered):
                self._delivered(message.txid)
        if error is None and self.writer.has_new_success:
            self.writer.write()


def _admission(
    topology: str,
    record: CoordinatorRecord,
    settings: LeadershipSettings,
    definitions: Definitions,
    clock: LeaderClock,
) -> Admission:
    return Admission(
        machine=_machine(record, settings),
        definitions=definitions,
        times=TransactionTimes(clock, dict(record.times)),
        failures=Failures.restored(topology, record, settings),
        bindings=record.bindings,
        bad_rows=BadRowsOfAttempts.restored(record),
        batch_interval=settings.batch_interval,
    )


def _machine(record: CoordinatorRecord, settings: LeadershipSettings) -> MasterBatchCoordinator:
    return MasterBatchCoordinator(
        max_spout_pending=settings.max_spout_pending,
        current_txid=record.current_txid,
        attempt_ids={txid: a for txid, a in record.attempt_ids.items() if txid >= record.current_txid},
        group_max=settings.group_max,
        store_intents=settings.store_intents,
        committing=tuple(intent.attempt for intent in record.committing),
        standing=record.standing,
        parked=record.parked,
    )
