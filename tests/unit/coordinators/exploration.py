"""Explores every reachable state of the machine at small scope, and checks each step by what is seen from outside.

A `World` is the machine, what is durable, and what was announced, as seen from outside. In every world all events are
tried: ticks with every set of ready txids, pause and resume, acks and failures of every attempt in scope, be it live,
stale or never emitted; and each of them with a crash after every command, and a restart from what was stored by then,
or from behind any of the commits that had begun: a takeover closes what every state turns out to have. An operator may
leave a wish at any moment; it stays until the write that carries it out.
The oracle keeps its own ledgers of what was announced and acked; it never asks the machine what ought to happen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, combinations

from attrs import define, evolve, field, frozen

from coordinators.protocol.master import ActiveTransaction, AttemptStatus, MasterBatchCoordinator
from coordinators.protocol.protocol import (
    AskOutputs,
    AttemptFailed,
    CancelAttempt,
    Command,
    EmitBatch,
    EmitCommit,
    EmitSuccess,
    Event,
    ParkWanted,
    PhaseAcked,
    RowsWanted,
    Stopping,
    StoreRecord,
    StreamId,
    Ticked,
    Wished,
)
from coordinators.record.parking import NOTHING_PARKED, Parked, ParkedList, Parking, Split, StoredRows
from coordinators.record.wishes import NOTHING_STANDS, Action, Hold, Rate, Standing, Wish
from coordinators.values.attempt import TransactionAttempt

INVARIANTS = {
    "contiguous": "the active transactions are a run from the lowest uncommitted one, no longer than the window",
    "as announced": "the machine's active attempts and their phases are those that were announced and acked",
    "durable": "between two events, what the machine knows is what is stored",
    "store first": "a batch is announced after its attempt id was stored, a success after its commit was closed",
    "new attempt": "no attempt id is ever announced twice or below an earlier one, also over restarts",
    "admission": "only a tick starts batches: at most the window, none past one that is not ready, none in a pause",
    "full window": "a tick starts all that it may",
    "commit order": "a commit is announced for the lowest transaction after its batch was acked, once an attempt, "
    "while no other commits; with it, in order, for the next ones",
    "full run": "with the lowest transaction, all behind it commit that are processed, as far as a run may go",
    "prompt commit": "the lowest transaction, once processed, is committing",
    "success order": "successes come one by one, each txid once a leadership, after its commit was acked",
    "closed": "an acked commit succeeds",
    "cancelled": "a failure cancels its transaction and all later ones, and nothing else does",
    "whole run": "a transaction that fails while it commits takes with it all that commit",
    "stale": "what is about an attempt or a phase that is not pending changes nothing",
    "pinned": "a pinned commit is stored before it is announced, and its pin stays until it is closed",
    "wish": "the write that carries a wish out stores what came of it and removes it, and no other write does",
    "stands": "what stands is what was wished last, also after a restart; only a drain changes, once, into a pause",
    "bound": "a pause that a process has asked for itself ends with its leadership",
    "held": "an operator's pause starts nothing, a drain nothing that was never begun, a limit none above it",
    "drained": "a drain is a pause as soon as all that was begun is committed",
    "asked": "outputs are asked for the lowest transaction, with nothing live, and nothing starts until they answer",
    "parked": "what is parked changes by decision only: closed, it is on the list; released and closed, it is off it",
    "parts": "each row of a transaction that is split is in one part; that of the others waits for its release",
    "alone": "what is parked commits alone, and the attempt that stores its rows starts alone",
    "stored": "an attempt that stores rows commits after the decision only, as the first empty one",
}


IN_COMMIT = (AttemptStatus.COMMITTING, AttemptStatus.COMMITTED)


class Violation(AssertionError):
    """An invariant does not hold; says which, and how the world came there."""

    def __init__(self, invariant: str, story: str) -> None:
        super().__init__(f"{invariant}: {INVARIANTS[invariant]}\n{story}")
        self.invariant = invariant


@frozen
class World:
    """One state of everything, as a value.

    Attributes:
        is_stopping: whether the machine is.
        attempt_ids: the machine's.
        active: the machine's: txid, attempt id and status of each.
        committing: the machine's pins.
        stored: what a restart would find.
        phases: what is out there: attempt id and phase (`PROCESSING` while ``$batch`` is unacked, and so on) by txid.
        last_attempts: the highest attempt id ever announced, of every txid whose success was not announced yet.
        success_upto: the last txid whose success was announced.
        wishes: those that nobody has carried out.
        wished: how many there have been.
        parked: what the machine knows of parked transactions.
        stored_parked: what a restart would find of them.
        asked: the transaction for which outputs are being asked; 0: none.
        storing: the transaction whose next attempt only stores rows; 0: none.
        parks: how many were to be parked.
    """

    current_txid: int = 1
    is_stopping: bool = False
    attempt_ids: tuple[tuple[int, int], ...] = ()
    active: tuple[tuple[int, int, AttemptStatus], ...] = ()
    committing: tuple[TransactionAttempt, ...] = ()
    stored: tuple[int, tuple[tuple[int, int], ...], tuple[TransactionAttempt, ...], Standing] = (
        1,
        (),
        (),
        NOTHING_STANDS,
    )
    phases: tuple[tuple[int, int, AttemptStatus], ...] = ()
    last_attempts: tuple[tuple[int, int], ...] = ()
    success_upto: int = 0
    standing: Standing = NOTHING_STANDS
    wishes: tuple[Wish, ...] = ()
    wished: int = 0
    parked: ParkedList = NOTHING_PARKED
    stored_parked: ParkedList = NOTHING_PARKED
    asked: int = 0
    storing: int = 0
    parks: int = 0


@frozen
class Scope:
    """How far to go; an operator has so many of ``wishes_max`` wishes, any of them, and parks ``parks_max`` times.

    With ``stores_rows``, an attempt may store rows before a transaction is parked; with ``splits``, one row of two of a
    parked one may be found; with ``letters``, there are dead letters of the first transaction.
    """

    max_spout_pending: int
    txid_max: int
    attempt_max: int
    store_intents: bool = False
    group_max: int = 1
    wishes_max: int = 0
    parks_max: int = 0
    stores_rows: bool = False
    splits: bool = False
    letters: bool = False


EPOCH = 1
"""Of every leadership, as far as its own pause is concerned; the next one has the number after it."""

PARK = Wish("", Action.PARK, epoch=EPOCH)
"""The wish that parks."""

LETTERS = Wish("", Action.LETTERS, epoch=EPOCH)
"""The wish that lets a branch process its dead letters."""

BISECT = Wish("", Action.BISECT, epoch=EPOCH)
"""The wish that splits."""

WISHES = [(Action.PAUSE, Rate()), (Action.DRAIN, Rate()), (Action.RATE, Rate(pending=1)), (Action.RESUME, Rate())]

Restore = Callable[[type[MasterBatchCoordinator], Scope, StoreRecord], MasterBatchCoordinator]


def restore(machine: type[MasterBatchCoordinator], scope: Scope, stored: StoreRecord) -> MasterBatchCoordinator:
    """What a takeover makes of the record."""
    return machine(
        max_spout_pending=scope.max_spout_pending,
        store_intents=scope.store_intents,
        group_max=scope.group_max,
        current_txid=stored.current_txid,
        attempt_ids=dict(stored.attempt_ids),
        committing=stored.committing,
        standing=stored.standing.led_by(EPOCH + 1),
        parked=stored.parked,
    )


@define
class Step:
    """One event taken in one world, and the commands that follow, checked one by one as they are carried out."""

    scope: Scope
    watched: frozenset[str]
    machine: MasterBatchCoordinator
    event: Event
    stored: StoreRecord
    phases: dict[int, tuple[int, AttemptStatus]]
    last_attempts: dict[int, int]
    success_upto: int
    wishes: tuple[Wish, ...]
    wished: int
    before: StoreRecord
    asked: int
    storing: int
    parks: int
    cancelled: list[int] = field(factory=list)
    group: list[int] = field(factory=list)
    failed_in_commit: bool = False

    def require(self, condition: bool, invariant: str) -> None:
        if not condition and invariant in self.watched:
            raise Violation(invariant, f"{self.event} with {self.phases} out there, {self.stored} stored")

    # --- the event, as seen from outside ------------------------------------------------------------------------------

    def is_stale(self) -> bool:
        match self.event:
            case PhaseAcked(attempt, StreamId.BATCH):
                return self.phases.get(attempt.txid) != (attempt.attempt_id, AttemptStatus.PROCESSING)
            case PhaseAcked(attempt, _):
                return self.phases.get(attempt.txid) != (attempt.attempt_id, AttemptStatus.COMMITTING)
            case AttemptFailed(attempt):
                return self.phases.get(attempt.txid, (None,))[0] != attempt.attempt_id
            case ParkWanted(txid):
                return bool(self.asked or self.storing) or txid != self.stored.current_txid
            case RowsWanted(txid):
                return self.asked != txid
            case _:
                return False

    def note_event(self) -> None:
        match self.event:
            case PhaseAcked(attempt, StreamId.BATCH):
                self.phases[attempt.txid] = (attempt.attempt_id, AttemptStatus.PROCESSED)
            case PhaseAcked(attempt, _):
                self.phases[attempt.txid] = (attempt.attempt_id, AttemptStatus.COMMITTED)
            case AttemptFailed(attempt):
                self.failed_in_commit = self.phases[attempt.txid][1] in IN_COMMIT
            case ParkWanted():
                self.parks += 1
            case RowsWanted(txid):
                self.asked, self.storing = 0, txid
            case Wished(wish) if wish == PARK:
                self.asked = self.storing = 0

    # --- the commands -------------------------------------------------------------------------------------------------

    def carry_out(self, command: Command) -> None:
        match command:
            case StoreRecord():
                pins = {pin.txid for pin in self.stored.committing if pin.txid >= command.current_txid}
                self.require(pins <= {pin.txid for pin in command.committing}, "pinned")
                self._wishes(command)
                if isinstance(self.event, Wished) and self.event.split is not None:
                    self.require(command.parked == self._split(self.event.split.whole), "parts")
                else:
                    self.require(command.parked == self._parked(command), "parked")
                self.stored = evolve(command, outcomes=())
            case EmitBatch(attempt):
                self._batch(attempt)
            case EmitCommit(attempt):
                self._commit(attempt)
            case EmitSuccess(attempt):
                self._success(attempt)
            case CancelAttempt(attempt):
                live = self.phases.pop(attempt.txid, (None,))[0] == attempt.attempt_id
                is_refused = isinstance(self.event, Wished) and self.event.wish == PARK and self.event.refusal
                has_cause = isinstance(self.event, AttemptFailed | ParkWanted) or is_refused
                self.require(live and bool(has_cause), "cancelled")
                self.cancelled.append(attempt.txid)
            case AskOutputs(txid):
                self.require(txid == self.stored.current_txid and not self.phases, "asked")
                self.asked = txid

    def _wishes(self, command: StoreRecord) -> None:
        wished = self.wishes[:1] if isinstance(self.event, Wished) and not self.event.wish.epoch else ()
        told = tuple((outcome.wish, outcome.action, outcome.standing) for outcome in command.outcomes)
        self.require(told == tuple((wish.id, wish.action, command.standing) for wish in wished), "wish")
        self.wishes = self.wishes[len(told) :]
        self.require(command.standing in self._may_stand(command), "stands")

    def _parked(self, command: StoreRecord) -> ParkedList:
        """What is due now, by the event and what was closed or begun."""
        due, current = self.stored.parked, self.stored.current_txid
        begun = sorted(command.attempt_ids.keys() - self.stored.attempt_ids.keys())
        match self.event:
            case Wished(wish, refusal="") if wish.action is Action.PARK:
                return due.park(Parking(current, self._first_empty(current), entry_of(current)))
            case Wished(wish) if wish.action is Action.RELEASE:
                return due.want(())
            case Wished(wish, refusal="") if wish.action is Action.LETTERS:
                entries = [*due.entries, evolve(letters_entry(), part=1)]
                return evolve(due, entries=tuple(sorted(entries, key=lambda each: (each.txid, each.part))))
            case Ticked() if begun:
                return due.bind(begun[0])
            case PhaseAcked() if command.current_txid > current:
                return due.close(current)
        return due

    def _split(self, whole: Parked) -> ParkedList:
        """The first row stays, the second waits."""
        (rows,) = whole.stored.values()
        first = evolve(whole, stored={"lines": evolve(rows, kept=((0, 1),))})
        second = evolve(whole, stored={"lines": evolve(rows, kept=((1, 2),))}, part=1, is_wanted=True)
        others = [each for each in self.stored.parked.entries if each.txid != whole.txid]
        entries = sorted([*others, first, second], key=lambda each: (each.txid, each.part))
        return evolve(self.stored.parked, entries=tuple(entries))

    def _first_empty(self, txid: int) -> int:
        """The live attempt, if it has stored rows; else the next one."""
        return self.phases[txid][0] if txid in self.phases else self.stored.attempt_ids[txid] + 1

    def _may_stand(self, command: StoreRecord) -> list[Standing]:
        before = self.stored.standing
        if isinstance(self.event, Wished):
            before = before.after(self.event.wish)
        is_over = before.hold is Hold.DRAINING and not command.attempt_ids
        return [before, *([evolve(before, hold=Hold.PAUSED)] if is_over else [])]

    def _batch(self, attempt: TransactionAttempt) -> None:
        txid = attempt.txid
        self.require(self.stored.attempt_ids.get(txid) == attempt.attempt_id, "store first")
        self.require(txid > self.success_upto, "new attempt")
        self.require(attempt.attempt_id > self.last_attempts.get(txid, -1), "new attempt")
        self.require(isinstance(self.event, Ticked) and txid in self.event.ready, "admission")
        self.require(not self.asked, "asked")
        self.require(self.storing in (0, txid), "alone")
        self.require(not self.machine.is_stopping and txid == self._first_idle(), "admission")
        self.require(len(self.phases) < self.scope.max_spout_pending, "admission")
        stands = self.before.standing
        is_held = stands.is_paused or (stands.hold is Hold.DRAINING and txid not in self.before.attempt_ids)
        self.require(not is_held and len(self.phases) < (stands.rate.pending or txid), "held")
        self.phases[txid] = (attempt.attempt_id, AttemptStatus.PROCESSING)
        self.last_attempts[txid] = attempt.attempt_id

    def _commit(self, attempt: TransactionAttempt) -> None:
        others = [txid for txid, (_, phase) in self.phases.items() if phase in IN_COMMIT]
        next_in_group = (
            attempt.txid == self.stored.current_txid + len(self.group) == self.success_upto + 1 + len(self.group)
        )
        processed = self.phases.get(attempt.txid) == (attempt.attempt_id, AttemptStatus.PROCESSED)
        self.require(next_in_group and processed and others == self.group, "commit order")
        self.require(not self.storing, "stored")
        self.require(len(self.group) < self.scope.group_max, "full run")
        self.require(not (self.group and self.stored.parked.is_parking(self.group[0])), "alone")
        self.group.append(attempt.txid)
        self.require(attempt in self.stored.committing or not self.scope.store_intents, "pinned")
        self.phases[attempt.txid] = (attempt.attempt_id, AttemptStatus.COMMITTING)

    def _success(self, attempt: TransactionAttempt) -> None:
        txid = attempt.txid
        self.require(self.stored.current_txid == txid + 1, "store first")
        self.require(txid == self.success_upto + 1, "success order")
        phase = self.phases.pop(txid, None)
        self.require(phase == (attempt.attempt_id, AttemptStatus.COMMITTED), "success order")
        self.success_upto = txid

    def _first_idle(self) -> int:
        return self.stored.current_txid + len(self.phases)

    # --- after the last command ---------------------------------------------------------------------------------------

    def check_end(self) -> None:
        machine, current = self.machine, self.stored.current_txid
        active = {txid: (entry.attempt.attempt_id, entry.status) for txid, entry in machine.active.items()}
        lowest = self.phases.get(current, (0, None))[1]
        first = self.phases[min(self.phases)][1] if self.phases else None
        self.require(first is not AttemptStatus.COMMITTED, "closed")
        self._check_cancelled()
        self.require(list(active) == list(range(current, current + len(active))), "contiguous")
        self.require(len(active) <= self.scope.max_spout_pending, "contiguous")
        self.require(lowest is not AttemptStatus.PROCESSED or bool(self.storing), "prompt commit")
        self.require(self.asked == machine.asked, "asked")
        self.require(self.storing == machine.storing, "stored")
        self.require(not isinstance(self.event, ParkWanted) or bool(self.asked), "asked")
        if self.group and len(self.group) < self.scope.group_max and not self.stored.parked.is_parking(current):
            self.require(self.phases.get(self.group[-1] + 1, (0, None))[1] is not AttemptStatus.PROCESSED, "full run")
        self.require(active == self.phases, "as announced")
        known = machine._store()
        self.require(known == self.stored, "durable")
        self.require(not (isinstance(self.event, Wished) and self.event.wish in self.wishes), "wish")
        if isinstance(self.event, Ticked | Wished | PhaseAcked):
            is_over = self.stored.standing.hold is Hold.DRAINING and not self.stored.attempt_ids
            self.require(not is_over, "drained")
        if isinstance(self.event, Ticked) and not machine.is_stopping and self._may_start(self._first_idle()):
            self.require(self._first_idle() not in self.event.ready, "full window")

    def _may_start(self, txid: int) -> bool:
        stands = self.stored.standing
        may_replay = stands.hold is Hold.DRAINING and not stands.is_paused
        is_open = stands.takes_new or (may_replay and txid in self.before.attempt_ids)
        return (
            is_open
            and not self.asked
            and not (self.storing and self.phases)
            and len(self.phases) < min(self.scope.max_spout_pending, stands.rate.pending or txid)
        )

    def _check_cancelled(self) -> None:
        if isinstance(self.event, AttemptFailed):
            failed = self.event.attempt.txid
            first = self.stored.current_txid if self.failed_in_commit else failed
            rule = "whole run" if self.failed_in_commit and failed > first else "cancelled"
            self.require(failed in self.cancelled and min(self.cancelled) == first, rule)
            self.require(all(txid < first for txid in self.phases), rule)


@define
class Explorer:
    """Breadth first, from the empty store; raises `Violation` at the first world where an invariant fails."""

    scope: Scope
    watched: frozenset[str] = frozenset(INVARIANTS)
    machine_type: type[MasterBatchCoordinator] = MasterBatchCoordinator
    restore: Restore = restore
    seen: set[World] = field(factory=set)
    steps: int = 0

    def run(self) -> None:
        queue = deque([World()])
        self.seen.add(World())
        while queue:
            for world in self.successors(queue.popleft()):
                if world not in self.seen:
                    self.seen.add(world)
                    if self._in_scope(world):
                        queue.append(world)

    def _in_scope(self, world: World) -> bool:
        _, stored_attempts, *_ = world.stored
        return max((attempt_id for _, attempt_id in stored_attempts), default=0) <= self.scope.attempt_max

    def successors(self, world: World) -> Iterator[World]:
        yield from self._restarted(world)
        yield from self._wishing(world)
        for event in self._events(world):
            step = self._begun(world, event)
            self.steps += 1
            if step.is_stale():
                step.require(step.machine.handle(event) == [], "stale")
                step.require(self._after(step) == world, "stale")
                continue
            step.note_event()
            for command in step.machine.handle(event):
                step.carry_out(command)
                yield from self._restarted(self._after(step))
            step.check_end()
            yield self._after(step)

    def _wishing(self, world: World) -> Iterator[World]:
        """An operator leaves a wish."""
        for action, rate in WISHES if world.wished < self.scope.wishes_max else []:
            wish = Wish(str(world.wished + 1), action, rate)
            yield evolve(world, wishes=(*world.wishes, wish), wished=world.wished + 1)

    def _events(self, world: World) -> Iterator[Event]:
        txids = range(1, self.scope.txid_max + 1)
        window = [t for t in txids if world.current_txid <= t < world.current_txid + self.scope.max_spout_pending]
        for ready in chain.from_iterable(combinations(window, size) for size in range(len(window) + 1)):
            yield Ticked(frozenset(ready))
        yield Ticked(frozenset(txids))
        yield Wished(Wish("", Action.RESUME if world.standing.paused_by else Action.PAUSE, epoch=EPOCH))
        yield Stopping()
        yield from self._parking(world)
        if self.scope.letters and world.current_txid > 1 and not any(e.letters_of for e in world.parked.entries):
            yield Wished(LETTERS, letters=(letters_entry(),))
            yield Wished(LETTERS, refusal="there are none")
        for wish in world.wishes[:1]:
            yield Wished(wish)
        for txid in txids:
            for attempt_id in range(self.scope.attempt_max + 1):
                attempt = TransactionAttempt(txid, attempt_id)
                yield PhaseAcked(attempt, StreamId.BATCH)
                yield PhaseAcked(attempt, StreamId.COMMIT)
                yield AttemptFailed(attempt)

    def _parking(self, world: World) -> Iterator[Event]:
        """The lowest transaction is parked, if outputs can leave it out; and what is parked is released."""
        if world.parks < self.scope.parks_max and world.attempt_ids and not world.parked.is_parking(world.current_txid):
            yield ParkWanted(world.current_txid, PARK)
            yield ParkWanted(world.current_txid + 1, PARK)
        txid = world.asked or world.storing
        last = dict(world.attempt_ids).get(txid, 0)
        has_rows = (txid, last, AttemptStatus.PROCESSED) in world.phases
        if txid:
            yield Wished(PARK, refusal="an output has it")
            yield Wished(evolve(PARK, by="another"), refusal="it is committed")
        if world.asked and self.scope.stores_rows:
            yield RowsWanted(world.asked)
        if world.asked or has_rows:
            yield Wished(PARK, parking=Parking(txid, last + (0 if has_rows else 1), entry_of(txid)))
        if world.parked.entries:
            yield Wished(Wish("", Action.RELEASE, epoch=EPOCH))
        for entry in world.parked.entries if self.scope.splits else ():
            if not (entry.stored or entry.is_wanted):
                yield Wished(BISECT, split=split_of(entry))

    # --- worlds as values ---------------------------------------------------------------------------------------------

    def _begun(self, world: World, event: Event) -> Step:
        machine = self.machine_type(
            max_spout_pending=self.scope.max_spout_pending,
            store_intents=self.scope.store_intents,
            group_max=self.scope.group_max,
            current_txid=world.current_txid,
            attempt_ids=dict(world.attempt_ids),
            committing=world.committing,
            is_stopping=world.is_stopping,
            standing=world.standing,
            parked=world.parked,
        )
        machine.asked, machine.storing = world.asked, world.storing
        machine.parks_by = PARK if world.asked or world.storing else None
        for txid, attempt_id, status in world.active:
            machine._active[txid] = ActiveTransaction(TransactionAttempt(txid, attempt_id), status)
            if status in IN_COMMIT:
                machine._begun_upto = txid
        current, attempt_ids, committing, standing = world.stored
        stored = StoreRecord(current, dict(attempt_ids), committing, standing, parked=world.stored_parked)
        return Step(
            self.scope,
            self.watched,
            machine,
            event,
            stored,
            {txid: (attempt_id, phase) for txid, attempt_id, phase in world.phases},
            dict(world.last_attempts),
            world.success_upto,
            world.wishes,
            world.wished,
            stored,
            world.asked,
            world.storing,
            world.parks,
        )

    def _after(self, step: Step) -> World:
        machine, stored = step.machine, step.stored
        return World(
            current_txid=machine.current_txid,
            is_stopping=machine.is_stopping,
            attempt_ids=tuple(sorted(machine.attempt_ids.items())),
            active=tuple((txid, e.attempt.attempt_id, e.status) for txid, e in sorted(machine.active.items())),
            committing=machine.committing,
            stored=(
                stored.current_txid,
                tuple(sorted(stored.attempt_ids.items())),
                stored.committing,
                stored.standing,
            ),
            phases=tuple((txid, *phase) for txid, phase in sorted(step.phases.items())),
            last_attempts=_above(step.success_upto, sorted(step.last_attempts.items())),
            success_upto=step.success_upto,
            standing=machine.standing,
            wishes=step.wishes,
            wished=step.wished,
            parked=machine.parked,
            stored_parked=stored.parked,
            asked=step.asked,
            storing=step.storing,
            parks=step.parks,
        )

    def _restarted(self, world: World) -> Iterator[World]:
        """A crash; and a new process, which closes none, some or all of what was committing."""
        current, attempt_ids, committing, standing = world.stored
        for txid in [current, *(txid + 1 for txid, _, phase in world.phases if phase in IN_COMMIT)]:
            if txid >= current:
                left = tuple((each, attempt_id) for each, attempt_id in attempt_ids if each >= txid)
                pins = tuple(pin for pin in committing if pin.txid >= txid)
                parked = world.stored_parked
                for closed in range(current, txid):
                    parked = parked.close(closed)
                after = evolve(world, stored=(txid, left, pins, standing), stored_parked=parked)
                yield self._restarted_from(after)

    def _restarted_from(self, world: World) -> World:
        """A new process that first announces the successes that are owed."""
        current, attempt_ids, committing, standing = world.stored
        stored = StoreRecord(current, dict(attempt_ids), committing, standing, parked=world.stored_parked)
        machine = self.restore(self.machine_type, self.scope, stored)
        if machine.standing.paused_by and "bound" in self.watched:
            raise Violation("bound", f"{machine} goes on from {stored}")
        return evolve(
            world,
            current_txid=machine.current_txid,
            is_stopping=False,
            attempt_ids=tuple(sorted(machine.attempt_ids.items())),
            active=(),
            committing=machine.committing,
            phases=(),
            last_attempts=_above(current - 1, world.last_attempts),
            success_upto=max(world.success_upto, current - 1),
            standing=machine.standing,
            parked=machine.parked,
            asked=0,
            storing=0,
            stored=(current, attempt_ids, committing, standing.led_by(EPOCH + 1)),
        )


def entry_of(txid: int) -> Parked:
    """What the list has of a transaction."""
    return Parked(txid=txid, number=txid, definition={})


def letters_entry() -> Parked:
    """The dead letters of a branch."""
    rows = StoredRows(file="letters", host="", bytes=0, hash="", rows=1)
    return Parked(
        txid=1, number=0, definition={"lines": None}, stored={"lines": rows}, is_wanted=True, letters_of="log"
    )


def split_of(entry: Parked) -> Split:
    """The first of its two rows fails."""
    rows = StoredRows(file=f"rows of {entry.txid}", host="", bytes=0, hash="", rows=2)
    return Split(evolve(entry, stored={"lines": rows}), {"lines": (0,)})


def _above(txid: int, last_attempts: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    return tuple(pair for pair in last_attempts if pair[0] > txid)
