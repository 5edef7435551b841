"""Every reachable state of the machine at small scope, and proof that each invariant would be seen to fail.

Once by the exploration, which looks from outside; and once by the product itself, by what it asserts of each step.
"""

from __future__ import annotations

import ast
import inspect
import traceback
from collections.abc import Iterator
from itertools import islice, product

import pytest
from attrs import evolve

from coordinators.protocol import master
from coordinators.protocol.master import AttemptStatus, MasterBatchCoordinator
from coordinators.protocol.protocol import (
    AskOutputs,
    CancelAttempt,
    Command,
    EmitCommit,
    EmitSuccess,
    Event,
    PhaseAcked,
    Stopping,
    StoreRecord,
    StreamId,
    Ticked,
    Wished,
)
from coordinators.record.parking import NOTHING_PARKED, Parking
from coordinators.record.wishes import NOTHING_STANDS, Action, Hold, Wish
from coordinators.values.attempt import TransactionAttempt
from tests.unit.coordinators.exploration import (
    INVARIANTS,
    Explorer,
    Restore,
    Scope,
    Violation,
    entry_of,
    restore,
)

COMMITTING = AttemptStatus.COMMITTING

SCOPES = [
    Scope(max_spout_pending=1, txid_max=4, attempt_max=4),
    Scope(max_spout_pending=1, txid_max=4, attempt_max=4, store_intents=True),
    Scope(max_spout_pending=2, txid_max=4, attempt_max=2),
    Scope(max_spout_pending=2, txid_max=4, attempt_max=2, store_intents=True),
    Scope(max_spout_pending=3, txid_max=4, attempt_max=1, store_intents=True),
    Scope(max_spout_pending=2, txid_max=4, attempt_max=2, group_max=2),
    Scope(max_spout_pending=3, txid_max=4, attempt_max=1, group_max=2),
    Scope(max_spout_pending=2, txid_max=2, attempt_max=1, wishes_max=1),
    Scope(max_spout_pending=2, txid_max=3, attempt_max=1, group_max=2, parks_max=1),
    Scope(max_spout_pending=2, txid_max=2, attempt_max=2, store_intents=True, parks_max=1, stores_rows=True),
    Scope(max_spout_pending=1, txid_max=4, attempt_max=1, parks_max=1, splits=True),
    Scope(max_spout_pending=1, txid_max=3, attempt_max=1, parks_max=1, letters=True),
]


LARGE = (
    Scope(max_spout_pending=3, txid_max=4, attempt_max=1, group_max=3, store_intents=True),
    Scope(max_spout_pending=1, txid_max=3, attempt_max=2, parks_max=2),
    Scope(max_spout_pending=3, txid_max=4, attempt_max=2),
    Scope(max_spout_pending=2, txid_max=2, attempt_max=1, wishes_max=2),
)
"""These take ten seconds each, or more."""


@pytest.mark.parametrize("scope", [*SCOPES, *(pytest.param(each, marks=pytest.mark.slow) for each in LARGE)], ids=str)
def test_every_invariant_holds_in_every_reachable_state(scope: Scope) -> None:
    explorer = Explorer(scope)
    explorer.run()
    assert len({world.current_txid for world in explorer.seen}) == scope.txid_max + 1
    for phases in _reachable_phases(scope.max_spout_pending, scope.group_max):
        assert any(tuple(phase for *_, phase in world.phases) == phases for world in explorer.seen)


def _reachable_phases(size_max: int, group_max: int) -> Iterator[tuple[AttemptStatus, ...]]:
    """Every combination of phases that active transactions can be in: proof that the exploration got around.

    The lowest one is processed or commits; those that commit with it may have committed before it has; all behind them
    may be processed or not.
    """
    earlier, later = (AttemptStatus.PROCESSING, AttemptStatus.PROCESSED), (COMMITTING, AttemptStatus.COMMITTED)
    for size in range(size_max + 1):
        yield from product(*[earlier[:1] if index == 0 else earlier for index in range(size)])
        for run in range(1, min(group_max, size) + 1):
            phases = [later[:1], *[later] * (run - 1), *[earlier] * (size - run)]
            yield from product(*phases)


# --- the mutation gate ------------------------------------------------------------------------------------------------


class AnnouncesSuccessFirst(MasterBatchCoordinator):
    """Storm's order."""

    def _close(self, attempt: TransactionAttempt) -> Iterator[Command]:
        store, success = super()._close(attempt)
        yield from (success, store)


class EmitsBeforeItStores(MasterBatchCoordinator):
    def _admit(self, ready: frozenset[int]) -> Iterator[Command]:
        commands = list(super()._admit(ready))
        yield from commands[1:] + commands[:1]


class StoresTheOldPosition(MasterBatchCoordinator):
    def _close(self, attempt: TransactionAttempt) -> Iterator[Command]:
        yield StoreRecord(self.current_txid, dict(self.attempt_ids), self.committing)
        yield from list(super()._close(attempt))[1:]


class GoesOnPastAnUnreadyTxid(MasterBatchCoordinator):
    """Storm's loop."""

    def _startable(self, ready: frozenset[int]) -> Iterator[TransactionAttempt]:
        for txid in self.window:
            if txid in ready and txid not in self._active:
                yield TransactionAttempt(txid, self.attempt_ids.get(txid, -1) + 1)


class NeverStopsToAskWhatIsReady(MasterBatchCoordinator):
    def _startable(self, ready: frozenset[int]) -> Iterator[TransactionAttempt]:
        return super()._startable(frozenset(self.window))


class ReplaysWhileItStops(MasterBatchCoordinator):
    def _admit(self, ready: frozenset[int]) -> Iterator[Command]:
        is_stopping, self.is_stopping = self.is_stopping, False
        commands = list(super()._admit(frozenset(ready & self.attempt_ids.keys()) if is_stopping else ready))
        self.is_stopping = is_stopping
        yield from commands


class StartsOneMoreThanTheWindow(MasterBatchCoordinator):
    @property
    def window(self) -> range:
        return range(self.current_txid, self.current_txid + self.max_spout_pending + 1)


class StartsOneATick(MasterBatchCoordinator):
    def _startable(self, ready: frozenset[int]) -> Iterator[TransactionAttempt]:
        return islice(super()._startable(ready), 1)


class UsesAnAttemptIdAgain(MasterBatchCoordinator):
    def _startable(self, ready: frozenset[int]) -> Iterator[TransactionAttempt]:
        for attempt in super()._startable(ready):
            yield TransactionAttempt(attempt.txid, max(0, attempt.attempt_id - 1))


class ForgetsTheAttemptIdsOfWhatFailed(MasterBatchCoordinator):
    def _fail(self, attempt: TransactionAttempt) -> Iterator[Command]:
        for command in super()._fail(attempt):
            yield command
            assert isinstance(command, CancelAttempt)
            self.attempt_ids.pop(command.attempt.txid)


class DropsTheLiveAttemptOnAStaleFailure(MasterBatchCoordinator):
    """Storm removes before it compares."""

    def _fail(self, attempt: TransactionAttempt) -> Iterator[Command]:
        entry = self._active.get(attempt.txid)
        return super()._fail(entry.attempt) if entry else iter(())


class KeepsTheLaterTransactions(MasterBatchCoordinator):
    def _fail(self, attempt: TransactionAttempt) -> Iterator[Command]:
        if self.is_live(attempt):
            yield CancelAttempt(self._active.pop(attempt.txid).attempt)


class CancelsTheEarlierTransactionsToo(MasterBatchCoordinator):
    def _fail(self, attempt: TransactionAttempt) -> Iterator[Command]:
        if self.is_live(attempt):
            yield from super()._fail(self._active[self.current_txid].attempt)


class CancelsWithoutAWord(MasterBatchCoordinator):
    def _fail(self, attempt: TransactionAttempt) -> Iterator[Command]:
        return iter(list(super()._fail(attempt))[:1])


class IgnoresFailuresOfWhatIsProcessed(MasterBatchCoordinator):
    def _fail(self, attempt: TransactionAttempt) -> Iterator[Command]:
        entry = self._active.get(attempt.txid)
        if entry is not None and entry.status is AttemptStatus.PROCESSED:
            return iter(())
        return super()._fail(attempt)


class AnyAckIsAnAck(MasterBatchCoordinator):
    """Storm's ack names no stream, so a late one of the batch finishes the commit."""

    def _advance(self, attempt: TransactionAttempt, stream: StreamId) -> Iterator[Command]:
        entry = self._active.get(attempt.txid)
        committing = entry is not None and entry.status is AttemptStatus.COMMITTING
        return super()._advance(attempt, StreamId.COMMIT if committing else StreamId.BATCH)


class TakesAcksOfAnyAttempt(MasterBatchCoordinator):
    def _advance(self, attempt: TransactionAttempt, stream: StreamId) -> Iterator[Command]:
        entry = self._active.get(attempt.txid)
        return super()._advance(entry.attempt if entry else attempt, stream)


class CommitsOutOfOrder(MasterBatchCoordinator):
    def _commit_lowest(self) -> Iterator[Command]:
        for entry in self._active.values():
            if entry.status is AttemptStatus.PROCESSED:
                entry.status = AttemptStatus.COMMITTING
                yield EmitCommit(entry.attempt)


class CommitsWhatIsStillProcessed(MasterBatchCoordinator):
    def _admit(self, ready: frozenset[int]) -> Iterator[Command]:
        yield from super()._admit(ready)
        for entry in islice(self._active.values(), 1):
            if entry.status is AttemptStatus.PROCESSING:
                entry.status = AttemptStatus.COMMITTING
                yield EmitCommit(entry.attempt)


class WaitsForATickToCommit(MasterBatchCoordinator):
    def _close(self, attempt: TransactionAttempt) -> Iterator[Command]:
        yield from super()._close(attempt)
        self.max_spout_pending = -self.max_spout_pending

    def _commit_lowest(self) -> Iterator[Command]:
        if self.max_spout_pending < 0:
            self.max_spout_pending = -self.max_spout_pending
            return iter(())
        return super()._commit_lowest()


class CommitsARunOneByOne(MasterBatchCoordinator):
    def _commit_lowest(self) -> Iterator[Command]:
        self.group_max, group_max = 1, self.group_max
        yield from list(super()._commit_lowest())
        self.group_max = group_max


class CommitsARunBackwards(MasterBatchCoordinator):
    def _commit_lowest(self) -> Iterator[Command]:
        commands = list(super()._commit_lowest())
        stores = [command for command in commands if isinstance(command, StoreRecord)]
        yield from [*stores, *reversed(commands[len(stores) :])]


class ClosesARunBackwards(MasterBatchCoordinator):
    def _close_committed(self) -> Iterator[Command]:
        done = [entry for entry in self._active.values() if entry.status is AttemptStatus.COMMITTED]
        for entry in reversed(done):
            yield from self._close(entry.attempt)


class FailsOnlyTheRestOfARun(MasterBatchCoordinator):
    def _fail(self, attempt: TransactionAttempt) -> Iterator[Command]:
        if self.is_live(attempt):
            for txid in [txid for txid in self._active if txid >= attempt.txid]:
                yield CancelAttempt(self._active.pop(txid).attempt)


class AnnouncesSuccessTwice(MasterBatchCoordinator):
    def _close(self, attempt: TransactionAttempt) -> Iterator[Command]:
        yield from super()._close(attempt)
        yield EmitSuccess(attempt)


class ForgetsSuccess(MasterBatchCoordinator):
    def _close(self, attempt: TransactionAttempt) -> Iterator[Command]:
        return islice(super()._close(attempt), 1)


class AnnouncesTheCommitBeforeThePin(MasterBatchCoordinator):
    def _commit_lowest(self) -> Iterator[Command]:
        return reversed(list(super()._commit_lowest()))


class UnpinsWhatFailed(MasterBatchCoordinator):
    def _fail(self, attempt: TransactionAttempt) -> Iterator[Command]:
        if self.is_live(attempt):
            self.committing = ()
        return super()._fail(attempt)


class LosesTheLowestWhenItStops(MasterBatchCoordinator):
    def handle(self, event: Event) -> list[Command]:
        if event == Stopping():
            self._active.pop(self.current_txid, None)
        return super().handle(event)


class ForgetsAnAckThatComesEarly(MasterBatchCoordinator):
    def _advance(self, attempt: TransactionAttempt, stream: StreamId) -> Iterator[Command]:
        return super()._advance(attempt, stream) if attempt.txid == self.current_txid else iter(())


class ChangesWhatIsDurableInSilence(MasterBatchCoordinator):
    def _admit(self, ready: frozenset[int]) -> Iterator[Command]:
        yield from super()._admit(ready)
        self.attempt_ids.update({txid: attempt_id + 1 for txid, attempt_id in self.attempt_ids.items()})


class StoresAnEarlierPosition(MasterBatchCoordinator):
    def _admit(self, ready: frozenset[int]) -> Iterator[Command]:
        for command in super()._admit(ready):
            earlier = self.current_txid - 1
            yield evolve(command, current_txid=earlier) if isinstance(command, StoreRecord) else command


class UnpinsWhenItStartsABatch(MasterBatchCoordinator):
    def _admit(self, ready: frozenset[int]) -> Iterator[Command]:
        for command in super()._admit(ready):
            self.committing = ()
            yield evolve(command, committing=()) if isinstance(command, StoreRecord) else command


class StartsTheNextWhenItCloses(MasterBatchCoordinator):
    """Storm's ``ack`` calls ``sync``: what is ready now was not asked."""

    def _advance(self, attempt: TransactionAttempt, stream: StreamId) -> Iterator[Command]:
        commands = list(super()._advance(attempt, stream))
        yield from commands
        if commands and stream is StreamId.COMMIT:
            yield from self._admit(frozenset(self.window))


class CancelsAtATick(MasterBatchCoordinator):
    def _admit(self, ready: frozenset[int]) -> Iterator[Command]:
        commands = list(super()._admit(ready))
        yield from commands
        if commands:
            yield CancelAttempt(self._active.popitem()[1].attempt)


class AnnouncesACommitTwice(MasterBatchCoordinator):
    def _advance(self, attempt: TransactionAttempt, stream: StreamId) -> Iterator[Command]:
        lowest = self._active.get(self.current_txid)
        is_batch = stream is StreamId.BATCH and self._may_act(PhaseAcked(attempt, stream))
        if is_batch and lowest and lowest.status is COMMITTING:
            yield EmitCommit(lowest.attempt)
        yield from super()._advance(attempt, stream)


class CommitsMoreThanARunMayHave(MasterBatchCoordinator):
    def _commit_lowest(self) -> Iterator[Command]:
        self.group_max += 1
        commands = list(super()._commit_lowest())
        self.group_max -= 1
        yield from commands


class KeepsAWish(MasterBatchCoordinator):
    def _carry_out(self, wished: Wished) -> Iterator[Command]:
        for each in super()._carry_out(wished):
            yield evolve(each, outcomes=()) if isinstance(each, StoreRecord) else each


class TellsTwiceWhatCameOfAWish(MasterBatchCoordinator):
    def _carry_out(self, wished: Wished) -> Iterator[Command]:
        for each in super()._carry_out(wished):
            yield evolve(each, outcomes=each.outcomes * 2) if isinstance(each, StoreRecord) else each


class LiftsWhatStandsWhenItCloses(MasterBatchCoordinator):
    def _close(self, attempt: TransactionAttempt) -> Iterator[Command]:
        self.standing = NOTHING_STANDS
        yield from super()._close(attempt)


class ResumesByItself(MasterBatchCoordinator):
    """As the user of the process does, who knows nothing of operators."""

    def _answer(self, event: Event) -> list[Command]:
        if event == Stopping():
            self.standing = NOTHING_STANDS
        return super()._answer(event)


class ReplaysInAnOperatorsPause(MasterBatchCoordinator):
    @property
    def is_paused(self) -> bool:
        return self.is_stopping or self.standing.paused_by != 0

    @property
    def takes_new(self) -> bool:
        return not self.is_paused and self.standing.hold is Hold.NOTHING


class IgnoresItsOwnPause(MasterBatchCoordinator):
    @property
    def is_paused(self) -> bool:
        return self.is_stopping or self.standing.hold is Hold.PAUSED

    @property
    def takes_new(self) -> bool:
        return not self.is_stopping and self.standing.hold is Hold.NOTHING


class LiftsItsOwnPauseWithTheOperators(MasterBatchCoordinator):
    def _carry_out(self, wished: Wished) -> Iterator[Command]:
        if wished.wish.action is Action.RESUME:
            self.standing = evolve(self.standing, paused_by=0)
        yield from super()._carry_out(wished)


class StartsNewOnesInADrain(MasterBatchCoordinator):
    @property
    def takes_new(self) -> bool:
        return not self.is_paused


class DrainsWithoutAnEnd(MasterBatchCoordinator):
    def _end_drain(self) -> bool:
        return False


class HeedsNoLimit(MasterBatchCoordinator):
    @property
    def window(self) -> range:
        return range(self.current_txid, self.current_txid + self.max_spout_pending)


class AsksWhileAttemptsAreLive(MasterBatchCoordinator):
    def _ask_outputs(self, txid: int, wish: Wish) -> Iterator[Command]:
        if txid == self.current_txid:
            self.asked, self.parks_by = txid, wish
            yield AskOutputs(txid)


class AsksForTheNextOne(MasterBatchCoordinator):
    def _ask_outputs(self, txid: int, wish: Wish) -> Iterator[Command]:
        for each in super()._ask_outputs(txid, wish):
            yield AskOutputs(each.txid + 1) if isinstance(each, AskOutputs) else each


class StartsWhileItAsks(MasterBatchCoordinator):
    def _admit(self, ready: frozenset[int]) -> Iterator[Command]:
        asked, self.asked = self.asked, 0
        commands = list(super()._admit(ready))
        self.asked = asked
        yield from commands


class NeverHearsTheAnswer(MasterBatchCoordinator):
    def _carry_out(self, wished: Wished) -> Iterator[Command]:
        asked, parks_by = self.asked, self.parks_by
        yield from super()._carry_out(wished)
        self.asked, self.parks_by = asked, parks_by


class TakesAnyRefusalForTheAnswer(MasterBatchCoordinator):
    def _carry_out(self, wished: Wished) -> Iterator[Command]:
        yield from super()._carry_out(wished)
        if wished.wish.action is Action.PARK:
            self.asked, self.parks_by = 0, None


class ParksAgainstAnOutput(MasterBatchCoordinator):
    def _carry_out(self, wished: Wished) -> Iterator[Command]:
        txid = self.current_txid
        parking = wished.parking or Parking(txid, self.attempt_ids.get(txid, 0) + 1, entry_of(txid))
        yield from super()._carry_out(evolve(wished, refusal="", parking=parking))


class CommitsRowsThatAreOnlyStored(MasterBatchCoordinator):
    def _advance(self, attempt: TransactionAttempt, stream: StreamId) -> Iterator[Command]:
        self.storing, storing = 0, self.storing
        yield from super()._advance(attempt, stream)
        self.storing = storing


class StartsOthersWhileItStores(MasterBatchCoordinator):
    def _admit(self, ready: frozenset[int]) -> Iterator[Command]:
        self.storing, storing = 0, self.storing
        commands = list(super()._admit(ready))
        self.storing = storing
        yield from commands


class StoresForEver(MasterBatchCoordinator):
    def _carry_out(self, wished: Wished) -> Iterator[Command]:
        storing = self.storing
        yield from super()._carry_out(wished)
        self.storing = storing


class KeepsTheAttemptWhoseRowsNobodyWants(MasterBatchCoordinator):
    def _carry_out(self, wished: Wished) -> Iterator[Command]:
        if wished.refusal and wished.wish == self.parks_by:
            self.storing = 0
        yield from super()._carry_out(wished)


class ForgetsAnAttemptWhenItParks(MasterBatchCoordinator):
    def _carry_out(self, wished: Wished) -> Iterator[Command]:
        if wished.parking is not None:
            self.attempt_ids[self.current_txid] -= 1
        yield from super()._carry_out(wished)


class GivesWhatIsParkedOneMoreTry(MasterBatchCoordinator):
    def _carry_out(self, wished: Wished) -> Iterator[Command]:
        list(super()._carry_out(wished))
        if self.parked.parking is not None:
            later = evolve(self.parked.parking, first_attempt_id=self.parked.parking.first_attempt_id + 1)
            self.parked = evolve(self.parked, parking=later)
        yield self._store()


class ClosesWhatIsParkedAsCommitted(MasterBatchCoordinator):
    def _close(self, attempt: TransactionAttempt) -> Iterator[Command]:
        self.parked = evolve(self.parked, parking=None)
        yield from super()._close(attempt)


class LeavesWhatWasReleasedOnTheList(MasterBatchCoordinator):
    def _close(self, attempt: TransactionAttempt) -> Iterator[Command]:
        released = self.parked.released_in(attempt.txid)
        _, *others = super()._close(attempt)
        if released is not None:
            self.parked = evolve(self.parked, entries=(*self.parked.entries, released))
        yield from (self._store(), *others)


class ReleasesByAReplay(MasterBatchCoordinator):
    def _admit(self, ready: frozenset[int]) -> Iterator[Command]:
        for txid in self.admissible:
            self.parked = self.parked.bind(txid)
        yield from super()._admit(ready)


class HasARowInBothParts(MasterBatchCoordinator):
    def _carry_out(self, wished: Wished) -> Iterator[Command]:
        for command in super()._carry_out(wished):
            if wished.split is not None:
                whole = wished.split.whole.stored
                entries = tuple(evolve(each, stored=whole) if each.part else each for each in self.parked.entries)
                self.parked = evolve(self.parked, entries=entries)
            yield self._store() if isinstance(command, StoreRecord) else command


class LosesTheRowsThatPass(MasterBatchCoordinator):
    def _carry_out(self, wished: Wished) -> Iterator[Command]:
        for command in super()._carry_out(wished):
            if wished.split is not None:
                self.parked = evolve(self.parked, entries=tuple(e for e in self.parked.entries if not e.part))
            yield self._store() if isinstance(command, StoreRecord) else command


class LosesLetters(MasterBatchCoordinator):
    def _carry_out(self, wished: Wished) -> Iterator[Command]:
        for command in super()._carry_out(wished):
            self.parked = evolve(self.parked, entries=tuple(e for e in self.parked.entries if not e.letters_of))
            yield self._store() if isinstance(command, StoreRecord) else command


class CommitsWhatIsParkedWithOthers(MasterBatchCoordinator):
    @property
    def _group_max(self) -> int:
        return self.group_max


def restore_without_what_is_parked(
    machine: type[MasterBatchCoordinator], scope: Scope, stored: StoreRecord
) -> MasterBatchCoordinator:
    return restore(machine, scope, evolve(stored, parked=NOTHING_PARKED))


def restore_without_what_stands(
    machine: type[MasterBatchCoordinator], scope: Scope, stored: StoreRecord
) -> MasterBatchCoordinator:
    return restore(machine, scope, evolve(stored, standing=NOTHING_STANDS))


def restore_without_attempt_ids(
    machine: type[MasterBatchCoordinator], scope: Scope, stored: StoreRecord
) -> MasterBatchCoordinator:
    return restore(machine, scope, evolve(stored, attempt_ids={}))


def restore_storms_window(
    machine: type[MasterBatchCoordinator], scope: Scope, stored: StoreRecord
) -> MasterBatchCoordinator:
    """trident-semantics.md b.1-15: the last slot of the window is forgotten."""
    below = stored.current_txid + scope.max_spout_pending - 1
    return restore(
        machine, scope, evolve(stored, attempt_ids={t: a for t, a in stored.attempt_ids.items() if t < below})
    )


def restore_without_pins(
    machine: type[MasterBatchCoordinator], scope: Scope, stored: StoreRecord
) -> MasterBatchCoordinator:
    return restore(machine, scope, evolve(stored, committing=()))


def restore_what_is_closed(
    machine: type[MasterBatchCoordinator], scope: Scope, stored: StoreRecord
) -> MasterBatchCoordinator:
    """What a takeover has closed is still attempted."""
    return restore(machine, scope, evolve(stored, current_txid=max(1, stored.current_txid - 1)))


def restore_with_the_pause_of_another_process(
    machine: type[MasterBatchCoordinator], scope: Scope, stored: StoreRecord
) -> MasterBatchCoordinator:
    restored = restore(machine, scope, stored)
    restored.standing = stored.standing
    return restored


MUTATIONS: dict[type[MasterBatchCoordinator] | Restore, str] = {
    AnnouncesSuccessFirst: "store first",
    EmitsBeforeItStores: "store first",
    StoresTheOldPosition: "store first",
    GoesOnPastAnUnreadyTxid: "admission",
    NeverStopsToAskWhatIsReady: "admission",
    ReplaysWhileItStops: "admission",
    StartsOneMoreThanTheWindow: "admission",
    StartsOneATick: "full window",
    UsesAnAttemptIdAgain: "new attempt",
    ForgetsTheAttemptIdsOfWhatFailed: "durable",
    DropsTheLiveAttemptOnAStaleFailure: "stale",
    KeepsTheLaterTransactions: "cancelled",
    CancelsTheEarlierTransactionsToo: "cancelled",
    CancelsWithoutAWord: "cancelled",
    IgnoresFailuresOfWhatIsProcessed: "cancelled",
    AnyAckIsAnAck: "stale",
    TakesAcksOfAnyAttempt: "stale",
    CommitsOutOfOrder: "commit order",
    CommitsWhatIsStillProcessed: "commit order",
    WaitsForATickToCommit: "prompt commit",
    CommitsARunOneByOne: "full run",
    CommitsARunBackwards: "commit order",
    ClosesARunBackwards: "success order",
    FailsOnlyTheRestOfARun: "whole run",
    AnnouncesSuccessTwice: "success order",
    ForgetsSuccess: "closed",
    AnnouncesTheCommitBeforeThePin: "pinned",
    UnpinsWhatFailed: "pinned",
    LosesTheLowestWhenItStops: "contiguous",
    ForgetsAnAckThatComesEarly: "as announced",
    ChangesWhatIsDurableInSilence: "durable",
    StoresAnEarlierPosition: "durable",
    UnpinsWhenItStartsABatch: "pinned",
    StartsTheNextWhenItCloses: "admission",
    CancelsAtATick: "cancelled",
    AnnouncesACommitTwice: "commit order",
    CommitsMoreThanARunMayHave: "full run",
    KeepsAWish: "wish",
    TellsTwiceWhatCameOfAWish: "wish",
    LiftsWhatStandsWhenItCloses: "stands",
    ResumesByItself: "stands",
    ReplaysInAnOperatorsPause: "held",
    IgnoresItsOwnPause: "held",
    LiftsItsOwnPauseWithTheOperators: "stands",
    restore_with_the_pause_of_another_process: "bound",
    StartsNewOnesInADrain: "held",
    HeedsNoLimit: "held",
    DrainsWithoutAnEnd: "drained",
    AsksWhileAttemptsAreLive: "asked",
    AsksForTheNextOne: "asked",
    StartsWhileItAsks: "asked",
    NeverHearsTheAnswer: "asked",
    TakesAnyRefusalForTheAnswer: "asked",
    ParksAgainstAnOutput: "parked",
    CommitsRowsThatAreOnlyStored: "stored",
    ForgetsAnAttemptWhenItParks: "new attempt",
    StartsOthersWhileItStores: "alone",
    StoresForEver: "stored",
    KeepsTheAttemptWhoseRowsNobodyWants: "prompt commit",
    GivesWhatIsParkedOneMoreTry: "parked",
    ClosesWhatIsParkedAsCommitted: "parked",
    LeavesWhatWasReleasedOnTheList: "parked",
    ReleasesByAReplay: "parked",
    HasARowInBothParts: "parts",
    LosesTheRowsThatPass: "parts",
    LosesLetters: "parked",
    CommitsWhatIsParkedWithOthers: "alone",
    restore_without_what_is_parked: "durable",
    restore_without_what_stands: "stands",
    restore_without_attempt_ids: "new attempt",
    restore_storms_window: "new attempt",
    restore_without_pins: "pinned",
    restore_what_is_closed: "durable",
}


GATE = Scope(max_spout_pending=3, txid_max=4, attempt_max=1, store_intents=True, group_max=2, wishes_max=1)
SPLITTING_GATE = Scope(max_spout_pending=1, txid_max=2, attempt_max=1, parks_max=1, splits=True)
LETTERS_GATE = Scope(max_spout_pending=1, txid_max=2, attempt_max=1, letters=True)
PARKING_GATE = Scope(max_spout_pending=2, txid_max=3, attempt_max=2, group_max=2, parks_max=1, stores_rows=True)


def gate_of(mutation: type[MasterBatchCoordinator] | Restore) -> Scope:
    """Where it is looked for."""
    if MUTATIONS[mutation] == "parts":
        return SPLITTING_GATE
    if mutation is LosesLetters:
        return LETTERS_GATE
    is_about_parking = mutation in (
        restore_without_what_is_parked,
        KeepsTheAttemptWhoseRowsNobodyWants,
        ForgetsAnAttemptWhenItParks,
    )
    return PARKING_GATE if is_about_parking or MUTATIONS[mutation] in ("asked", "parked", "alone", "stored") else GATE


def unchecked(mutation: type[MasterBatchCoordinator]) -> type[MasterBatchCoordinator]:
    """The same without the assertions of the product, which would be the first to tell."""
    return type(mutation.__name__, (mutation,), {"_check": lambda *_, **__: None})


@pytest.mark.parametrize(
    ("mutation", "invariant"), MUTATIONS.items(), ids=lambda value: getattr(value, "__name__", value)
)
def test_a_mutation_is_caught_by_its_invariant_alone(
    mutation: type[MasterBatchCoordinator] | Restore, invariant: str
) -> None:
    explorer = Explorer(gate_of(mutation), watched=frozenset({invariant}))
    if isinstance(mutation, type):
        explorer.machine_type = unchecked(mutation)
    else:
        explorer.restore = mutation
    with pytest.raises(Violation, match=f"^{invariant}: "):
        explorer.run()


def test_each_invariant_has_been_seen_to_fail() -> None:
    assert set(MUTATIONS.values()) == set(INVARIANTS)


# --- what the product asserts by itself -------------------------------------------------------------------------------

DEFECTS = [mutation for mutation in MUTATIONS if isinstance(mutation, type)]


def caught(machine: type[MasterBatchCoordinator]) -> AssertionError:
    """What the machine itself says of the first wrong step, where nobody else looks."""
    with pytest.raises(AssertionError, match=r"^a defect of trident_py, please report it: .*, after .* with ") as found:
        Explorer(gate_of(machine), watched=frozenset(), machine_type=machine).run()
    return found.value


@pytest.mark.slow
def test_the_machine_catches_each_defect_by_itself_and_each_of_its_assertions_fails_for_one() -> None:
    tree = ast.parse(inspect.getsource(master))
    lines = {node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert)}
    found = {machine.__name__: caught(machine) for machine in DEFECTS}
    assert [name for name, error in found.items() if isinstance(error, Violation)] == []
    assert {traceback.extract_tb(error.__traceback__)[-1].lineno for error in found.values()} == lines


def test_no_command_leaves_a_machine_that_has_a_defect() -> None:
    machine = UsesAnAttemptIdAgain(attempt_ids={1: 0})
    with pytest.raises(AssertionError, match=r"please report it: 1:0 starts after attempt 0, after Ticked.*Again"):
        machine.handle(Ticked(frozenset({1})))
