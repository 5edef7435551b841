"""Every history of a small data plane: whatever ends first, fails or is cancelled, and whenever the topology ends."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from attrs import define, field, frozen

from coordinators.attempt import TransactionAttempt
from coordinators.messages import Acked, Diagnosis, Failed, FailureKind, SuccessDelivered
from coordinators.protocol import StreamId
from trident_py.engine.batcher import JobBatcher
from trident_py.engine.commit_lane import CommitGroup, CommitLane
from trident_py.engine.instructions import (
    Abandon,
    Abort,
    Answer,
    CancelEmit,
    CancelJob,
    CloseSpouts,
    CloseStates,
    CommitStep,
    DeliverSuccess,
    Emit,
    Instruction,
    KeepLeading,
    Post,
    Refuse,
    RunJob,
)
from trident_py.engine.plane import DataPlane
from trident_py.engine.shape import BranchShape, SpoutShape, TopologyShape
from trident_py.engine.stimuli import (
    Aborted,
    AttemptCancelled,
    BatchAnnounced,
    Closing,
    CommitAnnounced,
    EmitFailed,
    Emitted,
    JobDone,
    JobFailed,
    ReadDone,
    ReadWanted,
    SpoutClosed,
    SpoutSucceeded,
    StatesClosed,
    StepCommitted,
    StepFailed,
    Stimulus,
    SuccessAnnounced,
)
from trident_py.engine.work import Half, Job, Processed

NOBODY = 999
WHY = Diagnosis(ValueError("no"), FailureKind.USER_CODE)


@frozen(kw_only=True)
class Scope:
    """How far to go.

    Attributes:
        txids: how many transactions are announced, all at once.
        attempts: how often each, at most.
        large: which of them emit a large batch.
        empty: which of them no spout has a part in.
        fails: how often something raises.
        reads: how often somebody wants to read whole states.
        closes: whether the topology may end at any moment.
        bad: the transaction whose rows make every job fail that has them.
        told: which transaction is said to have failed then.
    """

    shape: TopologyShape
    txids: int = 2
    attempts: int = 1
    large: frozenset[int] = frozenset()
    empty: frozenset[int] = frozenset()
    fails: int = 0
    reads: int = 0
    closes: bool = False
    bad: int = 0
    told: int | None = None


def shape(spouts: str = "s", *, branches: int = 1, shares: bool = False, committer: bool = False) -> TopologyShape:
    return TopologyShape(
        spouts=tuple(SpoutShape(name=name, is_committer=committer) for name in spouts),
        branches=tuple(
            BranchShape(name=f"state{number}", spouts=frozenset(spouts), is_shareable=shares, keeps_alive=True)
            for number in range(branches)
        ),
    )


@define
class Small:
    """A data plane, a driver that does no more than it must, and what is under way outside.

    Attributes:
        due: what was asked for and has not ended, and in a lane of its own may end now.
        prepared: receipts that were handed out by jobs and neither committed nor given up, as attempt and branch.
        has: the transactions that each output has.
    """

    scope: Scope
    plane: DataPlane
    fails: int
    reads: int
    due: list[Any] = field(factory=list)
    prepared: list[tuple[TransactionAttempt, int]] = field(factory=list)
    has: dict[str, list[int]] = field(factory=dict)
    processed: dict[TransactionAttempt, int] = field(factory=dict)
    live: dict[int, TransactionAttempt] = field(factory=dict)
    tried: dict[int, int] = field(factory=dict)
    committing: dict[TransactionAttempt, int] = field(factory=dict)
    committed: int = 0
    answered: int = 0
    refused: int = 0
    is_closing: bool = False
    is_closed: bool = False

    @classmethod
    def of(cls, scope: Scope) -> Small:
        world = cls(scope, DataPlane(shape=scope.shape), scope.fails, scope.reads)
        for txid in range(1, scope.txids + 1):
            world.announce(txid)
        return world

    # --- the driver ---------------------------------------------------------------------------------------------------

    def announce(self, txid: int) -> None:
        number = self.tried.get(txid, -1) + 1
        attempt = TransactionAttempt(txid, number)
        self.tried[txid], self.live[txid], self.processed[attempt] = number, attempt, 0
        self.tell(BatchAnnounced(attempt, self.number(txid), {}, 0, [1] * len(self.scope.shape.spouts)))

    def number(self, txid: int) -> int | None:
        """Any that is not the txid, so that they are told apart."""
        return None if txid in self.scope.empty else txid + 100

    def drive(self) -> None:
        """Commit all that may commit, together; and announce again what failed."""
        if self.committing or self.is_closing:
            return
        group = []
        for txid in range(self.committed + 1, self.scope.txids + 1):
            attempt = self.live.get(txid)
            if attempt is None or self.processed[attempt] < len(self.scope.shape.branches):
                break
            group.append(attempt)
        if group:
            self.committing = dict.fromkeys(group, 0)
            outputs = self.plane.consumers(StreamId.COMMIT)
            self.tell(CommitAnnounced({attempt: list(range(outputs)) for attempt in group}))

    def fail(self, attempt: TransactionAttempt) -> None:
        """The attempt and every later one; where it commits, so do those before it."""
        if self.live.get(attempt.txid) != attempt:
            return
        is_committing = attempt in self.committing
        first = self.committed + 1 if is_committing else attempt.txid
        self.committing = {} if is_committing else self.committing
        failed = [txid for txid in self.live if txid >= first]
        for txid in failed:
            self.tell(AttemptCancelled(self.live.pop(txid)))
        for txid in failed:
            if self.tried[txid] + 1 < self.scope.attempts and not self.is_closing:
                self.announce(txid)

    def hear(self, message: Any) -> None:
        match message:
            case Acked(attempt, StreamId.COMMIT) if attempt in self.committing:
                self.committing[attempt] += 1
                self.close_committed()
            case Acked(attempt, StreamId.BATCH, took=-1):
                self.processed[attempt] += 1
            case Failed(attempt):
                self.fail(attempt)
            case SuccessDelivered(txid):
                owed = [each for each in self.due if isinstance(each, SpoutSucceeded) and each.txid == txid]
                assert not owed, f"the success of {txid} is delivered, but not to {owed}"

    def close_committed(self) -> None:
        for attempt, acks in list(self.committing.items()):
            if acks < self.plane.consumers(StreamId.COMMIT):
                return
            del self.committing[attempt], self.live[attempt.txid]
            self.committed = attempt.txid
            self.tell(SuccessAnnounced(attempt, self.number(attempt.txid)))

    # --- the world outside --------------------------------------------------------------------------------------------

    def tell(self, stimulus: Stimulus) -> None:
        heard: list[Any] = []
        instructions = self.plane.handle(stimulus)
        if isinstance(stimulus, AttemptCancelled) and not self.is_closing:  # `Closing` cancels all by itself
            self.check_cancelled(stimulus.attempt, instructions)
        for instruction in instructions:
            heard += self.take(instruction)
        for message in heard:
            self.hear(message)
        self.drive()
        uses = [each for each in self.due if isinstance(each, CommitStep | Abort | Answer | CloseStates)]
        assert len(uses) <= 1, f"states are used twice at a time: {uses}"

    def take(self, instruction: Instruction) -> Iterator[Any]:
        match instruction:
            case Post(message):
                yield message
            case Refuse():
                self.refused += 1
            case DeliverSuccess(attempt, number, spout):
                assert number == self.number(attempt.txid)
                self.due += [SpoutSucceeded(attempt.txid, spout, half) for half in Half]
            case CloseSpouts():
                self.due += [SpoutClosed(spout.name, half) for spout in self.scope.shape.spouts for half in Half]
            case CancelEmit() | CancelJob() | Abandon() | KeepLeading():
                pass
            case _:
                self.due.append(instruction)
                if isinstance(instruction, Abort | CommitStep):
                    self.check_use(instruction)
                elif isinstance(instruction, RunJob):
                    self.check_job(instruction)

    def check_job(self, run: RunJob) -> None:
        """Nothing is done for who will never commit; a large batch is alone; and all that the branch reads is there."""
        for attempt in run.job.attempts:
            assert self.live.get(attempt.txid) == attempt, f"{run} for {attempt}, which will never commit"
            assert len(run.job.attempts) == 1 or attempt.txid not in self.scope.large, f"{run} shares a large batch"
        for member in run.members:
            assert member.inputs.keys() == self.scope.shape.branches[run.job.branch].spouts

    def check_cancelled(self, attempt: TransactionAttempt, instructions: list[Instruction]) -> None:
        """Whatever still emits is told to end, and a job of which no attempt lives; no other job is."""
        jobs = [each.job for each in self.due if isinstance(each, RunJob) and attempt in each.job.attempts]
        emits = [each for each in self.due if isinstance(each, Emit) and each.attempt == attempt]
        wanted: list[Any] = [CancelEmit(attempt, each.spout) for each in emits]
        wanted += [CancelJob(job) for job in jobs if not any(each in self.live.values() for each in job.attempts)]
        told = [each for each in instructions if isinstance(each, CancelEmit | CancelJob)]
        assert sorted(map(str, told)) == sorted(map(str, wanted)), f"{told} for {attempt}, due is {wanted}"

    def check_use(self, use: Abort | CommitStep) -> None:
        """A receipt is committed by its attempt, in its turn, or given up; never given up once it is committed."""
        assert not self.is_closed, f"{use} although states are closed"
        if isinstance(use, Abort):
            assert self.live.get(use.attempt.txid) != use.attempt or self.is_closing, f"{use} of a live attempt"
            self.prepared.remove((use.attempt, use.branch))
            return
        assert not self.is_closing, f"{use} although the topology has ended"
        txids = [member.attempt.txid for member in use.members]
        assert len(txids) == 1 or self.scope.large.isdisjoint(txids), f"{use} has a large batch among others"
        assert txids == list(range(txids[0], txids[0] + len(txids)))
        for member in use.members:
            assert self.live.get(member.attempt.txid) == member.attempt, f"{member} is not live"
            if not use.spout:
                assert (member.attempt, use.branch) in self.prepared, f"{member} commits what it has not prepared"
                assert member.receipt == (member.attempt, use.branch), f"{member} commits another one's receipt"

    def outcomes(self) -> Iterator[tuple[Any, Stimulus]]:
        """What may happen next: what is due, and how it ends."""
        for number, each in enumerate(self.due):
            before = self.due[:number]
            if isinstance(each, Emit) and any(isinstance(e, Emit) and e.spout == each.spout for e in before):
                continue  # one after the other
            yield from ((each, outcome) for outcome in self.ends(each))
        if self.fails:
            yield from ((None, AttemptCancelled(attempt)) for attempt in self.live.values())
        if self.reads:
            yield None, ReadWanted("read", whole=True)
        if self.scope.closes and not self.is_closing:
            yield None, Closing()

    def ends_of_job(self, job: Job) -> Iterator[Stimulus]:
        if any(attempt.txid == self.scope.bad for attempt in job.attempts):
            yield JobFailed(job, Diagnosis(WHY.cause, WHY.kind, self.scope.told))
            return
        made = [Processed((each, job.branch), [Acked(each, StreamId.BATCH, -1)]) for each in job.attempts]
        yield JobDone(job, made)
        if self.fails:
            yield JobFailed(job, WHY)
            yield JobFailed(job, Diagnosis(WHY.cause, WHY.kind, job.attempts[-1].txid))
            yield JobFailed(job, Diagnosis(WHY.cause, FailureKind.INTERRUPTED))

    def ends(self, due: Any) -> Iterator[Stimulus]:
        match due:
            case Emit(attempt, number, spout):
                assert number == self.number(attempt.txid)
                edges = {branch: 1 for branch, each in enumerate(self.scope.shape.branches) if spout in each.spouts}
                small = attempt.txid not in self.scope.large
                yield Emitted(attempt=attempt, spout=spout, batch=attempt, rows=1, is_small=small, edges=edges)
                yield from [EmitFailed(attempt, spout, WHY)] if self.fails and number else []
            case RunJob(job):
                yield from self.ends_of_job(job)
            case CommitStep():
                yield StepCommitted()
                yield from [StepFailed(WHY)] if self.fails else []
            case Abort():
                yield Aborted()
            case Answer():
                yield ReadDone()
            case CloseStates():
                yield StatesClosed()
            case _:
                yield due

    def step(self, due: Any, outcome: Stimulus) -> None:
        if due is not None:
            self.due.remove(due)
        if isinstance(outcome, JobFailed | EmitFailed | StepFailed | AttemptCancelled):
            self.fails = max(0, self.fails - 1)
        self.note(due, outcome)
        if isinstance(outcome, AttemptCancelled):  # it has fallen silent
            self.fail(outcome.attempt)
        else:
            self.tell(outcome)

    def note(self, due: Any, outcome: Stimulus) -> None:
        match outcome:
            case JobDone(job):
                self.prepared += [(attempt, job.branch) for attempt in job.attempts]
            case JobFailed(job, why):
                self.note_failed_job(job.attempts, job.branch, why)
            case StepCommitted():
                name = due.spout or str(due.branch)
                self.has.setdefault(name, []).extend(member.attempt.txid for member in due.members)
                self.prepared = [each for each in self.prepared if each not in self.receipts_of(due)]
            case ReadWanted():
                self.reads -= 1
            case ReadDone():
                self.answered += 1
                has = [set(self.has.get(str(branch), ())) for branch, _ in enumerate(self.scope.shape.branches)]
                assert all(each == has[0] for each in has), f"states are read whole with {has}"
            case Closing():
                self.is_closing = True
            case StatesClosed():
                self.is_closed = True

    def receipts_of(self, step: CommitStep) -> list[tuple[TransactionAttempt, int]]:
        return [] if step.spout else [(member.attempt, step.branch) for member in step.members]

    def note_failed_job(self, attempts: Any, branch: int, why: Diagnosis) -> None:
        """Of an attempt whose job has failed nobody knows what it has prepared; others run again."""
        live = [each for each in attempts if self.live.get(each.txid) == each]
        failed = [each for each in attempts if each not in live]
        if live and (len(attempts) == 1 or not why.kind.counts):
            failed.append(live[0])
        elif any(each.txid == why.txid for each in live):
            failed += [each for each in live if each.txid == why.txid]
        self.prepared += [(each, branch) for each in failed if (each, branch) not in self.prepared]

    def check_end(self) -> None:
        """Nothing is due any more."""
        kept = self.plane._executors.keys() - self.live.values()
        assert not kept, f"{kept} are kept for ever"
        if self.is_closing:
            assert self.plane.is_closed
        elif self.scope.bad:
            assert self.committed == self.scope.bad - 1
            assert all(self.processed[attempt] for txid, attempt in self.live.items() if txid != self.scope.bad)
        elif not self.scope.fails:
            assert self.committed == self.scope.txids
        assert self.answered + self.refused + len(self.plane._lane._parked) == self.scope.reads - self.reads
        assert not self.is_closing or not self.prepared, f"{self.prepared} were neither committed nor given up"


def explore(scope: Scope) -> int:
    """Every history; how many worlds there were."""
    start = Small.of(scope)
    queue, before, ends = deque([start]), dict[str, set[str]]({repr(start): set()}), set[str]()
    while queue:
        world = queue.popleft()
        key = repr(world)
        if not world.due:
            world.check_end()
            ends.add(key)
        for number in range(len(list(world.outcomes()))):
            after = copy.deepcopy(world)
            after.step(*list(after.outcomes())[number])
            if (found := repr(after)) not in before:
                before[found] = set()
                queue.append(after)
            before[found].add(key)
    reaching = list(ends)
    for key in reaching:
        reaching += before[key] - ends
        ends |= before[key]
    assert ends == before.keys(), "some history never comes to an end"
    return len(before)


SCOPES = {
    "two spouts, two states": Scope(shape=shape("ab", branches=2), txids=1),
    "two transactions": Scope(shape=shape(branches=2)),
    "two transactions in a job": Scope(shape=shape(shares=True), txids=3),
    "a large one between small ones": Scope(shape=shape(shares=True), txids=3, large=frozenset({2})),
    "a failure": Scope(shape=shape(), attempts=2, fails=1),
    "a failure in a shared job": Scope(shape=shape(shares=True), txids=3, fails=1),
    "a failure before two states": Scope(shape=shape(branches=2), attempts=2, fails=1, txids=1),
    "an empty one in a job with others": Scope(shape=shape(shares=True), txids=3, empty=frozenset({2}), fails=1),
    "an empty one and a committer spout": Scope(shape=shape(committer=True), empty=frozenset({1}), fails=1),
    "a committer spout": Scope(shape=shape(committer=True), fails=1),
    "a read": Scope(shape=shape(branches=2), txids=1, reads=1, fails=1),
    "rows that fail every job, and it is known whose": Scope(shape=shape(shares=True), txids=3, bad=2, told=2),
    "rows of the last one that fail every job, and it is known whose": Scope(
        shape=shape(shares=True), txids=3, bad=3, told=3
    ),
    "rows that fail every job, and nobody knows whose": Scope(shape=shape(shares=True), txids=3, bad=2),
    "rows that fail every job, said to be another's": Scope(shape=shape(shares=True), txids=3, bad=2, told=NOBODY),
    "an end at any moment": Scope(shape=shape(branches=2), txids=1, reads=1, closes=True),
    "an end at a commit that fails": Scope(shape=shape(), txids=1, closes=True, fails=1),
    "an end, with two in a job": Scope(shape=shape(shares=True), txids=2, closes=True, fails=1),
}


@pytest.mark.parametrize("scope", SCOPES.values(), ids=SCOPES.keys())
def test_whatever_ends_first_states_are_used_one_at_a_time_and_no_receipt_is_lost(scope: Scope) -> None:
    assert explore(scope) > 10


class Impatient(CommitLane):
    """Doesn't wait for the end of a step."""

    __slots__ = ()

    def add(self, item: Any) -> Iterator[Instruction]:
        self._current = None
        yield from super().add(item)


class Careless(DataPlane):
    """Forgets what a cancelled attempt has prepared."""

    __slots__ = ()

    def _keep(self, executor: Any, branch: int, processed: Processed) -> Iterator[Instruction]:
        if not executor.is_cancelled:
            yield from super()._keep(executor, branch, processed)


class Stubborn(CommitLane):
    """Goes on with a group of which a member was cancelled."""

    __slots__ = ()

    def _begin_step(self, group: CommitGroup) -> Iterator[Instruction]:
        for member in (*group.members, *group.waiting):
            member.executor.is_cancelled = False
        yield from super()._begin_step(group)


class Open(CommitLane):
    """Lets states be read whole while some have a transaction that others don't have."""

    __slots__ = ()

    def _next(self) -> Iterator[Instruction]:
        self.partial_commit_txid = 0
        yield from super()._next()


class Believing(DataPlane):
    """Runs all again where a job is said to have failed by a transaction that it has not."""

    __slots__ = ()

    def _divided(self, job: Any, executors: Any, why: Diagnosis) -> Any:
        if why.txid == NOBODY or why.txid is None:
            return None, [job.attempts]
        return super()._divided(job, executors, why)


class Blaming(DataPlane):
    """Takes the first of those that share a job for the one that made it fail."""

    __slots__ = ()

    def _divided(self, job: Any, executors: Any, why: Diagnosis) -> Any:
        return super()._divided(job, executors, Diagnosis(why.cause, FailureKind.INTERRUPTED))


class Traceless(DataPlane):
    """Believes that a failed job has prepared nothing."""

    __slots__ = ()

    def _fail(self, job: Any, executors: Any, failed: Any, why: Diagnosis) -> Iterator[Instruction]:
        yield from (each for each in super()._fail(job, executors, failed, why) if isinstance(each, Post))
        for executor in executors:
            executor._receipts.pop(job.branch, None)


class Deaf(DataPlane):
    """Goes on with what was emitted for a cancelled attempt."""

    __slots__ = ()

    def _take_emission(self, stimulus: Any) -> Iterator[Instruction]:
        executor = self._executors[stimulus.attempt]
        was_cancelled, executor.is_cancelled = executor.is_cancelled, False
        yield from super()._take_emission(stimulus)
        executor.is_cancelled = was_cancelled


class Hoarding(DataPlane):
    """Never forgets a cancelled attempt."""

    __slots__ = ()

    def _forget_if_idle(self, executor: Any) -> None: ...


class Ruthless(DataPlane):
    """Cancels a job as soon as one of its attempts is cancelled."""

    __slots__ = ()

    def _cancel(self, attempt: TransactionAttempt) -> Iterator[Instruction]:
        jobs = set(self._executors[attempt].jobs) if attempt in self._executors else set()
        for instruction in super()._cancel(attempt):
            jobs -= {instruction.job} if isinstance(instruction, CancelJob) else set()
            yield instruction
        yield from map(CancelJob, jobs)


class Lenient(DataPlane):
    """Leaves what emits alone when nobody wants it any more."""

    __slots__ = ()

    def _cancel(self, attempt: TransactionAttempt) -> Iterator[Instruction]:
        yield from (each for each in super()._cancel(attempt) if not isinstance(each, CancelEmit))


class Crowding(DataPlane):
    """Has large batches share jobs, too."""

    __slots__ = ()

    def _start(self, executor: Any, branch: int) -> Iterator[Instruction]:
        executor.waiting.add(branch)
        yield from self._run(self._batcher.add(branch, executor.attempt, executor.rows))


class Hurried(DataPlane):
    """Closes states while jobs run that may have prepared something."""

    __slots__ = ()

    @property
    def _is_quiet(self) -> bool:
        return not self._open


class TakingOneForAll(DataPlane):
    """Takes a success for delivered when the first half of a spout has it."""

    __slots__ = ()

    def _hear_of_success(self, txid: int, spout: str, half: Half) -> Iterator[Instruction]:
        if self._untold.pop(txid, None):
            yield Post(SuccessDelivered(txid))


class Losing(CommitLane):
    """Doesn't give up what a failed step was to commit."""

    __slots__ = ()

    def step_failed(self, why: Diagnosis) -> Iterator[Instruction]:
        group = self._ended_step()
        yield Post(Failed(group.members[0].executor.attempt, why.cause, why.kind, state=why.state))
        yield from self._next()


class Uncut(CommitGroup):
    """Commits all in one step, large ones, too."""

    __slots__ = ()

    def cut(self) -> None:
        self.members, self.waiting, self.output = self.waiting, [], 0


class Whole(CommitLane):
    """Doesn't cut groups."""

    __slots__ = ()

    def add(self, item: Any) -> Iterator[Instruction]:
        if isinstance(item, CommitGroup):
            item.__class__ = Uncut
        yield from super().add(item)


class Dropping(CommitLane):
    """Gives nothing up any more when the topology ends."""

    __slots__ = ()

    def close(self) -> Iterator[Instruction]:
        yield from super().close()
        self._queue.clear()


class Deserting(CommitLane):
    """Leaves readers waiting when the topology ends."""

    __slots__ = ()

    def close(self) -> Iterator[Instruction]:
        list(super().close())
        yield from ()


class Rushing(JobBatcher):
    """Runs several jobs of a branch at a time."""

    __slots__ = ()

    def add(self, branch: int, attempt: TransactionAttempt, rows: int) -> Job | None:
        self._running.pop(branch, None)
        return super().add(branch, attempt, rows)


class Untold(JobBatcher):
    """Leaves in line who will never commit."""

    __slots__ = ()

    def drop(self, attempt: TransactionAttempt) -> None: ...


@pytest.mark.parametrize(
    ("mutant", "scope"),
    [
        (Impatient, "a read"),
        (Careless, "an end, with two in a job"),
        (Stubborn, "a failure before two states"),
        (Open, "a read"),
        (Believing, "rows that fail every job, said to be another's"),
        (Untold, "a failure in a shared job"),
        (Blaming, "rows of the last one that fail every job, and it is known whose"),
        (Traceless, "an end, with two in a job"),
        (Deaf, "a failure"),
        (Hoarding, "a failure"),
        (Ruthless, "a failure in a shared job"),
        (Lenient, "a failure"),
        (Crowding, "a large one between small ones"),
        (Hurried, "an end, with two in a job"),
        (TakingOneForAll, "two spouts, two states"),
        (Losing, "an end at a commit that fails"),
        (Whole, "a large one between small ones"),
        (Dropping, "an end, with two in a job"),
        (Deserting, "an end at any moment"),
        (Rushing, "two transactions in a job"),
    ],
)
def test_each_rule_is_needed(mutant: type, scope: str, monkeypatch: pytest.MonkeyPatch) -> None:
    started = Small.of

    def without(scope: Scope) -> Small:
        world = started(scope)
        for weakened in (world.plane, world.plane._lane, world.plane._batcher):
            if issubclass(mutant, type(weakened)):
                weakened.__class__ = mutant
        return world

    monkeypatch.setattr(Small, "of", without)
    with pytest.raises((AssertionError, KeyError, ValueError)):
        explore(SCOPES[scope])
