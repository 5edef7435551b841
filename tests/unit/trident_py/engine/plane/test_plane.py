"""Every history of a small data plane: whatever ends first, fails or is cancelled, and whenever the topology ends."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import define, evolve, field, frozen

from coordinators.driver.batch_streams import Batch
from coordinators.protocol.messages import (
    Acked,
    Diagnosis,
    Failed,
    FailureKind,
    LettersRead,
    OutputsAnswered,
    SuccessDelivered,
    TrialPassed,
)
from coordinators.protocol.protocol import StreamId
from coordinators.record.parking import StoredRows
from coordinators.record.wishes import Action, Wish
from coordinators.values.attempt import TRIAL_TXID, TransactionAttempt
from trident_py.engine.plane.bolt_executor import TridentBoltExecutor
from trident_py.engine.plane.commit_lane import CommitGroup, CommitLane, outputs_of
from trident_py.engine.plane.instructions import (
    Abandon,
    Abort,
    Answer,
    CancelEmit,
    CancelJob,
    CancelStaging,
    CloseSpouts,
    CloseStates,
    CommitStep,
    DeliverSuccess,
    Emit,
    InspectOutputs,
    Instruction,
    KeepLeading,
    Post,
    ReadLetters,
    Refuse,
    RunJob,
    TryCommit,
)
from trident_py.engine.plane.plane import ROWS_MAX, DataPlane, JobBatcher
from trident_py.engine.plane.stimuli import (
    Aborted,
    AttemptCancelled,
    BatchAnnounced,
    Closing,
    CommitAnnounced,
    EmitFailed,
    Emitted,
    EndForced,
    JobDone,
    JobFailed,
    LettersStored,
    LettersWanted,
    OutputsInspected,
    OutputsWanted,
    PatienceEnded,
    ReadDone,
    ReadWanted,
    SpoutClosed,
    SpoutSucceeded,
    StatesClosed,
    StepCommitted,
    StepFailed,
    Stimulus,
    SuccessAnnounced,
    TakenOver,
    TrialCommitted,
    TrialCommitWanted,
    TrialFailed,
)
from trident_py.engine.plane.work import BranchShape, Half, Job, Processed, SpoutShape, TopologyShape
from trident_py.participants.capabilities import Capabilities

NOBODY = 999
RULES_PAGE = Path(__file__).parents[5] / "docs/explanation/rules.md"
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
        fails_late: whether only commits do.
        reads: how often somebody wants to read whole states.
        rows: of each batch.
        closes: whether the topology may end at any moment.
        patience: whether whoever ends it may wait for nothing any more, and then give up leadership.
        forces: whether the end may be forced.
        hangs: the kind of instruction that never ends.
        bad: the transaction whose rows make every job fail that has them.
        told: which transaction is said to have failed then.
        together: the branches whose outputs commit in one transaction of a database.
    """

    shape: TopologyShape
    txids: int = 2
    attempts: int = 1
    large: frozenset[int] = frozenset()
    empty: frozenset[int] = frozenset()
    fails: int = 0
    fails_late: bool = False
    reads: int = 0
    rows: int = 1
    closes: bool = False
    patience: bool = False
    forces: bool = False
    hangs: type | None = None
    bad: int = 0
    told: int | None = None
    together: tuple[frozenset[int], ...] = ()


def shape(
    spouts: str = "s",
    *,
    branches: int = 1,
    shares: bool = False,
    committer: bool = False,
    ours: bool = True,
    stages: bool = False,
) -> TopologyShape:
    """Branches that read all spouts, into states of ours, or into a user's: without a fence, and silent."""
    return TopologyShape(
        spouts=tuple(SpoutShape(name=name, is_committer=committer) for name in spouts),
        branches=tuple(
            BranchShape(
                name=f"state{number}",
                spouts=frozenset(spouts),
                is_shareable=shares,
                capabilities=Capabilities(keeps_alive=ours, is_fenced=ours, stages_in_commit=stages),
            )
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
        again: what has to run again since the job that it shared has failed, by branch.
        is_abandoned: the data plane waits for nothing any more.
        is_left: leadership is given up although something is still done.
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
    again: dict[int, list[TransactionAttempt]] = field(factory=dict)
    committed: int = 0
    answered: int = 0
    refused: int = 0
    is_closing: bool = False
    is_closed: bool = False
    is_forced: bool = False
    is_abandoned: bool = False
    is_left: bool = False

    @classmethod
    def of(cls, scope: Scope) -> Small:
        world = cls(scope, DataPlane(shape=scope.shape), scope.fails, scope.reads)
        world.tell(TakenOver(0, scope.together))
        for txid in range(1, scope.txids + 1):
            world.announce(txid)
        return world

    # --- the driver ---------------------------------------------------------------------------------------------------

    def announce(self, txid: int) -> None:
        number = self.tried.get(txid, -1) + 1
        attempt = TransactionAttempt(txid, number)
        self.tried[txid], self.live[txid], self.processed[attempt] = number, attempt, 0
        spouts = [spout.name for spout in self.scope.shape.spouts]
        edges, metadata = [1] * len(spouts), dict.fromkeys(spouts)
        batch = Batch(attempt=attempt, number=self.number(txid), metadata=metadata, time=0, edges=edges)
        self.tell(BatchAnnounced(batch))

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
        was_held = self.plane.is_held
        instructions = self.plane.handle(stimulus)
        tells = any(isinstance(each, KeepLeading) for each in instructions)
        assert tells == (self.plane.is_held and not was_held), "nobody is told why leadership is kept"
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
            case CancelEmit() | CancelJob() | CancelStaging() | Abandon() | KeepLeading():
                self.is_abandoned = self.is_abandoned or isinstance(instruction, Abandon)
            case _:
                self.due.append(instruction)
                if isinstance(instruction, Abort | CommitStep):
                    self.check_use(instruction)
                elif isinstance(instruction, RunJob):
                    self.check_job(instruction)

    def check_alive(self) -> None:
        """Who has a job, or waits for its turn, is not silent; nor who commits while a state of ours is used."""
        branches = self.scope.shape.branches
        keeps_alive = [branch.capabilities.keeps_alive for branch in branches]
        emitting = {each.attempt for each in self.due if isinstance(each, Emit)}
        working = {each for each in self.live.values() if each not in emitting and self.processed[each] < len(branches)}
        goes_on = any(
            isinstance(each, Answer)
            or (isinstance(each, CommitStep) and all(keeps_alive[branch] for branch in each.branches))
            for each in self.due
            if not getattr(each, "spout", "")
        )
        alive = set(self.plane.alive())
        due = {(attempt, StreamId.BATCH) for attempt in working}
        found = {each for each in alive if each[1] is StreamId.BATCH}
        assert found == due, f"{due} are worked on, and {found} are said to be"
        waits = [attempt for attempt in self.committing if (attempt, StreamId.COMMIT) in alive]
        assert waits == (list(self.committing) if goes_on else []), f"of {self.committing} {waits} are said to go on"

    def check_leading(self) -> None:
        """Where nothing would refuse a late commit, leadership is kept; not for ever, nor for anything else."""
        unfenced = [each for each in self.due if isinstance(each, CommitStep) and not self.is_fenced(each)]
        assert self.is_forced or not (unfenced and (self.is_left or self.plane.is_closed)), f"{unfenced} is left alone"
        assert unfenced or not self.plane.is_held, "leadership is kept, and nobody knows what for"

    def is_fenced(self, step: CommitStep) -> bool:
        return not step.spout and all(
            self.scope.shape.branches[branch].capabilities.is_fenced for branch in step.branches
        )

    def check_job(self, run: RunJob) -> None:
        """Nothing is done for who will never commit; a large batch is alone; and all that the branch reads is there.

        What has to run again does so lowest first: those behind it would be cancelled with it.
        """
        attempts = run.job.attempts
        for attempt in attempts:
            assert self.live.get(attempt.txid) == attempt, f"{run} for {attempt}, which will never commit"
            assert len(attempts) == 1 or attempt.txid not in self.scope.large, f"{run} shares a large batch"
        assert len(attempts) == 1 or len(attempts) * self.scope.rows <= ROWS_MAX, f"{run} has too many rows"
        again = sorted(each for each in self.again.get(run.job.branch, ()) if self.live.get(each.txid) == each)
        assert again[: len(attempts)] == list(attempts[: len(again)]), f"{run} comes before {again}"
        self.again[run.job.branch] = again[len(attempts) :]
        for member in run.members:
            assert member.inputs.keys() == self.scope.shape.branches[run.job.branch].spouts

    def check_cancelled(self, attempt: TransactionAttempt, instructions: list[Instruction]) -> None:
        """Whatever still emits or stages is told to end, and a job of which no attempt lives; no other job is."""
        jobs = [each.job for each in self.due if isinstance(each, RunJob) and attempt in each.job.attempts]
        emits = [each for each in self.due if isinstance(each, Emit) and each.attempt == attempt]
        wanted: list[Any] = [CancelEmit(attempt, each.spout) for each in emits]
        wanted += [CancelJob(job) for job in jobs if not any(each in self.live.values() for each in job.attempts)]
        steps = [each for each in self.due if isinstance(each, CommitStep) and not each.spout]
        stages = [each for each in steps if self.scope.shape.branches[each.branches[0]].capabilities.stages_in_commit]
        wanted += [CancelStaging(attempt) for step in stages if [each.attempt for each in step.members] == [attempt]]
        told = [each for each in instructions if isinstance(each, CancelEmit | CancelJob | CancelStaging)]
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
            for branch in use.branches:
                receipt = (member.attempt, branch)
                assert receipt in self.prepared, f"{member} commits what it has not prepared"
                assert member.receipts[branch] == receipt, f"{member} commits another one's receipt"

    def outcomes(self) -> Iterator[tuple[Any, Stimulus]]:
        """What may happen next: what is due, and how it ends."""
        if self.is_left:
            return
        for number, each in enumerate(self.due):
            before = self.due[:number]
            if isinstance(each, Emit) and any(isinstance(e, Emit) and e.spout == each.spout for e in before):
                continue  # one after the other
            yield from ((each, outcome) for outcome in self.ends(each))
        if self.fails_early:
            yield from ((None, AttemptCancelled(attempt)) for attempt in self.live.values())
        if self.reads:
            yield None, ReadWanted("read", whole=True)
        if self.scope.closes and not self.is_closing:
            yield None, Closing()
        if self.is_closing and not self.plane.is_closed:
            yield from self.ends_of_patience()

    def ends_of_patience(self) -> Iterator[tuple[None, Stimulus]]:
        """Who ends the topology waits for what holds it as long as that takes, and for all else not for ever."""
        if self.scope.patience and not self.plane.is_held:
            yield None, PatienceEnded()
        if self.scope.forces and not self.is_forced:
            yield None, EndForced()

    @property
    def fails_early(self) -> bool:
        return self.fails > 0 and not self.scope.fails_late

    def ends_of_job(self, job: Job) -> Iterator[Stimulus]:
        if any(attempt.txid == self.scope.bad for attempt in job.attempts):
            yield JobFailed(job, Diagnosis(WHY.cause, WHY.kind, self.scope.told))
            return
        made = [Processed((each, job.branch), [Acked(each, StreamId.BATCH, -1)]) for each in job.attempts]
        yield JobDone(job, made)
        if self.fails_early:
            yield JobFailed(job, WHY)
            yield JobFailed(job, Diagnosis(WHY.cause, WHY.kind, job.attempts[-1].txid))
            yield JobFailed(job, Diagnosis(WHY.cause, FailureKind.INTERRUPTED))

    def ends(self, due: Any) -> Iterator[Stimulus]:
        match due:
            case _ if type(due) is self.scope.hangs:
                return
            case Emit(attempt, number, spout):
                assert number == self.number(attempt.txid)
                edges = {branch: 1 for branch, each in enumerate(self.scope.shape.branches) if spout in each.spouts}
                small, rows = attempt.txid not in self.scope.large, self.scope.rows
                yield Emitted(attempt=attempt, spout=spout, batch=attempt, rows=rows, is_small=small, edges=edges)
                yield from [EmitFailed(attempt, spout, WHY)] if self.fails_early and number else []
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
        self.tell_outcome(outcome)
        if not self.is_closing:  # then nobody looks for silence
            self.check_alive()
        self.check_leading()

    def tell_outcome(self, outcome: Stimulus) -> None:
        self.is_forced = self.is_forced or isinstance(outcome, EndForced)
        if isinstance(outcome, AttemptCancelled):  # it has fallen silent
            self.fail(outcome.attempt)
        elif isinstance(outcome, PatienceEnded) and self.is_abandoned:
            self.is_left = True
        else:
            self.tell(outcome)

    def note(self, due: Any, outcome: Stimulus) -> None:
        match outcome:
            case JobDone(job):
                self.prepared += [(attempt, job.branch) for attempt in job.attempts]
            case JobFailed(job, why):
                self.note_failed_job(job.attempts, job.branch, why)
            case StepCommitted():
                self.note_commit(due)
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

    def note_commit(self, step: CommitStep) -> None:
        for name in map(str, step.branches or [step.spout]):
            self.has.setdefault(name, []).extend(member.attempt.txid for member in step.members)
        self.prepared = [each for each in self.prepared if each not in self.receipts_of(step)]
        self.check_together()

    def receipts_of(self, step: CommitStep) -> list[tuple[TransactionAttempt, int]]:
        return [(member.attempt, branch) for member in step.members for branch in step.branches]

    def check_together(self) -> None:
        """Who reads a database sees all of a transaction or none of it."""
        for branches in self.scope.together:
            has = [set(self.has.get(str(branch), ())) for branch in branches]
            assert all(each == has[0] for each in has), f"tables of one database have {has}"

    def note_failed_job(self, attempts: Any, branch: int, why: Diagnosis) -> None:
        """Of an attempt whose job has failed nobody knows what it has prepared; others run again."""
        live = [each for each in attempts if self.live.get(each.txid) == each]
        failed = [each for each in attempts if each not in live]
        if live and (len(attempts) == 1 or not why.kind.counts):
            failed.append(live[0])
        elif any(each.txid == why.txid for each in live):
            failed += [each for each in live if each.txid == why.txid]
        self.again[branch] = [*self.again.get(branch, ()), *(each for each in live if each not in failed)]
        self.prepared += [(each, branch) for each in failed if (each, branch) not in self.prepared]

    def check_end(self) -> None:
        """Nothing is due any more, or nobody waits for it."""
        if self.is_left:
            return
        kept = self.plane._executors.keys() - self.live.values()
        assert not kept, f"{kept} are kept for ever"
        if self.is_closing:
            assert self.plane.is_closed
        elif self.scope.bad:
            assert self.committed == self.scope.bad - 1
            assert all(self.processed[attempt] for txid, attempt in self.live.items() if txid != self.scope.bad)
        elif not self.scope.fails:
            assert self.committed == self.scope.txids
        waiting = 0 if self.is_closing or self.committed == self.scope.txids else len(self.plane._lane._postponed)
        assert self.answered + self.refused + waiting == self.scope.reads - self.reads, "somebody waits for an answer"
        is_given_up = self.is_closing and not self.is_abandoned  # else the next takeover sweeps it
        assert not is_given_up or not self.prepared, f"{self.prepared} were neither committed nor given up"


def explore(scope: Scope) -> int:
    """Every history; how many worlds there were."""
    start = Small.of(scope)
    queue, before, ends = deque([start]), dict[str, set[str]]({repr(start): set()}), set[str]()
    while queue:
        world = queue.popleft()
        key = repr(world)
        if not world.due or world.is_left:
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
    "a read, and a commit that comes again": Scope(
        shape=shape(branches=2), txids=1, attempts=2, reads=1, fails=1, fails_late=True
    ),
    "rows that fail every job, and it is known whose": Scope(shape=shape(shares=True), txids=3, bad=2, told=2),
    "rows of the last one that fail every job, of a known transaction": Scope(
        shape=shape(shares=True), txids=3, bad=3, told=3
    ),
    "rows that fail every job, of an unknown transaction": Scope(shape=shape(shares=True), txids=3, bad=2),
    "rows that fail every job, said to be another's": Scope(shape=shape(shares=True), txids=3, bad=2, told=NOBODY),
    "two of three states in one database": Scope(
        shape=shape(branches=3), txids=1, attempts=2, fails=1, fails_late=True, together=(frozenset({0, 2}),)
    ),
    "an end, and two states in one database": Scope(
        shape=shape(branches=2), txids=1, closes=True, fails=1, together=(frozenset({0, 1}),)
    ),
    "silence in a commit by tasks": Scope(shape=shape(stages=True), txids=1, attempts=2, fails=1),
    "an end at any moment": Scope(shape=shape(branches=2), txids=1, reads=1, closes=True),
    "an end at a commit that fails": Scope(shape=shape(), txids=1, closes=True, fails=1),
    "two that are too many for one job": Scope(shape=shape(shares=True), txids=3, rows=ROWS_MAX // 2 + 1),
    "a user's state": Scope(shape=shape(ours=False)),
    "an end without waiting": Scope(shape=shape(), txids=1, closes=True, patience=True, forces=True),
    "an end at a user's commit": Scope(shape=shape(ours=False), txids=1, closes=True, patience=True),
    "an end at a user's commit that hangs": Scope(
        shape=shape(ours=False), txids=1, closes=True, patience=True, forces=True, hangs=CommitStep
    ),
    "an end at a commit that hangs": Scope(shape=shape(), txids=1, closes=True, patience=True, hangs=CommitStep),
    "an end at a user's commit, and a job that hangs": Scope(
        shape=shape(ours=False), txids=2, closes=True, patience=True, hangs=RunJob
    ),
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
    """Forgets the prepared changes of a cancelled attempt."""

    __slots__ = ()

    def _keep(self, executor: Any, branch: int, processed: Processed) -> Iterator[Instruction]:
        if not executor.is_cancelled:
            yield from super()._keep(executor, branch, processed)


class Separating(DataPlane):
    """Commits the outputs of one database one after the other."""

    __slots__ = ()

    def consumers(self, stream: StreamId) -> int:
        self._lane.outputs = outputs_of(self.shape)
        return super().consumers(stream)


class Stubborn(CommitLane):
    """Continues with a group after a member was cancelled."""

    __slots__ = ()

    def _begin_step(self, group: CommitGroup) -> Iterator[Instruction]:
        for member in (*group.members, *group.waiting):
            member.executor.is_cancelled = False
        yield from super()._begin_step(group)


class Open(CommitLane):
    """Lets requests read states while only some have a transaction."""

    __slots__ = ()

    def _next(self) -> Iterator[Instruction]:
        self.partial_commit_txid = 0
        yield from super()._next()


class Believing(DataPlane):
    """Runs all transactions again if a failed job names a transaction that is not in it."""

    __slots__ = ()

    def _divided(self, job: Any, executors: Any, why: Diagnosis) -> Any:
        if why.txid == NOBODY or why.txid is None:
            return None, [job.attempts]
        return super()._divided(job, executors, why)


class Blaming(DataPlane):
    """Blames the first transaction of a failed shared job."""

    __slots__ = ()

    def _divided(self, job: Any, executors: Any, why: Diagnosis) -> Any:
        return super()._divided(job, executors, Diagnosis(why.cause, FailureKind.INTERRUPTED))


class Traceless(DataPlane):
    """Assumes that a failed job has prepared nothing."""

    __slots__ = ()

    def _fail(self, job: Any, executors: Any, failed: Any, why: Diagnosis) -> Iterator[Instruction]:
        yield from (each for each in super()._fail(job, executors, failed, why) if isinstance(each, Post))
        for executor in executors:
            executor._receipts.pop(job.branch, None)


class Deaf(DataPlane):
    """Continues with rows that were emitted for a cancelled attempt."""

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
    """Doesn't cancel emissions that are no longer needed."""

    __slots__ = ()

    def _cancel(self, attempt: TransactionAttempt) -> Iterator[Instruction]:
        yield from (each for each in super()._cancel(attempt) if not isinstance(each, CancelEmit))


class Unstaged(DataPlane):
    """Lets the job of a commit run on although its attempt has failed."""

    __slots__ = ()

    def _cancel(self, attempt: TransactionAttempt) -> Iterator[Instruction]:
        yield from (each for each in super()._cancel(attempt) if not isinstance(each, CancelStaging))


class Crowding(DataPlane):
    """Lets large batches share jobs, too."""

    __slots__ = ()

    def _start(self, executor: Any, branch: int) -> Iterator[Instruction]:
        executor.waiting.add(branch)
        yield from self._run(self._batcher.add(branch, executor.attempt, executor.rows))


class Hurried(DataPlane):
    """Closes states while jobs run that may have prepared changes."""

    __slots__ = ()

    @property
    def _is_quiet(self) -> bool:
        return not self._open


class TakingOneForAll(DataPlane):
    """Counts a success as delivered when the first half of a spout has it."""

    __slots__ = ()

    def _hear_of_success(self, txid: int, spout: str, half: Half) -> Iterator[Instruction]:
        if self._untold.pop(txid, None):
            yield Post(SuccessDelivered(txid))


class Losing(CommitLane):
    """Doesn't abort the outputs of a failed step."""

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
    """Aborts nothing when the topology ends."""

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
    """Leaves transactions in the queue that will never commit."""

    __slots__ = ()

    def drop(self, attempt: TransactionAttempt) -> None: ...


class Backwards(JobBatcher):
    """Searches a failed job from its end."""

    __slots__ = ()

    def end(self, job: Job, again: Any = ()) -> Job | None:
        return super().end(job, list(again)[::-1])


class Unbounded(JobBatcher):
    """Puts all waiting transactions into one job, without a limit."""

    __slots__ = ()

    def add(self, branch: int, attempt: TransactionAttempt, rows: int) -> Job | None:
        return super().add(branch, attempt, 0)


class Forsaking(CommitLane):
    """Never answers requests that waited until all states had the same transactions."""

    __slots__ = ()

    def _end_cut(self, group: CommitGroup) -> None:
        parked, self._postponed = self._postponed, []
        super()._end_cut(group)
        self._postponed = parked


class Mute(DataPlane):
    """Reports no work, so each attempt that takes long times out."""

    __slots__ = ()

    def alive(self) -> Any:
        return ()


class Jobless(TridentBoltExecutor):
    """Does not show that it waits for a job."""

    __slots__ = ()

    @property
    def is_working(self) -> bool:
        return bool(self.jobs)


class Queueless(DataPlane):
    """Reports only running work."""

    __slots__ = ()

    def alive(self) -> Any:
        for executor in self._executors.values():
            executor.__class__ = Jobless
        return super().alive()


class Hopeful(CommitLane):
    """Counts the commit of a user's state as work that continues, even if it hangs."""

    __slots__ = ()

    @property
    def is_alive(self) -> bool:
        return self._current is not None


class Blind(CommitLane):
    """Reports only commits of states, not the reads in between."""

    __slots__ = ()

    @property
    def is_alive(self) -> bool:
        return isinstance(self._current, CommitGroup) and super().is_alive


class Leaving(DataPlane):
    """Releases leadership during any commit."""

    __slots__ = ()

    def _lose_patience(self) -> Iterator[Instruction]:
        self._is_forced = True
        yield from super()._lose_patience()


class Clinging(DataPlane):
    """Keeps leadership although the commit that it waited for has ended."""

    __slots__ = ()

    def _end_of_use(self, stimulus: Any) -> Iterator[Instruction]:
        was_held = self.is_held
        yield from super()._end_of_use(stimulus)
        self.is_held = was_held


class Unforced(DataPlane):
    """Keeps leadership although the end is forced."""

    __slots__ = ()

    def _come_to_the_end(self, stimulus: Any) -> Iterator[Instruction]:
        if not isinstance(stimulus, EndForced):
            yield from super()._come_to_the_end(stimulus)


class Patient(DataPlane):
    """Waits forever for work that hangs."""

    __slots__ = ()

    def _lose_patience(self) -> Iterator[Instruction]:
        yield from (each for each in super()._lose_patience() if not isinstance(each, Abandon))


class Tardy(DataPlane):
    """Aborts prepared changes after the states are closed."""

    __slots__ = ()

    def _keep(self, *given: Any) -> Iterator[Instruction]:
        are_closing, self._are_states_closing = self._are_states_closing, False
        yield from super()._keep(*given)
        self._are_states_closing = are_closing


class Secretive(DataPlane):
    """Doesn't report that it keeps leadership."""

    __slots__ = ()

    def _lose_patience(self) -> Iterator[Instruction]:
        yield from (each for each in super()._lose_patience() if not isinstance(each, KeepLeading))


MUTANTS = [
    (Backwards, "rows that fail every job, of an unknown transaction"),
    (Unbounded, "two that are too many for one job"),
    (Forsaking, "a read, and a commit that comes again"),
    (Mute, "two transactions"),
    (Queueless, "two transactions in a job"),
    (Hopeful, "a user's state"),
    (Blind, "a read"),
    (Leaving, "an end at a user's commit that hangs"),
    (Clinging, "an end at a user's commit"),
    (Unforced, "an end at a user's commit that hangs"),
    (Patient, "an end at a commit that hangs"),
    (Tardy, "an end without waiting"),
    (Secretive, "an end at a user's commit that hangs"),
    (Impatient, "a read"),
    (Careless, "an end, with two in a job"),
    (Separating, "two of three states in one database"),
    (Stubborn, "a failure before two states"),
    (Open, "a read"),
    (Believing, "rows that fail every job, said to be another's"),
    (Untold, "a failure in a shared job"),
    (Blaming, "rows of the last one that fail every job, of a known transaction"),
    (Traceless, "an end, with two in a job"),
    (Deaf, "a failure"),
    (Hoarding, "a failure"),
    (Ruthless, "a failure in a shared job"),
    (Lenient, "a failure"),
    (Unstaged, "silence in a commit by tasks"),
    (Crowding, "a large one between small ones"),
    (Hurried, "an end, with two in a job"),
    (TakingOneForAll, "two spouts, two states"),
    (Losing, "an end at a commit that fails"),
    (Whole, "a large one between small ones"),
    (Dropping, "an end, with two in a job"),
    (Deserting, "an end at any moment"),
    (Rushing, "two transactions in a job"),
]


@pytest.mark.parametrize(("mutant", "scope"), MUTANTS)
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


def test_the_page_of_rules_lists_each_of_them() -> None:
    page = RULES_PAGE.read_text()
    for mutant, scope in MUTANTS:
        what = (mutant.__doc__ or "").rstrip(".")
        assert f"| {what[0].lower()}{what[1:]} | {scope} |" in page


# --- transactions that are left out -----------------------------------------------------------------------------------

ONE = TopologyShape(
    spouts=(SpoutShape(name="lines"), SpoutShape(name="newer")),
    branches=(BranchShape(name="a", spouts=frozenset({"lines"})), BranchShape(name="b", spouts=frozenset({"lines"}))),
)


def acked(instructions: Sequence[Instruction], stream: StreamId) -> list[int]:
    posted = [each.message for each in instructions if isinstance(each, Post)]
    return [each.took for each in posted if isinstance(each, Acked) and each.stream is stream]


def empty(attempt: TransactionAttempt) -> Batch:
    return Batch(attempt=attempt, number=None, metadata={}, time=7, edges=[11, 12], parks=2)


def test_an_attempt_that_leaves_its_transaction_out_emits_nothing_and_commits_without_rows() -> None:
    plane, attempt = DataPlane(shape=ONE), TransactionAttempt(5, 3)
    said = plane.handle(
        BatchAnnounced(Batch(attempt=attempt, number=None, metadata={}, time=7, edges=[11, 12], parks=2))
    )
    assert acked(said, StreamId.BATCH) == [11, 12]
    assert [type(each) for each in said] == [Post, Post]
    (step,) = plane.handle(CommitAnnounced({attempt: [21, 22]}))
    assert isinstance(step, CommitStep)
    assert [(each.attempt, each.parks, each.receipts) for each in step.members] == [(attempt, 2, {0: None})]
    *told, step = plane.handle(StepCommitted())
    assert acked(told, StreamId.COMMIT) == [21]
    assert acked(plane.handle(StepCommitted()), StreamId.COMMIT) == [22]


def test_an_attempt_that_only_stores_rows_emits_and_runs_no_branch() -> None:
    plane, attempt = DataPlane(shape=ONE), TransactionAttempt(5, 3)
    batch = evolve(empty(attempt), number=4, metadata={"lines": [1]}, parks=3, stores=True)
    assert plane.handle(BatchAnnounced(batch)) == [
        Emit(attempt, 4, "lines", [1], stores=True),
        Emit(attempt, None, "newer", None, stores=True),
    ]
    for spout, edge in (("newer", 12), ("lines", 11)):
        given = Emitted(attempt=attempt, spout=spout, batch=None, rows=1, is_small=True, edges={})
        assert plane.handle(given) == [Post(Acked(attempt, StreamId.BATCH, edge))]
    (step,) = plane.handle(CommitAnnounced({attempt: [21, 22]}))
    assert isinstance(step, CommitStep)
    assert [(each.attempt, each.parks, each.receipts) for each in step.members] == [(attempt, 3, {0: None})]


LETTERED = TopologyShape(
    spouts=(SpoutShape(name="lines"), SpoutShape(name="newer")),
    branches=(
        BranchShape(name="a", spouts=frozenset({"lines"}), is_shareable=True),
        BranchShape(name="b", spouts=frozenset({"lines"})),
        BranchShape(name="letters", spouts=frozenset({"lines"}), collects=frozenset({"a", "b"})),
    ),
)


def test_dead_letters_run_through_their_branch_and_the_one_that_keeps_them_and_commit_alone() -> None:
    plane, attempt, later = DataPlane(shape=LETTERED), TransactionAttempt(5, 0), TransactionAttempt(6, 0)
    stored = StoredRows(file="f", host="h", bytes=1, hash="x", rows=1)
    batch = Batch(attempt=attempt, number=0, metadata={"lines": None}, time=7, edges=[11, 12], letters_of="a")
    said = plane.handle(BatchAnnounced(evolve(batch, stored={"lines": stored})))
    running = frozenset({0, 2})
    assert said == [
        Emit(attempt, 0, "lines", None, stored=stored, branches=running),
        Emit(attempt, None, "newer", None, branches=running),
    ]
    plane.handle(BatchAnnounced(evolve(empty(later), parks=None, number=1, metadata={"lines": 1})))
    for each, branches in ((attempt, (0, 2)), (later, (0, 1, 2))):
        plane.handle(Emitted(attempt=each, spout="newer", batch=None, rows=0, is_small=True, edges={}))
        given = Emitted(attempt=each, spout="lines", batch=[1], rows=1, is_small=True, edges=dict.fromkeys(branches, 9))
        for job in [each.job for each in plane.handle(given) if isinstance(each, RunJob)]:
            assert job.branch in branches
            plane.handle(JobDone(job, [Processed(f"{each} {job.branch}") for each in job.attempts]))
    (step,) = plane.handle(CommitAnnounced({attempt: [21, 22, 23], later: [31, 32, 33]}))
    for branch in range(3):
        assert isinstance(step, CommitStep)
        (member,) = step.members
        assert (member.attempt, step.branches, [*member.idle]) == (attempt, (branch,), [1])
        step = plane.handle(StepCommitted())[-1]
    assert isinstance(step, CommitStep)
    assert [(each.attempt, each.idle) for each in step.members] == [(later, frozenset())]


def test_dead_letters_are_read_between_two_commits_that_all_outputs_have() -> None:
    plane, attempt, wish = DataPlane(shape=LETTERED), TransactionAttempt(5, 0), Wish("w", Action.LETTERS)
    plane.handle(BatchAnnounced(empty(attempt)))
    plane.handle(CommitAnnounced({attempt: [21, 22, 23]}))
    assert plane.handle(LettersWanted(wish)) == []
    said = list(plane.handle(StepFailed(WHY)))
    assert not any(isinstance(each, ReadLetters) for each in said), "one of the outputs may have it, and others not"
    said += plane.handle(AttemptCancelled(attempt))
    again = TransactionAttempt(5, 1)
    plane.handle(BatchAnnounced(empty(again)))
    said += plane.handle(CommitAnnounced({again: [21, 22, 23]}))
    while any(isinstance(each, Abort) for each in said[-1:]):
        said = list(plane.handle(Aborted()))
    for _ in range(3):
        said = list(plane.handle(StepCommitted()))
    assert said[-1] == ReadLetters(wish)
    answer = LettersRead(wish)
    assert plane.handle(LettersStored(answer)) == [Post(answer)]


def test_outputs_are_asked_after_the_commit_that_may_still_change_them() -> None:
    plane, attempt, later = DataPlane(shape=ONE), TransactionAttempt(5, 3), TransactionAttempt(5, 4)
    plane.handle(BatchAnnounced(empty(attempt)))
    plane.handle(CommitAnnounced({attempt: [21, 22]}))
    plane.handle(AttemptCancelled(attempt))
    assert plane.handle(OutputsWanted(later, may_have_begun=True)) == []
    said = list(plane.handle(StepFailed(WHY)))
    while not any(isinstance(each, InspectOutputs) for each in said):
        assert any(isinstance(each, Abort) for each in said)
        said = list(plane.handle(Aborted()))
    assert plane.handle(OutputsInspected(5, "a has it")) == [Post(OutputsAnswered(5, "a has it"))]


TRIAL = TransactionAttempt(TRIAL_TXID, 0)
LINES = TopologyShape(
    spouts=(SpoutShape(name="lines"),),
    branches=(BranchShape(name="a", spouts=frozenset({"lines"}), is_shareable=True),),
)


def processed(plane: DataPlane, attempt: TransactionAttempt) -> None:
    """Emit a small batch, and run the branch that reads it."""
    plane.handle(BatchAnnounced(Batch(attempt=attempt, number=4, metadata={"lines": [1]}, time=7, edges=[11])))
    given = Emitted(attempt=attempt, spout="lines", batch=None, rows=1, is_small=True, edges={0: 12})
    (_, run) = plane.handle(given)
    assert isinstance(run, RunJob)
    assert run.job.is_shared is not attempt.is_trial, "a trial must not make others fail"
    plane.handle(JobDone(run.job, [Processed(f"receipt of {attempt}")]))


def test_a_trial_is_committed_and_undone_between_two_commits_and_then_discarded() -> None:
    plane, attempt = DataPlane(shape=LINES), TransactionAttempt(5, 0)
    processed(plane, attempt)
    processed(plane, TRIAL)
    plane.handle(CommitAnnounced({attempt: [21]}))
    assert plane.handle(TrialCommitWanted(TRIAL)) == []
    *_, tries = plane.handle(StepCommitted())
    assert tries == TryCommit(TRIAL, 7, {0: f"receipt of {TRIAL}"})
    assert plane.handle(TrialCommitted(TRIAL, ("b",))) == [Post(TrialPassed(TRIAL, ("b",)))]
    assert plane.handle(AttemptCancelled(TRIAL)) == [Abort(TRIAL, 7, 0, f"receipt of {TRIAL}")]


def test_a_trial_that_an_output_refuses_has_failed() -> None:
    plane = DataPlane(shape=LINES)
    processed(plane, TRIAL)
    plane.handle(TrialCommitWanted(TRIAL))
    assert plane.handle(TrialFailed(TRIAL, WHY)) == [Post(Failed(TRIAL, WHY.cause, WHY.kind))]


def test_a_trial_waits_until_all_outputs_are_at_one_transaction() -> None:
    plane, attempt = DataPlane(shape=LINES), TransactionAttempt(5, 0)
    plane.handle(TakenOver(5))
    processed(plane, TRIAL)
    processed(plane, attempt)
    assert plane.handle(TrialCommitWanted(TRIAL)) == []
    plane.handle(CommitAnnounced({attempt: [21]}))
    assert isinstance(plane.handle(StepCommitted())[-1], TryCommit)


def test_a_trial_that_is_cancelled_or_comes_too_late_is_not_tried() -> None:
    plane, attempt = DataPlane(shape=LINES), TransactionAttempt(5, 0)
    processed(plane, attempt)
    processed(plane, TRIAL)
    plane.handle(CommitAnnounced({attempt: [21]}))
    plane.handle(TrialCommitWanted(TRIAL))
    plane.handle(AttemptCancelled(TRIAL))
    assert not any(isinstance(each, TryCommit) for each in plane.handle(StepCommitted()))
    assert plane.handle(TrialCommitWanted(TRIAL)) == []


def test_a_spout_that_is_newer_than_a_released_batch_has_no_part_in_it() -> None:
    batch = Batch(attempt=TransactionAttempt(9, 0), number=4, metadata={"lines": [1]}, time=7, edges=[11, 12])
    said = DataPlane(shape=ONE).handle(BatchAnnounced(batch))
    assert said == [
        Emit(TransactionAttempt(9, 0), 4, "lines", [1]),
        Emit(TransactionAttempt(9, 0), None, "newer", None),
    ]
