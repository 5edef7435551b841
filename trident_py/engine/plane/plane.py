"""The data plane: the one machine that decides which work is done for which attempt of a batch, and when.

It receives stimuli (`handle`) and returns instructions: it uses no thread, clock, Spark or lock. Both machines, this
one and `coordinators.protocol.master`, run on the driver's thread. `engine.threads.streams` carries the instructions
out on threads, and reports the results.

Theory of operation. An attempt is announced, and every spout emits its part. A branch runs when all spouts that it
reads have emitted. It runs as its own job, or, for a small batch if possible, as a job that it shares with other
attempts (`JobBatcher`). The job's prepared work, the receipt, is kept until the attempt is committed or cancelled.

All work that uses states and sinks is done one item after the other (`CommitLane`). A failure is reported to the
driver, which cancels the attempt and every later one. Work that a cancelled attempt has prepared, or still prepares, is
discarded.

No spout emits and no branch runs for an attempt that only leaves its transaction out. Before that is decided, the
outputs are asked whether they can, as an item of the same lane: so after every commit that may still change them. And
if a spout can't emit the batch again later, it emits in the first such attempt, whose rows are stored.

A trial is an attempt that never commits. It shares no job with others. Once it is processed, the lane lets each output
commit it and undo that; then the driver cancels it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate, chain

from attrs import Factory, define, evolve, field, frozen

from coordinators.driver.batch_streams import Batch
from coordinators.protocol.messages import (
    Acked,
    Broken,
    Diagnosis,
    Failed,
    OutputsAnswered,
    SuccessDelivered,
    TrialPassed,
)
from coordinators.protocol.protocol import StreamId
from coordinators.status.listener import Counts
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.errors import our_bug
from trident_py.engine.plane.bolt_executor import TridentBoltExecutor
from trident_py.engine.plane.commit_lane import CommitGroup, CommitLane, GroupMember, outputs_of
from trident_py.engine.plane.emitted import TransactionCounts
from trident_py.engine.plane.instructions import (
    Abandon,
    Abort,
    Answer,
    CancelEmit,
    CancelJob,
    CancelStaging,
    CloseSpouts,
    CloseStates,
    DeliverSuccess,
    Emit,
    InspectOutputs,
    Instruction,
    KeepLeading,
    Post,
    ReadLetters,
    RunJob,
    TryCommit,
)
from trident_py.engine.plane.stimuli import (
    Aborted,
    AttemptCancelled,
    BatchAnnounced,
    Broke,
    CheckpointBegun,
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
from trident_py.engine.plane.work import Half, Job, Processed, TopologyShape

ROWS_MAX = 16_384
"""The maximum number of rows of one job.

Rows on the driver enter at 80 000 a second: more gain little, and all of them wait for it.
"""


@frozen
class _Waiting:
    attempt: TransactionAttempt
    rows: int


@define
class JobBatcher:
    """Decides which small batches share a job.

    One job per branch runs at a time, and batches that arrive meanwhile go into the next one. A batch that is alone
    gets a job at once.
    """

    _waiting: defaultdict[int, list[_Waiting]] = field(factory=lambda: defaultdict(list), init=False)
    _again: defaultdict[int, deque[tuple[TransactionAttempt, ...]]] = field(
        factory=lambda: defaultdict(deque), init=False
    )
    _running: dict[int, Job] = field(factory=dict, init=False)

    def add(self, branch: int, attempt: TransactionAttempt, rows: int) -> Job | None:
        """Add ``attempt``, whose spouts emitted ``rows`` rows; return the job that starts now, if any."""
        self._waiting[branch].append(_Waiting(attempt, rows))
        return None if branch in self._running else self._next(branch)

    def drop(self, attempt: TransactionAttempt) -> None:
        """Remove ``attempt``, which will never commit, from all future jobs."""
        for branch, waiting in self._waiting.items():
            self._waiting[branch] = [each for each in waiting if each.attempt != attempt]
        for branch, groups in self._again.items():
            left = (tuple(each for each in group if each != attempt) for group in groups)
            self._again[branch] = deque(group for group in left if group)

    def end(self, job: Job, again: Sequence[Sequence[TransactionAttempt]] = ()) -> Job | None:
        """End a job and return the next one; the groups in ``again`` must run again, before others."""
        assert self._running.get(job.branch) == job, our_bug(f"{job} ended, and was not running")
        del self._running[job.branch]
        self._again[job.branch].extendleft(tuple(group) for group in reversed(again))
        return self._next(job.branch)

    def _next(self, branch: int) -> Job | None:
        attempts = self._again[branch].popleft() if self._again[branch] else self._first_waiting(branch)
        if not attempts:
            return None
        job = self._running[branch] = Job(branch, attempts, is_shared=True)
        return job

    def _first_waiting(self, branch: int) -> tuple[TransactionAttempt, ...]:
        waiting = self._waiting[branch]
        rows = accumulate(each.rows for each in waiting)
        count = max(1, sum(1 for upto in rows if upto <= ROWS_MAX))
        self._waiting[branch] = waiting[count:]
        return tuple(each.attempt for each in waiting[:count])


def bisected(attempts: Sequence[TransactionAttempt]) -> list[Sequence[TransactionAttempt]]:
    """Return the halves of a failed shared job without known culprit; a single attempt stays as it is."""
    middle = len(attempts) // 2
    return [half for half in (attempts[:middle], attempts[middle:]) if half]


# large: one machine with one entry point; its data on each attempt, job and commit are in other files
@define(kw_only=True, eq=False)
class DataPlane:
    """Decides; never acts. One entry point: `handle`.

    Attributes:
        shape: the spouts and branches of the topology.
        is_held: true while its end waits for a commit without a fence.
    """

    shape: TopologyShape
    is_held: bool = field(default=False, init=False)
    _executors: dict[TransactionAttempt, TridentBoltExecutor] = field(factory=dict, init=False)
    _batcher: JobBatcher = field(factory=JobBatcher, init=False)
    _lane: CommitLane = field(default=Factory(lambda self: CommitLane(outputs_of(self.shape)), True), init=False)
    _counts: TransactionCounts = field(factory=TransactionCounts, init=False)
    _untold: dict[int, set[tuple[str, Half]]] = field(factory=dict, init=False)  # halves that await a success
    _open: set[tuple[str, Half]] = field(factory=set, init=False)  # halves that are to be closed
    _is_closing: bool = field(default=False, init=False)
    _is_forced: bool = field(default=False, init=False)
    _are_states_closing: bool = field(default=False, init=False)
    _are_states_closed: bool = field(default=False, init=False)

    def handle(self, stimulus: Stimulus) -> list[Instruction]:
        """Return the instructions that follow from a stimulus, in the order in which to carry them out."""
        instructions = list(self._taken(stimulus))
        if self._is_closing and not self._are_states_closing and self._is_quiet:
            instructions += self._close_states()
        self._check(stimulus)
        return instructions

    # --- queries ------------------------------------------------------------------------------------------------------

    def consumers(self, stream: StreamId) -> int:
        """Return the number of consumers: every spout for ``$batch``, every committing output for ``$commit``."""
        return len(self.shape.spouts) if stream is StreamId.BATCH else len(self._lane.outputs)

    def alive(self) -> Collection[tuple[TransactionAttempt, StreamId]]:
        """Return the phases that some task is visibly working on; they don't time out.

        These are batches with a job, and all commits while one of them makes progress.
        """
        live = [executor for executor in self._executors.values() if not executor.is_cancelled]
        working = [(executor.attempt, StreamId.BATCH) for executor in live if executor.is_working]
        return [*working, *((executor.attempt, StreamId.COMMIT) for executor in live if self._lane.is_alive)]

    def counted(self, attempt: TransactionAttempt) -> Counts:
        """Return the counts of a live attempt; the rows of emitted DataFrames are not counted."""
        executor = self._executors.get(attempt)
        counted = Counts(by_name=self._counts.of(attempt))
        return executor.counted + counted if executor else counted

    @property
    def is_closed(self) -> bool:
        """Whether all work has ended after `Closing`."""
        return self._are_states_closed and self._is_quiet and self._lane.is_idle

    @property
    def _is_quiet(self) -> bool:
        return not self._open and all(executor.is_idle for executor in self._executors.values())

    # --- stimuli ------------------------------------------------------------------------------------------------------

    def _taken(self, stimulus: Stimulus) -> Iterator[Instruction]:
        match stimulus:
            case BatchAnnounced(batch):
                yield from self._announce(batch)
            case CommitAnnounced(group):
                yield from self._commit(group)
            case SuccessAnnounced(attempt, number):
                yield from self._succeed(attempt, number)
            case AttemptCancelled(attempt):
                yield from self._cancel(attempt)
            case Emitted() | EmitFailed() | CheckpointBegun():
                yield from self._take_emission(stimulus)
            case JobDone() | JobFailed():
                yield from self._end_job(stimulus)
            case _:
                yield from self._taken_otherwise(stimulus)

    def _taken_otherwise(self, stimulus: Stimulus) -> Iterator[Instruction]:
        match stimulus:
            case SpoutSucceeded(txid, spout, half):
                yield from self._hear_of_success(txid, spout, half)
            case Broke(cause):
                yield Post(Broken(cause))
            case ReadWanted() | OutputsWanted() | TrialCommitWanted() | LettersWanted():
                yield from self._want_outputs(stimulus)
            case StepCommitted() | StepFailed() | Aborted() | ReadDone() | StatesClosed():
                yield from self._end_of_use(stimulus)
            case OutputsInspected() | TrialCommitted() | TrialFailed() | LettersStored():
                yield from self._tell_of_outputs(stimulus)
            case TakenOver(torn, together):
                outputs, committed = outputs_of(self.shape, together), stimulus.committed_txid
                self._lane = evolve(self._lane, outputs=outputs, partial_commit_txid=torn, committed_txid=committed)
            case Closing() | SpoutClosed() | PatienceEnded() | EndForced():
                yield from self._come_to_the_end(stimulus)
            case _:
                raise TypeError(f"not a stimulus of the data plane: {stimulus!r}")

    def _want_outputs(
        self, stimulus: ReadWanted | OutputsWanted | TrialCommitWanted | LettersWanted
    ) -> Iterator[Instruction]:
        match stimulus:
            case ReadWanted():
                yield from self._lane.add(stimulus)
            case OutputsWanted(attempt, may_have_begun):
                yield from self._lane.add(InspectOutputs(attempt, may_have_begun))
            case LettersWanted(wish):
                yield from self._lane.add(ReadLetters(wish))
            case TrialCommitWanted(attempt) if attempt in self._executors:
                yield from self._lane.add(self._executors[attempt])

    def _end_of_use(
        self, stimulus: StepCommitted | StepFailed | Aborted | ReadDone | StatesClosed
    ) -> Iterator[Instruction]:
        match stimulus:
            case StepCommitted(counts):
                self._counts.commit(counts)
                yield from self._lane.step_committed()
            case StepFailed(why, counts):
                self._counts.commit(counts)
                yield from self._lane.step_failed(why)
            case Aborted():
                yield from self._lane.ended(Abort)
            case ReadDone():
                yield from self._lane.ended(Answer)
            case StatesClosed():
                self._are_states_closed = True
                yield from self._lane.ended(CloseStates)
        self.is_held = self.is_held and bool(self._lane.unfenced)

    def _tell_of_outputs(
        self, stimulus: OutputsInspected | TrialCommitted | TrialFailed | LettersStored
    ) -> Iterator[Instruction]:
        match stimulus:
            case OutputsInspected(txid, refusal):
                yield Post(OutputsAnswered(txid, refusal))
                yield from self._lane.ended(InspectOutputs)
            case LettersStored(answer):
                yield Post(answer)
                yield from self._lane.ended(ReadLetters)
            case TrialCommitted(attempt, untried):
                yield Post(TrialPassed(attempt, untried))
                yield from self._lane.ended(TryCommit)
            case TrialFailed(attempt, why):
                yield Post(Failed(attempt, why.cause, why.kind, state=why.state))
                yield from self._lane.ended(TryCommit)

    def _commit(self, group: Mapping[TransactionAttempt, Sequence[int]]) -> Iterator[Instruction]:
        members = [GroupMember(self._executors[attempt], edges) for attempt, edges in group.items()]
        self._check_group([member.executor for member in members])
        yield from self._lane.add(CommitGroup(members[0].executor.attempt.txid, members))

    # --- emission -----------------------------------------------------------------------------------------------------

    def _announce(self, batch: Batch) -> Iterator[Instruction]:
        edges = dict(zip([spout.name for spout in self.shape.spouts], batch.edges, strict=True))
        branches = [branch.spouts for branch in self.shape.branches]
        running = self.shape.about(batch.letters_of) if batch.letters_of else None
        idle = frozenset[int]() if running is None else frozenset(range(len(branches))) - running
        executor = self._executors[batch.attempt] = TridentBoltExecutor(batch, branches, edges, idle)
        for branch in range(len(branches)) if executor.is_empty else idle:
            executor.prepare(branch, None)
        if not executor.emitting:
            yield from (Post(Acked(batch.attempt, StreamId.BATCH, edge)) for edge in batch.edges)
            return
        for spout in edges:
            number = batch.number if spout in batch.metadata else None  # a spout may be newer than what is released
            metadata, stored = batch.metadata.get(spout), batch.stored.get(spout)
            fixed, sifts = batch.bad_rows, batch.sifts
            yield Emit(batch.attempt, number, spout, metadata, batch.stores, stored, fixed, sifts, running)

    def _take_emission(self, stimulus: Emitted | EmitFailed | CheckpointBegun) -> Iterator[Instruction]:
        executor, spout = self._executors[stimulus.attempt], stimulus.spout
        if isinstance(stimulus, CheckpointBegun):
            executor.checkpointing.add(spout)
            return
        executor.emitting.remove(spout)
        executor.checkpointing.discard(spout)
        if executor.is_cancelled:
            self._forget_if_idle(executor)
        elif isinstance(stimulus, EmitFailed):
            yield Post(Failed(executor.attempt, stimulus.why.cause, stimulus.why.kind, (spout,)))
        else:
            self._counts.process(executor.attempt, stimulus.counts)
            yield from (Post(message) for message in stimulus.resolved)
            edges = tuple(stimulus.edges.values())
            yield Post(Acked(executor.attempt, StreamId.BATCH, executor.edges[spout], edges))
            for branch in executor.take(stimulus):
                yield from self._start(executor, branch)

    # --- jobs ---------------------------------------------------------------------------------------------------------

    def _start(self, executor: TridentBoltExecutor, branch: int) -> Iterator[Instruction]:
        is_shared = self.shape.branches[branch].is_shareable and executor.reads_little(branch)
        if is_shared and not executor.attempt.is_trial:  # a failure of it must not be that of others
            executor.waiting.add(branch)
            yield from self._run(self._batcher.add(branch, executor.attempt, executor.rows))
        else:
            yield from self._run(Job(branch, (executor.attempt,), sieves=executor.batch.sieves))

    def _run(self, job: Job | None) -> Iterator[Instruction]:
        if job is None:
            return
        for attempt in job.attempts:
            self._executors[attempt].waiting.discard(job.branch)
            self._executors[attempt].jobs.add(job)
        yield RunJob(job, [self._executors[attempt].member(job.branch) for attempt in job.attempts])

    def _end_job(self, ended: JobDone | JobFailed) -> Iterator[Instruction]:
        job = ended.job
        executors = [self._executors[attempt] for attempt in job.attempts]
        for executor in executors:
            executor.jobs.remove(job)
        again: list[Sequence[TransactionAttempt]] = []
        if isinstance(ended, JobDone):
            for executor, processed in zip(executors, ended.made, strict=True):
                yield from self._keep(executor, job.branch, processed)
        else:
            failed, again = self._divided(job, executors, ended.why)
            yield from self._fail(job, executors, failed, ended.why)
        if job.is_shared:
            for attempt in chain.from_iterable(again):
                self._executors[attempt].waiting.add(job.branch)
            yield from self._run(self._batcher.end(job, again))
        for executor in executors:
            self._forget_if_idle(executor)

    def _fail(
        self,
        job: Job,
        executors: Sequence[TridentBoltExecutor],
        failed: TridentBoltExecutor | None,
        why: Diagnosis,
    ) -> Iterator[Instruction]:
        for executor in executors:
            if executor.is_cancelled or executor is failed:
                yield from self._keep(executor, job.branch, Processed(None))  # it is unknown what it has prepared
        if failed is not None:
            yield Post(Failed(failed.attempt, why.cause, why.kind, self.shape.branches[job.branch].spouts))

    def _divided(
        self, job: Job, executors: Sequence[TridentBoltExecutor], why: Diagnosis
    ) -> tuple[TridentBoltExecutor | None, list[Sequence[TransactionAttempt]]]:
        """Return the attempt that made a job fail, if known, and the groups that must run again, one job each.

        A failure that no batch has caused, such as a lost executor, fails the first attempt; the master cancels those
        after it. Otherwise, if the error names a transaction of the job, that attempt fails and the others run again
        together. If it names none, the job is bisected, until a job with one attempt fails.
        """
        live = [executor for executor in executors if not executor.is_cancelled]
        if not live:
            return None, []
        first = min(live, key=lambda executor: executor.attempt.txid)  # the master cancels those after it
        if len(job.attempts) == 1 or not why.kind.counts:
            return first, []
        if why.txid not in [attempt.txid for attempt in job.attempts]:
            return None, bisected([executor.attempt for executor in live])
        failed = next((executor for executor in live if executor.attempt.txid == why.txid), None)
        others = [executor.attempt for executor in live if executor is not failed]
        return failed, [others] if others else []

    def _keep(self, executor: TridentBoltExecutor, branch: int, processed: Processed) -> Iterator[Instruction]:
        if executor.is_cancelled:
            if not self._are_states_closing:  # otherwise the next takeover removes what it has prepared
                yield from self._lane.add(Abort(executor.attempt, executor.time, branch, processed.receipt))
            return
        executor.prepare(branch, processed.receipt)
        executor.count_written(self.shape.branches[branch].name, processed.written)
        self._counts.process(executor.attempt, processed.counts)
        for spout, rows in processed.rows.items():
            executor.count_rows(spout, "tasks", rows)
        yield from (Post(report) for report in processed.reports)

    # --- the end of attempts ------------------------------------------------------------------------------------------

    def _cancel(self, attempt: TransactionAttempt) -> Iterator[Instruction]:
        executor = self._executors.get(attempt)
        if executor is None or executor.is_cancelled:
            return
        # No step that commits is cancelled: it may be in the middle of its writes. It goes on, and is then too late.
        # Only the job that stages for it is cancelled.
        for branch, receipt in executor.cancel().items():
            yield from self._lane.add(Abort(attempt, executor.time, branch, receipt))
        self._batcher.drop(attempt)
        self._counts.cancel(attempt)
        for spout in sorted(executor.emitting):
            yield CancelEmit(attempt, spout)
        if self._lane.is_staging(attempt):
            yield CancelStaging(attempt)
        for job in sorted(executor.jobs, key=lambda job: job.branch):
            if all(self._executors[each].is_cancelled for each in job.attempts):  # else the others need the job
                yield CancelJob(job)
        self._forget_if_idle(executor)

    def _forget_if_idle(self, executor: TridentBoltExecutor) -> None:
        if executor.is_cancelled and executor.is_idle:
            self._executors.pop(executor.attempt, None)

    def _succeed(self, attempt: TransactionAttempt, number: int | None) -> Iterator[Instruction]:
        self._executors.pop(attempt, None)  # an attempt of an earlier leader has none
        self._counts.close(attempt)
        if number is None:
            yield Post(SuccessDelivered(attempt.txid))
            return
        self._untold[attempt.txid] = {(spout.name, half) for spout in self.shape.spouts for half in Half}
        for spout in self.shape.spouts:
            yield DeliverSuccess(attempt, number, spout.name)

    def _hear_of_success(self, txid: int, spout: str, half: Half) -> Iterator[Instruction]:
        self._untold[txid].remove((spout, half))
        if not self._untold[txid]:
            del self._untold[txid]
            yield Post(SuccessDelivered(txid))

    # --- the end of the topology --------------------------------------------------------------------------------------

    def _come_to_the_end(self, stimulus: Closing | SpoutClosed | PatienceEnded | EndForced) -> Iterator[Instruction]:
        match stimulus:
            case Closing():
                yield from self._close()
            case SpoutClosed(spout, half):
                self._open.remove((spout, half))
            case PatienceEnded():
                yield from self._lose_patience()
            case EndForced():
                self._is_forced = True
                yield from self._lose_patience() if self.is_held else ()

    def _close(self) -> Iterator[Instruction]:
        for attempt in list(self._executors):
            yield from self._cancel(attempt)
        self._is_closing = True
        self._open = {(spout.name, half) for spout in self.shape.spouts for half in Half}
        yield from self._lane.close()
        yield CloseSpouts()

    def _close_states(self) -> Iterator[Instruction]:
        self._are_states_closing = True
        yield from self._lane.add(CloseStates())

    def _lose_patience(self) -> Iterator[Instruction]:
        if (what := self._lane.unfenced) and not self._is_forced:
            self.is_held = True
            yield KeepLeading(what)
            return
        self.is_held = False
        if not self._are_states_closing:
            yield from self._close_states()
        yield Abandon()

    # --- invariants ---------------------------------------------------------------------------------------------------

    def _check(self, stimulus: Stimulus) -> None:
        """Assert, after a transition, the invariants of the attempts that it was about."""
        match stimulus:
            case JobDone(job) | JobFailed(job):
                attempts: Sequence[TransactionAttempt] = job.attempts
            case Emitted(attempt=attempt) | EmitFailed(attempt=attempt) | AttemptCancelled(attempt):
                attempts = (attempt,)
            case _:
                return
        for executor in (self._executors[attempt] for attempt in attempts if attempt in self._executors):
            places = [*executor.waiting, *(job.branch for job in executor.jobs), *executor.prepared]
            assert len(places) == len(set(places)), our_bug(f"{executor.attempt} is twice in one branch")
            assert not (executor.is_cancelled and executor.waiting), our_bug(
                f"{executor.attempt} is cancelled, and waits"
            )

    def _check_group(self, executors: Sequence[TridentBoltExecutor]) -> None:
        first = executors[0].attempt.txid
        for txid, executor in enumerate(executors, first):
            assert executor.attempt.txid == txid, our_bug(f"{executor.attempt} commits in the place of {txid}")
            assert not executor.is_cancelled, our_bug(f"{executor.attempt} commits, and was cancelled")
            missing = {branch for each in self._lane.outputs for branch in each.branches} - set(executor.prepared)
            assert not missing, our_bug(f"{executor.attempt} commits, and branches {missing} aren't prepared")
