"""The driver: carries the machine's commands out, in order, and tells it what happened.

One thread runs it, one turn at a time. A turn takes the notices that have come in, lets the machine answer each and
then one tick, writes the record once if anything durable changed, and only then announces. Effects never call back:
whatever they lead to is posted and taken in a later turn. No user code runs here.

`CoordinatorDriver.turn` does no waiting and reads time as arguments, so a simulation can run it step by step: ``now``
by the monotonic clock, ``wall`` by that of the machine, in seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

from attrs import define, evolve, field

from coordinators.acker import Acker, Completed
from coordinators.attempt import TransactionAttempt
from coordinators.canonical import canonical_json, content_hash
from coordinators.definitions import Definitions
from coordinators.errors import PoisonBatchError, SpoutError, TridentError
from coordinators.idleness import IdleWaiters
from coordinators.master import MasterBatchCoordinator
from coordinators.notices import (
    Acked,
    Broken,
    Defined,
    DefinitionFailed,
    DefinitionNotice,
    ExtentsLearned,
    Failed,
    FailureKind,
    Fingerprinted,
    IdleWanted,
    Notice,
    NotReady,
    PauseRequested,
    ResumeRequested,
    StopRequested,
    SuccessDelivered,
)
from coordinators.protocol import (
    AttemptFailed,
    CancelAttempt,
    Command,
    EmitBatch,
    EmitCommit,
    EmitSuccess,
    Event,
    Paused,
    PhaseAcked,
    Resumed,
    StoreRecord,
    StreamId,
    Ticked,
)
from coordinators.record import CommitPin, CoordinatorRecord
from coordinators.retries import Retries
from coordinators.store import RecordStore
from coordinators.streams import BatchStreams
from coordinators.transaction_time import LeaderClock, TransactionTimes

log = logging.getLogger(__name__)


@define(kw_only=True)
class CoordinatorDriver:
    """Runs one topology for the length of one leadership.

    Attributes:
        record: the durable state as this leadership has last written it.
        exact: those of ``spouts`` that define a transaction once and for all.
        clock: what this leadership takes for the time of day.
        run_max: how many transactions may commit in one step of every state.
        draw_edge: a random number from 1 to ``EDGE_MAX``.
        message_timeout: seconds of silence after which a phase fails.
        batch_interval: seconds between two new batches, at least.
        idle_turn: seconds after which a turn is taken although nothing happened, so that leadership is proved in time.
        observe: called with every command after it was carried out; must be quick.
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
    pin_commits: bool = False
    run_max: int = 1
    retries: Retries = field(factory=Retries)
    observe: Callable[[Command], None] = lambda _: None
    machine: MasterBatchCoordinator = field(init=False)
    definitions: Definitions = field(init=False)
    times: TransactionTimes = field(init=False)
    acker: Acker = field(factory=Acker, init=False)
    stopping: bool = field(default=False, init=False)
    finished: bool = field(default=False, init=False)
    _owed: dict[int, int] = field(init=False)  # attempt id by txid: committed, success not delivered
    _success_upto: int = field(init=False)
    _followups: list[Event] = field(factory=list, init=False)
    _idle: IdleWaiters = field(factory=IdleWaiters, init=False)
    _next_batch_at: float = field(default=0.0, init=False)
    _next_rotation_at: float = field(default=0.0, init=False)

    def __attrs_post_init__(self) -> None:
        """Take up where the record is."""
        record = self.record
        self.machine = MasterBatchCoordinator(
            max_spout_pending=self.max_spout_pending,
            current_txid=record.current_txid,
            attempt_ids={txid: a for txid, a in record.attempt_ids.items() if txid >= record.current_txid},
            run_max=self.run_max,
            pin_commits=self.pin_commits,
            committing=tuple(pin.attempt for pin in record.committing),
        )
        self.definitions = Definitions.restored(record, self.spouts, self.exact)
        self.times = TransactionTimes(self.clock, dict(record.times))
        self._owed = {txid: a for txid, a in record.attempt_ids.items() if txid < record.current_txid}
        self._success_upto = record.success_upto

    def start(self, now: float, wall: float) -> None:
        """Deliver the successes that an earlier leader owed; the first turn comes next."""
        self.times.start(now, wall)
        self._next_rotation_at = now + self.message_timeout / 2
        for txid, attempt_id in sorted(self._owed.items()):
            self._announce_all(EmitSuccess, [EmitSuccess(TransactionAttempt(txid, attempt_id))])

    # --- one turn -----------------------------------------------------------------------------------------------------

    def turn(self, notices: Iterable[Notice], now: float, wall: float) -> None:
        """Take ``notices``, then tick once; carry out what follows. Any exception ends this leadership."""
        events, self._followups = self._followups, []
        commands = [command for event in events for command in self.machine.handle(event)]
        for notice in notices:
            for event in self._take(notice, now):
                commands += self.machine.handle(event)
        commands += self.machine.handle(
            Ticked(self.definitions.startable(now, self._held_until, one_new=self.batch_interval > 0))
        )
        self._carry_out(commands, now, wall)
        self._expire_silent(now)
        self._ask(now)
        self._settle()
        self.store.heartbeat()

    def next_turn_at(self, now: float) -> float:
        """The latest moment for the next turn, should no notice come before."""
        if self._followups:
            return now
        moments = [now + self.idle_turn, self._next_rotation_at]
        if not self.machine.paused:
            first_idle = self.machine.current_txid + len(self.machine.active)
            if first_idle in self.machine.window and first_idle in self.definitions.defined:
                moments.append(self._held_until(first_idle))
            ask_at = self.definitions.next_ask_at()
            if ask_at is not None and self._may_define(self.definitions.frontier):
                moments.append(max(ask_at, self._held_until(self.definitions.frontier)))
        return max(now, min(moments))

    def _take(self, notice: Notice, now: float) -> Iterable[Event]:
        match notice:
            case Acked(attempt, stream, took, made, reporter):
                root = self._root(attempt, stream)
                return self._completed(self.acker.ack(root, took, made, reporter=reporter or took))
            case Failed(attempt, cause, kind):
                return self._failed(attempt, cause, kind, now)
            case Defined() | NotReady() | DefinitionFailed() | ExtentsLearned() | Fingerprinted():
                self._take_definition(notice, now)
            case SuccessDelivered(txid):
                self._delivered(txid)
            case Broken(cause):
                raise cause
            case IdleWanted():
                self._idle.add(notice, self.definitions.asked)
                self.definitions.ask_now()
            case _:
                return self._take_request(notice)
        return ()

    def _take_request(self, request: PauseRequested | ResumeRequested | StopRequested) -> Iterable[Event]:
        match request:
            case PauseRequested():
                return (Paused(),)
            case ResumeRequested():
                return () if self.stopping else (Resumed(),)
            case StopRequested(drain):
                self.stopping = True
                self.finished = self.finished or not drain
                return (Paused(),)

    def _carry_out(self, commands: list[Command], now: float, wall: float) -> None:
        stores = [command for command in commands if isinstance(command, StoreRecord)]
        for command in commands:
            if isinstance(command, EmitBatch):
                self._admit(command.attempt, now, wall)
            elif isinstance(command, EmitSuccess):
                self._owed[command.attempt.txid] = command.attempt.attempt_id
        if stores or self._only_success_is_new():
            # All of a turn travels in one write, ahead of every announcement: none can come before what it rests on.
            self._write(stores[-1] if stores else None)
        for kind, announced in groupby((each for each in commands if not isinstance(each, StoreRecord)), type):
            self._announce_all(kind, list(announced))

    def _admit(self, attempt: TransactionAttempt, now: float, wall: float) -> None:
        is_held = self.times.is_fixed_from(self.machine.current_txid) or self.streams.holds_rows()
        self.times.fix(attempt.txid, now, wall, is_held=is_held)
        if attempt.txid > self.definitions.moved_upto:
            self._next_batch_at = now + self.batch_interval
        self.definitions.admit(attempt.txid)

    def _announce_all(self, kind: type[Command], commands: list[Any]) -> None:
        if kind is EmitCommit:
            self.streams.emit_commit({each.attempt: self._open(each.attempt, StreamId.COMMIT) for each in commands})
        for command in commands:
            self._announce(command)
            self.observe(command)

    def _announce(self, command: Command) -> None:
        match command:
            case EmitBatch(attempt):
                edges = self._open(attempt, StreamId.BATCH)
                txid = attempt.txid
                self.streams.emit_batch(attempt, self.definitions.known[txid], self.times.known[txid], edges)
            case EmitSuccess(attempt):
                self.retries.forget(attempt.txid)
                self.streams.emit_success(attempt)
            case CancelAttempt(attempt):
                for stream in (StreamId.BATCH, StreamId.COMMIT):
                    self.acker.forget(self._root(attempt, stream))
                self.definitions.go_back(attempt.txid)
                self.streams.cancel(attempt)

    # --- the acker ----------------------------------------------------------------------------------------------------

    def _root(self, attempt: TransactionAttempt, stream: StreamId) -> tuple[int, TransactionAttempt, StreamId]:
        return (self.store.epoch, attempt, stream)

    def _open(self, attempt: TransactionAttempt, stream: StreamId) -> list[int]:
        edges = [self.draw_edge() for _ in range(self.streams.consumers(stream))]
        self._followups.extend(self._completed(self.acker.init(self._root(attempt, stream), edges)))
        return edges

    def _completed(self, outcome: object) -> Iterable[Event]:
        return (PhaseAcked(*self._phase(outcome.root)),) if isinstance(outcome, Completed) else ()

    def _phase(self, root: Any) -> tuple[TransactionAttempt, StreamId]:
        _, attempt, stream = root  # ours, see _root
        return attempt, stream

    def _expire_silent(self, now: float) -> None:
        if now < self._next_rotation_at:
            return
        self._next_rotation_at = now + self.message_timeout / 2
        for attempt, stream in self.streams.alive():
            self.acker.reset_timeout(self._root(attempt, stream))
        for expired in self.acker.rotate():
            attempt, stream = self._phase(expired.root)
            silence = f"{stream} was silent for {self.message_timeout:g} s with {expired.outstanding} reports missing"
            self._followups.extend(self._failed(attempt, TimeoutError(silence), FailureKind.INTERRUPTED, now))

    # --- failures -----------------------------------------------------------------------------------------------------

    def _failed(
        self, attempt: TransactionAttempt, cause: BaseException, kind: FailureKind, now: float
    ) -> Iterable[Event]:
        if not self.machine.is_live(attempt):
            log.debug("topology %s: attempt %s is not live, its failure changes nothing", self.topology, attempt)
            return ()
        if kind is FailureKind.FATAL:
            raise cause
        self._note_failure(attempt.txid, str(attempt), cause, kind.counts, now)
        return (AttemptFailed(attempt),)

    def _note_failure(self, txid: int, what: str, cause: BaseException, counts: bool, now: float) -> None:
        wait = self.retries.failed(txid, cause, counts, now)
        if wait is None:
            raise PoisonBatchError(
                f"topology {self.topology!r}: transaction {txid} failed {self.retries.attempts} times, last as {what}: "
                f"{cause}. It is not committed; mend the code or the data and start the topology again"
            ) from cause
        log.warning("topology %s: %s failed, next try in %.1f s: %s", self.topology, what, wait, cause)

    # --- definitions --------------------------------------------------------------------------------------------------

    def _take_definition(self, notice: DefinitionNotice, now: float) -> None:
        match notice:
            case ExtentsLearned(attempt) | Fingerprinted(attempt):
                if self.machine.is_live(attempt):
                    self.definitions.take_emission(self.topology, notice)
            case Defined():
                self.definitions.take_defined(notice)
            case NotReady():
                self.definitions.take_not_ready(notice, now)
            case DefinitionFailed(spout, _, txid, cause):
                if isinstance(cause, TridentError):
                    raise cause
                wrapped = SpoutError(f"the coordinator of spout {spout!r} raised {type(cause).__name__}: {cause}")
                wrapped.__cause__ = cause
                self._note_failure(txid, f"the definition of {txid}", wrapped, True, now)
                self.definitions.take_failure(notice, self.retries.held_until(txid))

    def _ask(self, now: float) -> None:
        frontier = self.definitions.frontier
        if self.machine.paused or not self._may_define(frontier) or now < self._held_until(frontier):
            return
        # With an interval, each new batch has a moment of its own.
        for spout, ask in self.definitions.asks(now, frontier if self.batch_interval else self.machine.window.stop):
            self.streams.ask(spout, ask)

    def _may_define(self, txid: int) -> bool:
        # One beyond the window: so that it can start in the very write that closes the lowest transaction.
        return txid <= self.machine.window.stop

    def _held_until(self, txid: int) -> float:
        """The moment before which ``txid`` is neither asked for nor emitted; the interval holds new batches only."""
        is_new = txid > self.definitions.moved_upto
        return max(self.retries.held_until(txid), self._next_batch_at if is_new else 0.0)

    # --- what is durable ----------------------------------------------------------------------------------------------

    def _write(self, stored: StoreRecord | None) -> None:
        current = self.record.current_txid if stored is None else stored.current_txid
        self.definitions.close_before(current)
        self.definitions.forget_before(current - 1)
        attempts = {txid: a for txid, a in self._owed.items() if txid > self._success_upto}
        live = self.machine.attempt_ids if stored is None else stored.attempt_ids
        committing = self.machine.committing if stored is None else stored.committing
        record = evolve(
            self.record,
            epoch=self.store.epoch,
            seq=self.record.seq + 1,
            current_txid=current,
            attempt_ids={**attempts, **live},
            metadata=self.definitions.admitted,
            committing=tuple(self._pin(attempt) for attempt in committing),
            cursors=dict(self.definitions.cursors),
            success_upto=self._success_upto,
            fingerprints={txid: dict(seen) for txid, seen in self.definitions.fingerprints.items() if txid >= current},
            times=self.times.from_txid(current - 1),
        )
        self.store.write(record)
        self.record = record

    def _pin(self, attempt: TransactionAttempt) -> CommitPin:
        earlier = next((pin for pin in self.record.committing if pin.attempt == attempt), None)
        definition = self.definitions.known.get(attempt.txid, {})
        return earlier or CommitPin(attempt, content_hash(canonical_json(dict(definition))))

    def _delivered(self, txid: int) -> None:
        self._owed.pop(txid, None)
        # Of the record, not of the machine: that may have closed another transaction in this very turn.
        self._success_upto = min([txid - 1 for txid in self._owed], default=self.record.current_txid - 1)

    def _only_success_is_new(self) -> bool:
        # It rides on the next write; it gets one of its own only when none is in sight.
        return not self.machine.active and not self._owed and self.record.success_upto < self._success_upto

    # --- idleness and the end -----------------------------------------------------------------------------------------

    def _settle(self) -> None:
        quiet = not (self.machine.active or self._owed or self._followups)
        if self.stopping and quiet:
            self.finished = True
        if self.machine.paused:
            why = "was stopped" if self.stopping else "is paused; resume() it first"
            self._idle.refuse(TridentError(f"topology {self.topology!r} {why}"))
        if quiet and self.record.success_upto >= self._success_upto:
            is_at_frontier = self.definitions.frontier == self.machine.current_txid
            self._idle.answer(lambda asked: is_at_frontier and self.definitions.refused_since(asked))

    def end(self, error: BaseException | None, unread: Iterable[Notice]) -> None:
        """Give up: cancel what is live, and answer everybody who waits for idleness."""
        for entry in list(self.machine.active.values()):
            self.streams.cancel(entry.attempt)
        for notice in unread:
            if isinstance(notice, IdleWanted):
                self._idle.add(notice, 0)
            elif isinstance(notice, SuccessDelivered):
                self._delivered(notice.txid)
        if error is None and self.record.success_upto < self._success_upto:
            self._write(None)
        self._idle.refuse(error or TridentError(f"topology {self.topology!r} was stopped"))
        self.finished = True
