"""The master batch coordinator: the one machine that decides what happens to which attempt, and when.

Rule 1: every status change happens in this file. Rule 2: nothing in this file reads a clock, opens a socket, starts a
thread or calls user code. It is told what happened (`handle`) and answers with what to do, in order.

Theory of operation. Transactions are numbered from 1. The active ones are contiguous, ``current … current+k``, and at
most ``max_spout_pending`` of them exist. Each goes

    PROCESSING ──($batch acked)──▶ PROCESSED ──(is the lowest)──▶ COMMITTING ──($commit acked)──▶ gone

The first and last arrows are triggered by events, the middle one by the state itself: whenever the lowest active
transaction is PROCESSED and nothing commits, its commit starts. So commits are strictly in order, one at a time.

Where every state can take several transactions in one atomic step, those behind the lowest that are PROCESSED as well
commit with it: a run. Its members are announced, acked and closed in txid order, each by itself; they fail together,
since nobody knows of a failed step which of them it has applied.

Where it leaves Storm's ``MasterBatchCoordinator`` on purpose: what is durable is stored before it is announced (Storm
announces success first); emission stops at the first txid that is not ready (Storm goes on past it, and hands out the
same input twice); a failure of an attempt that is no longer the live one changes nothing (Storm drops the live one);
no attempt id is forgotten at a restart (Storm's window is off by one).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from itertools import islice, takewhile

from attrs import define, field

from coordinators.attempt import FIRST_ATTEMPT_ID, INITIAL_TXID, TransactionAttempt
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


class AttemptStatus(StrEnum):
    """Where the live attempt of an active transaction is."""

    PROCESSING = "processing"
    PROCESSED = "processed"
    COMMITTING = "committing"
    COMMITTED = "committed"
    """By its own ledger; it is closed when those below it are."""


@define
class ActiveTransaction:
    """The live attempt of a transaction, and how far it has come."""

    attempt: TransactionAttempt
    status: AttemptStatus = AttemptStatus.PROCESSING


@define(kw_only=True)
class MasterBatchCoordinator:
    """Decides; never acts. One door: `handle`.

    Attributes:
        max_spout_pending: how many transactions may be active at once, at least 1. May be changed between events.
        current_txid: the lowest transaction that is not committed.
        attempt_ids: the last attempt id of every transaction from ``current_txid`` on that was ever tried.
        run_max: how many transactions may commit together, at least 1.
        pin_commits: store which attempt is about to commit before its commit is announced, for sinks that can't
            fence and spouts whose batches aren't fixed by their metadata.
        committing: the pinned attempts whose commit is not closed. A failure doesn't unpin: a late task may still
            apply it.
    """

    max_spout_pending: int = 1
    current_txid: int = INITIAL_TXID
    attempt_ids: dict[int, int] = field(factory=dict)
    run_max: int = 1
    pin_commits: bool = False
    committing: tuple[TransactionAttempt, ...] = ()
    paused: bool = False
    _active: dict[int, ActiveTransaction] = field(factory=dict, init=False)

    @property
    def active(self) -> Mapping[int, ActiveTransaction]:
        """The active transactions by txid, lowest first."""
        return self._active

    @property
    def window(self) -> range:
        """The txids that may be active now."""
        return range(self.current_txid, self.current_txid + self.max_spout_pending)

    def handle(self, event: Event) -> list[Command]:
        """Take one event and answer with the commands that follow from it, to be carried out in this order.

        Late and stale events change nothing. Anything that is not an `Event` is our bug and raises TypeError.
        """
        match event:
            case Ticked(ready):
                return list(self._admit(ready))
            case PhaseAcked(attempt, stream):
                return list(self._advance(attempt, stream))
            case AttemptFailed(attempt):
                return list(self._fail(attempt))
            case Paused():
                self.paused = True
            case Resumed():
                self.paused = False
            case _:
                raise TypeError(f"not an event of the master batch coordinator: {event!r}")
        return []

    def is_live(self, attempt: TransactionAttempt) -> bool:
        """Whether this very attempt is the active one of its transaction."""
        entry = self._active.get(attempt.txid)
        return entry is not None and entry.attempt == attempt

    def _admit(self, ready: frozenset[int]) -> Iterator[Command]:
        admitted = [] if self.paused else list(self._startable(ready))
        for attempt in admitted:
            self.attempt_ids[attempt.txid] = attempt.attempt_id
            self._active[attempt.txid] = ActiveTransaction(attempt)
        if admitted:
            yield self._store()
        for attempt in admitted:
            yield EmitBatch(attempt)

    def _startable(self, ready: frozenset[int]) -> Iterator[TransactionAttempt]:
        # The active transactions are a run from current_txid on, so what can start is the rest of the window.
        for txid in self.window[len(self._active) :]:
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
        yield self._store()  # Store, then announce: Storm announces first, and a crash between the two loses the batch.
        yield EmitSuccess(attempt)

    def _commit_lowest(self) -> Iterator[Command]:
        processed = takewhile(lambda entry: entry.status is AttemptStatus.PROCESSED, self._active.values())
        run = list(islice(processed, self.run_max))
        for entry in run:
            entry.status = AttemptStatus.COMMITTING
        if run and self.pin_commits:
            pinned = [entry.attempt for entry in run]
            # What an earlier, longer run has pinned behind this one stays: a late task may still apply it.
            self.committing = (*pinned, *(pin for pin in self.committing if pin.txid > pinned[-1].txid))
            yield self._store()
        for entry in run:
            yield EmitCommit(entry.attempt)

    def _fail(self, attempt: TransactionAttempt) -> Iterator[Command]:
        if not self.is_live(attempt):
            return
        commits = self._active[attempt.txid].status in (AttemptStatus.COMMITTING, AttemptStatus.COMMITTED)
        first = self.current_txid if commits else attempt.txid  # a run fails as one
        for txid in [txid for txid in self._active if txid >= first]:
            yield CancelAttempt(self._active.pop(txid).attempt)

    def _store(self) -> StoreRecord:
        return StoreRecord(self.current_txid, dict(self.attempt_ids), self.committing)
