"""The master batch coordinator: the one machine that decides what happens to which attempt, and when.

Rule 1: every status change happens in this file. Rule 2: nothing in this file reads a clock, opens a socket, starts a
thread or calls user code. It takes events (`handle`) and returns the commands to carry out, in order.

Theory of operation. Transactions are numbered from 1. The active ones are contiguous, ``current … current+k``, and at
most ``max_spout_pending`` of them exist. Each goes

    PROCESSING ──($batch acked)──▶ PROCESSED ──(is the lowest)──▶ COMMITTING ──($commit acked)──▶ gone

(COMMITTED is a short stop on the last arrow: a member of a group waits there for those below it.)

The first and last arrows are triggered by events, the middle one by the state itself. Whenever the lowest active
transaction is PROCESSED and no commit is open, its commit starts. So commits are strictly in order, one at a time.

Group commit: if every state can apply several transactions in one atomic step, the PROCESSED transactions that directly
follow the lowest commit with it. The members of the group are announced, acked and closed in txid order, each by
itself. They fail together, because a failed step doesn't tell which of them it has applied.

It differs from Storm's ``MasterBatchCoordinator`` on purpose:

- A change is stored before it is announced. Storm announces success first.
- Emission stops at the first txid that is not ready. Storm continues after it, and emits the same input twice.
- A failure of an attempt that is no longer the live one changes nothing. Storm drops the live one.
- No attempt id is forgotten at a restart. Storm's window is off by one.

The wishes in effect can hold batches back (`Standing`). During a drain only transactions that were begun before it
start. The write that closes the last of them turns the drain into a pause. A pause that the process itself requested is
bound to its epoch: the next leadership drops it in its first write.

The lowest transaction can be parked. First nothing is live any more, and every output is asked whether it can leave
the transaction out (`AskOutputs`). If all can, a write decides it. From then on each attempt of the transaction is
empty, under this leader and later ones. It commits alone, and the write that closes it puts it on the list. A release
is the next new transaction that begins: it processes what was parked. Dead letters that are to be processed come onto
the list, too, and wait there for their release.

If a spout can't emit the batch again later (`RowsWanted`), one more attempt starts before that write, alone. It only
stores rows. When it is PROCESSED, the write names these rows, and the same attempt is the first empty one.

Before the commands leave the machine, `_check` asserts every invariant. If the machine has a defect, the leadership
ends there, and nothing wrong is stored or announced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice, takewhile

from attrs import define, evolve, field

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
from coordinators.record.parking import NOTHING_PARKED, ParkedList
from coordinators.record.wishes import NOTHING_STANDS, Action, Hold, Outcome, Standing, Wish
from coordinators.values.attempt import FIRST_ATTEMPT_ID, INITIAL_TXID, TransactionAttempt
from coordinators.values.errors import our_bug


class AttemptStatus(StrEnum):
    """Where the live attempt of an active transaction is."""

    PROCESSING = "processing"
    PROCESSED = "processed"
    COMMITTING = "committing"
    COMMITTED = "committed"
    """Every output has committed it; it is closed once those below it are."""


def parked_after(before: StoreRecord, wished: Wished) -> ParkedList:
    """Return the parked transactions after ``wished``, which isn't refused, is carried out upon ``before``."""
    parked = before.parked
    match wished.wish.action:
        case Action.PARK if wished.parking is not None:
            return parked.park(wished.parking)
        case Action.RELEASE:
            return parked.want(wished.wish.txids)
        case Action.SKIP:
            return parked.drop(wished.wish.txids)
        case Action.BISECT if wished.split is not None:
            return parked.split(wished.split)
        case Action.ROWS if wished.stored is not None:
            return parked.replaced(wished.stored)
        case Action.LETTERS:
            return parked.with_letters(wished.letters)
    return parked


@define
class ActiveTransaction:
    """The live attempt of a transaction, and how far it has come."""

    attempt: TransactionAttempt
    status: AttemptStatus = AttemptStatus.PROCESSING


# large: one machine with one entry point, and next to each transition the invariants that must hold after it
@define(kw_only=True)
class MasterBatchCoordinator:
    """Decides; never acts. One entry point: `handle`.

    Attributes:
        max_spout_pending: how many transactions may be active at once, at least 1. May be changed between events.
        current_txid: the lowest transaction that is not committed.
        attempt_ids: the last attempt id of every transaction from ``current_txid`` on that was ever tried.
        group_max: how many transactions may commit together, at least 1.
        store_intents: store which attempt is about to commit before its commit is announced. Needed for sinks that
            can't fence, and for spouts whose batches aren't fixed by their metadata.
        committing: the attempts whose intent to commit is stored, and whose commit isn't closed. A failure doesn't
            remove them, because a late task may still apply them.
        is_stopping: true after the process was asked to stop; no batch starts any more.
        standing: the wishes in effect.
        parked: the transaction that is being parked, and the parked ones.
        asked: the transaction for which outputs are being asked; 0: none. Nothing starts meanwhile.
        storing: the transaction with an attempt that only stores rows; 0: none. Nothing else starts meanwhile.
        parks_by: the wish for which outputs are being asked or rows stored; None: no wish is.
    """

    max_spout_pending: int = 1
    current_txid: int = INITIAL_TXID
    attempt_ids: dict[int, int] = field(factory=dict)
    group_max: int = 1
    store_intents: bool = False
    committing: tuple[TransactionAttempt, ...] = ()
    is_stopping: bool = False
    standing: Standing = NOTHING_STANDS
    parked: ParkedList = NOTHING_PARKED
    asked: int = field(default=0, init=False)
    storing: int = field(default=0, init=False)
    parks_by: Wish | None = field(default=None, init=False)
    _active: dict[int, ActiveTransaction] = field(factory=dict, init=False)
    # The next step is checked against these: the last record that was given to be stored, and the last txid that
    # began to commit.
    _last_store: StoreRecord = field(init=False, eq=False, repr=False)
    _begun_upto: int = field(default=0, init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._last_store = self._store()

    @property
    def active(self) -> Mapping[int, ActiveTransaction]:
        """The active transactions by txid, lowest first."""
        return self._active

    @property
    def window(self) -> range:
        """The txids that may be active now."""
        most, wished = self.max_spout_pending, self.standing.rate.pending
        return range(self.current_txid, self.current_txid + (most if wished is None else min(most, wished)))

    @property
    def is_paused(self) -> bool:
        """Whether no batch may start."""
        return self.is_stopping or self.standing.is_paused

    @property
    def takes_new(self) -> bool:
        """Whether a transaction that was never begun may start."""
        return not self.is_stopping and self.standing.takes_new

    @property
    def admissible(self) -> range:
        """The txids of the window that are active, or may start as soon as they are ready."""
        if self.asked:
            return self.window[:0]
        window = self.window[:1] if self.storing else self.window
        if self.takes_new:
            return window
        # A pause starts nothing, a drain replays what was begun. Both maps begin at current_txid, without gaps.
        begun = self._active if self.is_paused else self.attempt_ids
        return window[: len(begun)]

    def handle(self, event: Event) -> list[Command]:
        """Return the commands that follow from an event, in the order in which to carry them out.

        Late and stale events change nothing. An argument that is not an `Event` is our bug and raises TypeError.

        Raises:
            AssertionError: the machine has a defect, which the message describes.
        """
        may_act, active, is_stored = self._may_act(event), len(self._active), self.has_stored_rows
        commands = self._answer(event)
        self._check(event, commands, may_act=may_act, active=active, is_stored=is_stored)
        return commands

    def _answer(self, event: Event) -> list[Command]:
        match event:
            case Ticked(ready):
                return list(self._admit(ready))
            case PhaseAcked(attempt, stream):
                return list(self._advance(attempt, stream))
            case AttemptFailed(attempt):
                return list(self._fail(attempt))
            case Stopping():
                self.is_stopping = True
            case ParkWanted(txid, wish):
                return list(self._ask_outputs(txid, wish))
            case RowsWanted(txid):
                self._store_rows(txid)
            case Wished():
                return list(self._carry_out(event))
            case _:
                raise TypeError(f"not an event of the master batch coordinator: {event!r}")
        return []

    def is_live(self, attempt: TransactionAttempt) -> bool:
        """Return true if exactly this attempt is the active one of its transaction."""
        entry = self._active.get(attempt.txid)
        return entry is not None and entry.attempt == attempt

    @property
    def has_stored_rows(self) -> bool:
        """Whether the attempt that only stores rows has stored them, and it is to be decided now what follows."""
        lowest = self._active.get(self.storing)
        return lowest is not None and lowest.status is AttemptStatus.PROCESSED

    def _carry_out(self, wished: Wished) -> Iterator[Command]:
        wish, is_decided, is_stored = wished.wish, wished.wish == self.parks_by, self.has_stored_rows
        if is_decided:
            if wished.refusal and self.storing:
                yield from self._cancel_from(self.storing)
            self.asked, self.storing, self.parks_by = 0, 0, None
        if not wished.refusal:
            self.standing = self.standing.after(wish)
            self.parked = parked_after(self._store(), wished)
        self._end_drain()
        if not wish.epoch:
            found = wished.split.found if wished.split else {}
            outcome = Outcome(wish.id, wish.action, self.standing, len(self.attempt_ids), wished.refusal, found)
            yield evolve(self._store(), outcomes=(outcome,))
        elif not wished.refusal:
            yield self._store()
        if is_decided and is_stored:
            yield from self._commit_lowest()

    def _ask_outputs(self, txid: int, wish: Wish) -> Iterator[Command]:
        if self.parks_by or txid != self.current_txid:
            return
        self.asked, self.parks_by = txid, wish
        yield from self._cancel_from(txid)
        yield AskOutputs(txid)

    def _store_rows(self, txid: int) -> None:
        if self.asked == txid:
            self.asked, self.storing = 0, txid

    def _end_drain(self) -> bool:
        """Turn a drain into a pause if every begun transaction is committed; return true if it did."""
        is_over = self.standing.hold is Hold.DRAINING and not self.attempt_ids
        if is_over:
            self.standing = evolve(self.standing, hold=Hold.PAUSED)
        return is_over

    def _admit(self, ready: frozenset[int]) -> Iterator[Command]:
        if self._end_drain():  # a takeover found every begun transaction committed
            yield self._store()
        admitted = list(self._startable(ready))
        for attempt in admitted:
            if attempt.txid not in self.attempt_ids:
                self.parked = self.parked.bind(attempt.txid)
            self.attempt_ids[attempt.txid] = attempt.attempt_id
            self._active[attempt.txid] = ActiveTransaction(attempt)
        if admitted:
            yield self._store()
        for attempt in admitted:
            yield EmitBatch(attempt)

    def _startable(self, ready: frozenset[int]) -> Iterator[TransactionAttempt]:
        # The active transactions are contiguous from current_txid on, so the rest of the window can start.
        for txid in self.admissible[len(self._active) :]:
            if txid not in ready:
                return
            yield TransactionAttempt(txid, self.attempt_ids.get(txid, FIRST_ATTEMPT_ID - 1) + 1)

    def _advance(self, attempt: TransactionAttempt, stream: StreamId) -> Iterator[Command]:
        if not self.is_live(attempt):
            return
        entry = self._active[attempt.txid]
        match stream, entry.status:
            case StreamId.BATCH, AttemptStatus.PROCESSING:
                entry.status = AttemptStatus.PROCESSED
            case StreamId.COMMIT, AttemptStatus.COMMITTING:
                entry.status = AttemptStatus.COMMITTED
                yield from self._close_committed()
            case _:
                return
        yield from self._commit_lowest()

    def _close_committed(self) -> Iterator[Command]:
        while (entry := self._active.get(self.current_txid)) and entry.status is AttemptStatus.COMMITTED:
            yield from self._close(entry.attempt)

    def _close(self, attempt: TransactionAttempt) -> Iterator[Command]:
        del self._active[attempt.txid]
        self.attempt_ids.pop(attempt.txid)
        self.committing = tuple(pinned for pinned in self.committing if pinned.txid > attempt.txid)
        self.current_txid = attempt.txid + 1
        self.parked = self.parked.close(attempt.txid)
        self._end_drain()
        yield self._store()  # Store, then announce: Storm announces first, and a crash in between loses the batch.
        yield EmitSuccess(attempt)

    def _commit_lowest(self) -> Iterator[Command]:
        if self.storing:
            return
        processed = takewhile(lambda entry: entry.status is AttemptStatus.PROCESSED, self._active.values())
        group = list(islice(processed, self._group_max))
        for entry in group:
            entry.status = AttemptStatus.COMMITTING
        if group and self.store_intents:
            pinned = [entry.attempt for entry in group]
            # The attempts that an earlier, longer group has pinned after this one stay: a late task may still apply
            # them.
            self.committing = (*pinned, *(pin for pin in self.committing if pin.txid > pinned[-1].txid))
            yield self._store()
        for entry in group:
            yield EmitCommit(entry.attempt)

    def _fail(self, attempt: TransactionAttempt) -> Iterator[Command]:
        if not self.is_live(attempt):
            return
        commits = self._active[attempt.txid].status in (AttemptStatus.COMMITTING, AttemptStatus.COMMITTED)
        yield from self._cancel_from(self.current_txid if commits else attempt.txid)  # a group fails as one

    def _cancel_from(self, first: int) -> Iterator[CancelAttempt]:
        for txid in [txid for txid in self._active if txid >= first]:
            yield CancelAttempt(self._active.pop(txid).attempt)

    @property
    def _group_max(self) -> int:
        """How many transactions may commit with the lowest; one that is being parked commits alone."""
        return 1 if self.parked.is_parking(self.current_txid) else self.group_max

    def _store(self) -> StoreRecord:
        return StoreRecord(
            self.current_txid, dict(self.attempt_ids), self.committing, self.standing, parked=self.parked
        )

    # --- invariants that are checked after every event ----------------------------------------------------------------

    def _may_act(self, event: Event) -> bool:
        """Return false if ``event``, which was not handled yet, can change nothing."""
        match event:
            case Ticked(ready):
                idle = self.current_txid + len(self._active)
                is_drained = self.standing.hold is Hold.DRAINING and not self.attempt_ids
                return is_drained or (idle in ready and idle in self.admissible)
            case Wished():
                return True
            case ParkWanted(txid):
                return not self.parks_by and txid == self.current_txid
            case PhaseAcked(attempt, StreamId.BATCH):
                return self.is_live(attempt) and self._active[attempt.txid].status is AttemptStatus.PROCESSING
            case PhaseAcked(attempt, StreamId.COMMIT):
                return self.is_live(attempt) and self._active[attempt.txid].status is AttemptStatus.COMMITTING
            case AttemptFailed(attempt):
                return self.is_live(attempt)
        return False

    def _check(self, event: Event, commands: list[Command], *, may_act: bool, active: int, is_stored: bool) -> None:
        """Assert that the invariants hold after ``event``.

        Args:
            event: the event that was handled.
            commands: the answer.
            may_act: whether commands were allowed to follow.
            active: how many transactions were active before.
            is_stored: whether `has_stored_rows` was true before.
        """
        assert may_act or not commands, self._bug(event, "something follows from what changes nothing")
        tried = self._last_store.attempt_ids
        for command in commands:
            active += self._check_command(event, command, tried)
        self._check_wish(event, commands)
        self._check_parking(event, is_stored=is_stored)
        self._check_commits(event, [command.attempt for command in commands if isinstance(command, EmitCommit)])
        if commands and isinstance(event, AttemptFailed | ParkWanted):
            self._check_cancelled(event)
        self._check_state(event, active)

    def _check_command(self, event: Event, command: Command, tried: Mapping[int, int]) -> int:
        """Return by how many transactions ``command`` changes the number of active ones."""
        match command:
            case StoreRecord():
                self._check_record(event, command)
            case EmitBatch(attempt):
                self._check_batch(event, attempt, tried)
                return 1
            case EmitCommit(attempt):
                pinned = not self.store_intents or attempt in self._last_store.committing
                assert pinned, self._bug(event, f"{attempt} commits before it is pinned")
            case EmitSuccess(attempt):
                closed = isinstance(event, PhaseAcked) and self._last_store.current_txid == attempt.txid + 1
                assert closed, self._bug(event, f"{attempt} succeeds before it is closed")
                return -1
            case CancelAttempt(attempt):
                has_cause = isinstance(event, AttemptFailed | ParkWanted | Wished)
                assert has_cause, self._bug(event, f"{attempt} is cancelled, none failed")
                return -1
            case AskOutputs(txid):
                self._check_asked(event, txid)
        return 0

    def _check_wish(self, event: Event, commands: list[Command]) -> None:
        if not isinstance(event, Wished):
            return
        told = [outcome.wish for each in commands if isinstance(each, StoreRecord) for outcome in each.outcomes]
        due = [] if event.wish.epoch else [event.wish.id]
        assert event.wish != self.parks_by, self._bug(event, "it is decided, and still waited for")
        assert told == due, self._bug(event, f"{told} is carried out")

    def _check_record(self, event: Event, record: StoreRecord) -> None:
        pins = {pin.txid for pin in self._last_store.committing if pin.txid >= record.current_txid}
        assert record.current_txid >= self._last_store.current_txid, self._bug(event, "the position goes back")
        assert pins <= {pin.txid for pin in record.committing}, self._bug(event, "a pin goes before its commit closes")
        self._check_standing(event, record)
        self._check_parked(event, record)
        self._last_store = evolve(record, outcomes=()) if record.outcomes else record

    def _check_standing(self, event: Event, record: StoreRecord) -> None:
        before, now, is_left = self._last_store.standing, record.standing, bool(record.attempt_ids)
        due = before.after(event.wish) if isinstance(event, Wished) and not event.refusal else before
        drained = evolve(due, hold=Hold.PAUSED) if due.hold is Hold.DRAINING and not is_left else due
        is_due = now in (due, drained) and (isinstance(event, Wished) or not record.outcomes)
        assert is_due, self._bug(event, f"{before} turns into {now}")
        assert is_left or now.hold is not Hold.DRAINING, self._bug(event, "a drain is over, and no pause")

    def _check_parked(self, event: Event, record: StoreRecord) -> None:
        last, due = self._last_store, self._last_store.parked
        begun = record.attempt_ids.keys() - last.attempt_ids.keys()
        match event:
            case Wished(refusal=""):
                due = parked_after(last, event)
            case Ticked() if begun:
                due = due.bind(min(begun))
            case PhaseAcked() if record.current_txid > last.current_txid:
                due = due.close(last.current_txid)
        assert record.parked == due, self._bug(event, f"{last.parked} turns into {record.parked}")

    def _check_parking(self, event: Event, *, is_stored: bool) -> None:
        if not isinstance(event, Wished) or event.parking is None:
            return
        txid, last = event.parking.txid, self.attempt_ids[self.current_txid]
        is_next = event.parking.first_attempt_id == (last if is_stored else last + 1)
        is_alone = [*self._active] == ([txid] if is_stored else [])
        is_safe = txid == self.current_txid and is_next and is_alone
        assert is_safe, self._bug(event, f"an attempt of {txid} with rows may commit")

    def _check_asked(self, event: Event, txid: int) -> None:
        assert txid == self.current_txid == self.asked, self._bug(event, f"outputs are asked for {txid}")
        assert not self._active, self._bug(event, "outputs are asked while attempts are live")

    def _check_batch(self, event: Event, attempt: TransactionAttempt, tried: Mapping[int, int]) -> None:
        stands, last = self._last_store.standing, tried.get(attempt.txid, FIRST_ATTEMPT_ID - 1)
        is_held = self.is_stopping or stands.is_paused or not (stands.takes_new or last >= FIRST_ATTEMPT_ID)
        may = isinstance(event, Ticked) and attempt.txid in event.ready and not is_held
        limit = min(self.max_spout_pending, stands.rate.pending or self.max_spout_pending)
        stored = self._last_store.attempt_ids.get(attempt.txid)
        assert may, self._bug(event, f"{attempt} starts and may not")
        assert len(self._active) <= limit, self._bug(event, f"{attempt} starts beyond the window")
        assert attempt.attempt_id > last, self._bug(event, f"{attempt} starts after attempt {last}")
        assert attempt.attempt_id == stored, self._bug(event, f"{attempt} starts before it is stored")

    def _check_commits(self, event: Event, group: Sequence[TransactionAttempt]) -> None:
        if not group:
            return
        due = range(self.current_txid, self.current_txid + len(group))
        is_cause = isinstance(event, PhaseAcked) or (isinstance(event, Wished) and event.parking is not None)
        in_turn = is_cause and not self.storing and self._begun_upto < due.start and all(map(self.is_live, group))
        behind = self._active.get(due.stop)
        most = 1 if self._last_store.parked.is_parking(due.start) else self.group_max
        is_full = len(group) == most or behind is None or behind.status is AttemptStatus.PROCESSING
        assert [attempt.txid for attempt in group] == [*due], self._bug(event, "commits are out of order")
        assert in_turn, self._bug(event, "a commit begins while another is open")
        assert len(group) <= most, self._bug(event, "too many commit together")
        assert is_full, self._bug(event, f"{due.stop} is processed, and doesn't commit with those before it")
        self._begun_upto = due[-1]

    def _check_cancelled(self, event: AttemptFailed | ParkWanted) -> None:
        failed = event.attempt.txid if isinstance(event, AttemptFailed) else event.txid
        current = self.current_txid
        first = current if failed <= self._begun_upto else failed  # a group fails as one
        assert len(self._active) == first - current, self._bug(event, f"what is cancelled does not begin at {first}")
        self._begun_upto = min(self._begun_upto, first - 1)

    def _check_state(self, event: Event, active: int) -> None:
        current, txids = self.current_txid, self._active
        ends = next(iter(txids), current), next(reversed(txids), current - 1)
        lowest = self._active[current].status if current in txids else AttemptStatus.PROCESSING
        position = StoreRecord(current, self.attempt_ids, self.committing, self.standing, parked=self.parked)
        assert len(txids) == active, self._bug(event, "a transaction came or went without a command")
        assert ends == (current, current + active - 1), self._bug(event, "the active transactions have a gap")
        is_deciding = bool(self.asked or self.storing)
        assert is_deciding == (self.parks_by is not None), self._bug(event, "nobody waits for what is asked or stored")
        is_stuck = lowest is AttemptStatus.COMMITTED or (lowest is AttemptStatus.PROCESSED and not self.storing)
        assert not is_stuck, self._bug(event, f"{current} is stuck")
        assert position == self._last_store, self._bug(event, "what is durable has changed, and is not stored")
        assert isinstance(event, Wished) or not self._may_act(event), self._bug(event, "not all was done that follows")

    def _bug(self, event: Event, what: str) -> str:
        return our_bug(f"{what}, after {event} with {self}")
