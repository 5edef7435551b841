"""The threads of a topology: they carry out the instructions of `DataPlane`, and report the results.

Each spout has one thread for its coordinator and one for its emitter. Commits have one thread, and Spark jobs have as
many as may run in parallel. All calls of one kind are in txid order, and a commit never waits for an emission. No
decisions are made here.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pyarrow as pa
from attrs import define, evolve, field

from coordinators.batches.spout_coordinator import Ask
from coordinators.protocol.messages import Diagnosis, FailureKind, Fingerprinted, Message, RowsStored
from coordinators.status.listener import Tell, Work, WorkEvent
from coordinators.values.attempt import TransactionAttempt, shown_attempts
from coordinators.values.batch_coordinator import BatchCoordinator
from coordinators.values.error_text import error_text, quoted
from coordinators.values.log_fields import logging_about
from trident_py.engine.plane.emitted import EmittedBatch
from trident_py.engine.plane.instructions import (
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
    ReadLetters,
    Refuse,
    RunJob,
    TryCommit,
)
from trident_py.engine.plane.sifting import rows_of_letters
from trident_py.engine.plane.stimuli import (
    Broke,
    CheckpointBegun,
    EmitFailed,
    Emitted,
    JobDone,
    JobFailed,
    LettersStored,
    ReadDone,
    SiftedInput,
    SpoutClosed,
    SpoutSucceeded,
    StepFailed,
    Stimulus,
)
from trident_py.engine.plane.work import CommitMember, Half, Job, JobMember, Processed
from trident_py.engine.ports.batch_engine import Jobs
from trident_py.engine.ports.reads import Read, StateReads
from trident_py.engine.threads.commits import Commits
from trident_py.engine.threads.dead_letters import DeadLetterTable
from trident_py.engine.threads.parked_rows import ParkedRows
from trident_py.engine.threads.sifting import NOTHING_SIFTED, SiftedBatch, Sifting
from trident_py.engine.threads.threads import Running, SpoutThreads, Threads, ThreadWork, Unwanted
from trident_py.errors import SinkError, SpoutError, StateError, TridentError
from trident_py.rows.row import hash_rows
from trident_py.rows.schema import arrow_schema
from trident_py.spark.failures import Diagnose, Place

log = logging.getLogger(__name__)


@define(kw_only=True, eq=False)
class SpoutEmission:
    """Lets one spout emit its part of one attempt.

    Attributes:
        readers: the branches that read it.
        is_reread: one of them reads it more than once.
        sifting: the branches that don't read it as it is, but without bad rows.
        jobs: reads a batch once, by a Spark job, and keeps its rows.
        parked: stores the rows of a transaction that is parked, and reads them when it is released.
        diagnose: returns the meaning of an exception.
        draw_edge: draws an acker edge.
    """

    emit: Emit
    spout: SpoutThreads
    readers: Sequence[int]
    is_reread: bool
    sifting: Sifting
    jobs: Jobs
    parked: ParkedRows
    diagnose: Callable[[BaseException], Diagnosis]
    draw_edge: Callable[[], int]
    running: Running = field(factory=Running, init=False)

    def run(self, report: Callable[[Stimulus], object]) -> None:
        """Emit, and pass the result or the exception to ``report``."""
        attempt, tx_id = self.emit.attempt, self.spout.tx_id
        try:
            if self.running.is_cancelled:
                raise Unwanted
            outcome: Stimulus = self._emitted(report)
        except Unwanted as error:
            outcome = EmitFailed(attempt, tx_id, Diagnosis(error, FailureKind.INTERRUPTED))
        except BaseException as error:  # noqa: BLE001 - user code
            why = self.diagnose(error)
            is_final = attempt.is_trial and why.kind.counts  # no row was tried, so it says nothing about rows
            outcome = EmitFailed(attempt, tx_id, evolve(why, kind=FailureKind.FATAL) if is_final else why)
        self.running.end()
        report(outcome)

    def _emitted(self, report: Callable[[Stimulus], object]) -> Emitted:
        attempt, executor = self.emit.attempt, self.spout.executor
        number = self.emit.number
        if number is None:  # the spout is not called for an empty transaction
            return self._sifted(EmittedBatch(executor.schema), (), report)
        if self.emit.stored is not None:
            return self._released(self.parked.read(self.spout.tx_id, self.emit.stored), report)
        batch = self._settled(executor.emit_batch(attempt, number, self.emit.metadata), report)
        resolved: list[Message] = [*executor.resolve_offsets(attempt, number, batch.reported)]
        if self.emit.stores:
            rows = self.jobs.rows_of(self.emit, batch).cast(arrow_schema(executor.schema))
            stored = self.parked.store(str(attempt), self.spout.tx_id, rows)
            resolved.append(RowsStored(attempt, self.spout.tx_id, stored))
            if attempt.is_trial and self.spout.coordinator.exact:
                resolved.append(Fingerprinted(attempt, self.spout.tx_id, hash_rows(rows)))
        return self._sifted(batch, resolved, report)

    def _released(self, rows: pa.Table, report: Callable[[Stimulus], object]) -> Emitted:
        """Emit rows that are stored, or those of dead letters that are."""
        schema = self.spout.executor.schema
        letters = None if self.emit.branches is None else rows
        given = rows if letters is None else rows_of_letters(letters, schema)
        return self._sifted(EmittedBatch(schema, (given.cast(arrow_schema(schema)),)), (), report, letters)

    def _sifted(
        self,
        batch: EmittedBatch,
        resolved: Sequence[Message],
        report: Callable[[Stimulus], object],
        released: pa.Table | None = None,
    ) -> Emitted:
        emit, exact = self.emit, self.spout.coordinator.exact
        if exact and emit.bad_rows:
            self.sifting.ensure_known(emit)
        if not self.sifting.sifting:
            return self._as_emitted(batch, resolved)
        if self.sifting.is_due(emit, is_exact=exact):
            report(CheckpointBegun(emit.attempt, self.spout.tx_id))
            self.running.enter_spark()
        sift = self.sifting.run(self.jobs, emit, batch, is_exact=exact, released=released)
        return self._as_emitted(evolve(batch, counts={**batch.counts, **sift.counts}), [*resolved, *sift.told], sift)

    def _as_emitted(
        self, batch: EmittedBatch, resolved: Sequence[Message] = (), sift: SiftedBatch = NOTHING_SIFTED
    ) -> Emitted:
        return Emitted(
            attempt=self.emit.attempt,
            spout=self.spout.tx_id,
            batch=batch,
            rows=max(batch.known_rows, sift.rows),
            is_small=batch.is_small,
            edges={branch: self.draw_edge() for branch in self.readers},
            resolved=resolved,
            counts=batch.counts,
            sifted={
                # A branch that begins behind its row functions shares no job with others, which begin before.
                branch: SiftedInput(each, each.is_small and branch in self.sifting.collecting)
                for branch, each in sift.inputs.items()
            },
        )

    def _settled(self, batch: EmittedBatch, report: Callable[[Stimulus], object]) -> EmittedBatch:
        """Return ``batch``, or its rows read once: if reading reports something, or a second read might differ."""
        stores, exact = self.emit.stores, self.spout.coordinator.exact
        readers = [each for each in self.readers if each not in self.sifting.collecting]
        is_reread = not stores and (len(readers) > 1 or self.is_reread)
        is_due = batch.is_read_once or (is_reread and not (exact or batch.is_settled))
        if not (is_due or stores):
            return batch
        report(CheckpointBegun(self.emit.attempt, self.spout.tx_id))  # to store rows takes time, too
        self.running.enter_spark()
        return self.jobs.checkpoint(self.emit, batch, exact) if is_due else batch


CANCEL_AGAIN_SECONDS = 0.5


# large: the only component with threads, so it knows all work on them
@define(kw_only=True, eq=False)
class Workers:
    """The threads, and the components that they serve.

    Attributes:
        branches: for each branch, the spouts that it reads.
        rereads: the spouts that one branch reads more than once.
        sifting: by spout, the branches that don't read its batches as they are.
        commits: the work on the commit thread.
        reads: the reads of states on the commit thread.
        parked: the files with the rows of parked transactions.
        letters: the table of dead letters.
        jobs: the work on job threads. An emitter's thread uses it to checkpoint a batch, if a second read might differ,
            or if only reading determines the batch.
        diagnose: returns the meaning of an exception.
        tell: called with each finished piece of work, on the thread that has done it.
        job_threads: how many jobs may run in parallel, including those that are being cancelled.
        given_up: set when busy threads are not waited for any longer.
    """

    topology: str
    spouts: Sequence[SpoutThreads]
    branches: Sequence[frozenset[str]]
    rereads: frozenset[str]
    sifting: Mapping[str, Sifting]
    commits: Commits
    reads: StateReads
    parked: ParkedRows
    letters: DeadLetterTable
    jobs: Jobs
    diagnose: Diagnose
    draw_edge: Callable[[], int]
    tell: Tell
    job_threads: int
    committing: Threads = field(init=False)
    given_up: threading.Event = field(factory=threading.Event, init=False)
    _by_name: Mapping[str, SpoutThreads] = field(init=False)
    _threads: Threads = field(init=False)
    _running: dict[Job | tuple[TransactionAttempt, str], Running] = field(factory=dict, init=False)
    _report: Callable[[Stimulus], object] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._by_name = {threads.tx_id: threads for threads in self.spouts}
        self.committing = Threads(f"trident-{self.topology}-commit")
        self._threads = Threads(f"trident-{self.topology}-job", self.job_threads)

    def open(self, report: Callable[[Stimulus], object]) -> None:
        """Send results to ``report`` from now on, from any thread."""
        self._report = report
        self.reads.open(report)

    # --- on the driver's thread ---------------------------------------------------------------------------------------

    def ask(self, spout: str, ask: Ask, post: Callable[[Message], object]) -> None:
        """Let the coordinator of ``spout`` answer to ``post``."""

        def answer() -> None:
            for message in threads.coordinator.answers(ask):
                post(message)

        threads = self._spout(spout)
        with logging_about(txid=ask.bindings.txid(ask.txid)):
            self._submit(threads.coordinating, f"spout {spout!r} is asked for batch {ask.txid}", answer)

    def do(self, instruction: Instruction) -> None:
        """Let a thread carry out ``instruction``."""
        with logging_about(attempt=_only_attempt(instruction)):
            self._begin(instruction)

    def _begin(self, instruction: Instruction) -> None:
        match instruction:
            case Emit():
                self._emit(instruction)
            case RunJob(job, members):
                running = self._running[job] = Running()
                self._run(job, members, running)
            case CancelEmit() | CancelJob() | CancelStaging():
                self._cancel(instruction)
            case DeliverSuccess(attempt, number, spout):
                self._deliver_success(attempt, number, self._spout(spout))
            case Refuse(read):
                self.reads.refuse(read)
            case CloseSpouts():
                self._close_spouts()
            case _:
                self._submit(self.committing, self._doing(instruction), partial(self._use_states, instruction))

    def abandon(self) -> None:
        """Refuse later writes of threads that don't return, and fail waiting reads."""
        self.given_up.set()
        for participant in self.commits.participants:
            participant.abandon()
        self.reads.close()

    def leave(self, until: float) -> list[str]:
        """Accept no more work; return the threads that are still busy at this monotonic moment, and their positions."""
        self.jobs.close()
        for pool in self._pools:
            pool.close()
        for pool in self._pools:
            pool.wait(until)
        self.reads.close()
        return [busy for pool in self._pools for busy in pool.busy()]

    def works(self) -> list[ThreadWork]:
        """Return the current work of all threads. Any thread may call it."""
        return [work for pool in self._pools for work in pool.works()]

    def lock_holders(self) -> Mapping[str, str]:
        """Return the holders of locks for which a commit waits now, as databases report them.

        Any thread may call it.
        """
        if not self.committing.works():
            return {}
        found = {text: output.name for output in self.commits.participants for text in output.lock_holders()}
        return {text: f"{name} waits for a lock: {text}" for text, name in found.items()}

    def lost_lease(self) -> Mapping[str, str]:
        """Return why no commit may start just now, if another process may lead. Any thread may call it."""
        try:
            self.commits.ensure_leading()
        except TridentError as error:
            return {"lease": f"leadership is not certain, so nothing commits: {error}"}
        return {}

    @property
    def _pools(self) -> list[Threads]:
        spouts = [pool for each in self.spouts for pool in (each.coordinating, each.emitting)]
        return [*spouts, self._threads, self.committing]

    def _emit(self, emit: Emit) -> None:
        threads = self._spout(emit.spout)
        running = range(len(self.branches)) if emit.branches is None else sorted(emit.branches)
        readers = [number for number in running if emit.spout in self.branches[number]]
        emission = SpoutEmission(
            emit=emit,
            spout=threads,
            readers=[] if emit.stores else readers,
            is_reread=emit.spout in self.rereads,
            sifting=self.sifting[emit.spout],
            jobs=self.jobs,
            parked=self.parked,
            diagnose=partial(self._diagnosed, emit.attempt, Place.SPOUT, f"spout {emit.spout!r} emitting"),
            draw_edge=self.draw_edge,
        )
        if emit.number is None:
            emission.run(self._report)
            return
        self._running[emit.attempt, emit.spout] = emission.running
        doing = f"spout {emit.spout!r} emits {emit.attempt}"
        self._submit(threads.emitting, doing, partial(self._run_emission, emission))

    def _run(self, job: Job, members: Sequence[JobMember], running: Running) -> None:
        """Begin a job; if only `Jobs.process` can run it, on a thread."""
        begun = time.monotonic()

        def run_on_a_thread() -> None:
            doing = f"{self._output(job.branch)} is prepared for {shown_attempts(job.attempts)}"
            self._submit(self._threads, doing, partial(self._process, job, members, running))

        def end(outcome: Sequence[Processed] | BaseException | None) -> None:
            ends = partial(self._end_job, job, running, begun, () if outcome is None else outcome)
            if outcome is None:
                run_on_a_thread()
            elif isinstance(outcome, BaseException):  # to find out what it means may take time
                self._submit(self._threads, "the failure of a batch is judged", ends)
            else:
                self._guarded(ends)

        if job.is_shared and self.jobs.begin(job, members, end):
            running.is_in_spark = True
        else:
            run_on_a_thread()

    def _cancel(self, what: CancelEmit | CancelJob | CancelStaging) -> None:
        match what:
            case CancelStaging(attempt):
                running, cancel = self.commits.staging, partial(self.jobs.cancel_attempt, attempt)
            case CancelEmit(attempt, spout):
                running, cancel = self._running.get((attempt, spout)), partial(self.jobs.cancel_attempt, attempt)
            case CancelJob(Job(attempts=(attempt, *_), is_shared=False) as job):
                running, cancel = self._running.get(job), partial(self.jobs.cancel_attempt, attempt)
            case CancelJob(job):
                running, cancel = self._running.get(job), partial(self.jobs.cancel_job, job)
        if running is not None and running.cancel():  # otherwise it has just ended, or will end without Spark
            self._submit(self._threads, "a Spark job is cancelled", partial(self._cancel_until_ended, running, cancel))

    def _deliver_success(self, attempt: TransactionAttempt, number: int, threads: SpoutThreads) -> None:
        coordinator = threads.coordinator.coordinator
        for half, pool, success in (
            (Half.EMITTER, threads.emitting, partial(threads.executor.success, attempt, number)),
            (Half.COORDINATOR, threads.coordinating, partial(coordinator.success, number)),
        ):
            succeeded = SpoutSucceeded(attempt.txid, threads.tx_id, half)
            if half is Half.COORDINATOR and type(coordinator).success is BatchCoordinator.success:
                self._report(succeeded)  # it does nothing
                continue
            doing = f"spout {threads.tx_id!r} receives the success of {attempt}"
            self._submit(pool, doing, partial(self._succeed, succeeded, success))

    def _close_spouts(self) -> None:
        for threads in self.spouts:
            for half, pool, close in (
                (Half.EMITTER, threads.emitting, threads.executor.emitter.close),
                (Half.COORDINATOR, threads.coordinating, threads.coordinator.coordinator.close),
            ):
                doing = f"spout {threads.tx_id!r} is closed"
                self._submit(pool, doing, partial(self._close_half, SpoutClosed(threads.tx_id, half), close))

    def _output(self, branch: int) -> str:
        return self.commits.participants[branch].name

    def _doing(self, instruction: Instruction) -> str:
        match instruction:
            case CommitStep():
                outputs = " and ".join(map(self._output, instruction.branches)) or f"spout {instruction.spout!r}"
                return f"{outputs} commits {shown_attempts([member.attempt for member in instruction.members])}"
            case Abort():
                return f"{self._output(instruction.branch)} discards its work for {instruction.attempt}"
            case InspectOutputs():
                return f"the outputs are asked whether they can leave {instruction.attempt} out"
            case ReadLetters():
                return "dead letters are read"
            case TryCommit():
                return f"the outputs try {instruction.attempt}, and commits wait for it"
            case Answer():
                return "a request or a query asks the states, and commits wait for it"
        return "states and sinks are closed"

    def _spout(self, name: str) -> SpoutThreads:
        return self._by_name[name]

    def _submit(self, pool: Threads, doing: str, call: Callable[[], object]) -> None:
        pool.submit(partial(self._guarded, call), doing)  # too late: the topology has ended, the call is not needed

    # --- on the threads -----------------------------------------------------------------------------------------------

    def _guarded(self, call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - a thread must never end with an unreported exception
            self._report(Broke(error))

    def _run_emission(self, emission: SpoutEmission) -> None:
        begun = time.monotonic()

        def report(stimulus: Stimulus) -> None:
            if isinstance(stimulus, Emitted | EmitFailed):
                self._tell_of(Work.EMIT, [emission.emit.spout], [emission.emit.attempt], begun, stimulus)
            self._report(stimulus)

        emission.run(report)
        self._running.pop((emission.emit.attempt, emission.emit.spout), None)

    def _process(self, job: Job, members: Sequence[JobMember], running: Running) -> None:
        begun = time.monotonic()
        try:
            running.enter_spark()
            outcome: Sequence[Processed] | BaseException = self.jobs.process(job, members)
        except BaseException as error:  # noqa: BLE001 - user code, or Spark
            outcome = error
        self._end_job(job, running, begun, outcome)

    def _end_job(self, job: Job, running: Running, begun: float, outcome: Sequence[Processed] | BaseException) -> None:
        match outcome:
            case Unwanted():  # no need to ask the session for the cause
                report: Stimulus = JobFailed(job, Diagnosis(outcome, FailureKind.INTERRUPTED))
            case BaseException():
                name = self.commits.participants[job.branch].name
                why = self._diagnosed(job.attempts[0], Place.JOB, name, outcome)
                if isinstance(why.cause, StateError | SinkError):  # by the output, which takes part in its branch's job
                    why.cause.locate(state=name)
                report = JobFailed(job, why)
            case _:
                report = JobDone(job, outcome)
        self._running.pop(job, None)
        running.end()
        self._tell_of(Work.JOB, [self._output(job.branch)], job.attempts, begun, report)
        self._report(report)

    def _cancel_until_ended(self, running: Running, cancel: Callable[[], None]) -> None:
        # Repeatedly: the first cancel doesn't find a job that is still being submitted to Spark.
        has_failed = False
        while not (running.has_ended or self.given_up.is_set()):
            try:
                cancel()
            except BaseException as error:  # nothing depends on it: the job ends by itself, and its result is dropped
                if not has_failed:
                    what = "topology %s: a Spark job can't be cancelled; trying again"
                    log.warning(what, self.topology, exc_info=quoted(error))
                has_failed = True
            running.wait(CANCEL_AGAIN_SECONDS)

    def _use_states(self, instruction: Instruction) -> None:
        match instruction:
            case CommitStep():
                self._commit(instruction)
            case Abort():
                self._report(self.commits.abort(instruction))
            case InspectOutputs():
                self._report(self.commits.inspect(instruction))
            case ReadLetters(wish):
                self._report(LettersStored(self.letters.answer(wish)))
            case TryCommit():
                self._report(self.commits.try_commit(instruction))
            case Answer(Read() as read, txid):
                self.reads.answer(read, txid, self.commits.ensure_leading_now)
                self._report(ReadDone())
            case CloseStates():
                self._report(self.commits.close(self.reads.close_states))
            case _:
                raise TypeError(f"no instruction for threads: {instruction!r}")

    def _commit(self, step: CommitStep) -> None:
        begun = time.monotonic()
        done = self.commits.commit(step)
        parts = [step.spout] if step.spout else [*map(self._output, step.branches)]
        self._tell_of(Work.COMMIT, parts, [member.attempt for member in step.members], begun, done)
        self._report(done)

    def _tell_of(
        self, work: Work, parts: Sequence[str], attempts: Sequence[TransactionAttempt], begun: float, end: Stimulus
    ) -> None:
        """Publish a finished piece of work to listeners, before the driver receives its end; not that of trials."""
        if attempts[0].is_trial:
            return
        self.tell(
            WorkEvent(
                topology=self.topology,
                at=time.time(),
                work=work,
                parts=tuple(parts),
                attempts=tuple(attempts),
                seconds=time.monotonic() - begun,
                has_failed=isinstance(end, EmitFailed | JobFailed | StepFailed),
            )
        )

    def _succeed(self, succeeded: SpoutSucceeded, success: Callable[[], object]) -> None:
        try:
            success()
        except BaseException as error:
            raise SpoutError(
                f"topology {self.topology!r}: success({succeeded.txid}) of spout {succeeded.spout!r} raised "
                f"{error_text(error)}; the transaction is committed, and its success is delivered again "
                f"when the topology is started again",
                topology=self.topology,
                txid=succeeded.txid,
                spout=succeeded.spout,
            ) from error
        self._report(succeeded)

    def _close_half(self, closed: SpoutClosed, close: Callable[[], None]) -> None:
        try:
            close()
        except BaseException as error:
            log.error("topology %s: spout %r could not be closed", self.topology, closed.spout, exc_info=quoted(error))
        self._report(closed)

    def _diagnosed(self, attempt: TransactionAttempt, place: Place, doing: str, error: BaseException) -> Diagnosis:
        where = f"topology {self.topology!r}, attempt {attempt}, {doing}"
        log.debug("%s failed", where, exc_info=quoted(error))
        return self.diagnose(error, place, where)


def _only_attempt(instruction: Instruction) -> TransactionAttempt | None:
    """Return the attempt that an instruction is about, if it is only one."""
    match instruction:
        case Emit(attempt=attempt) | Abort(attempt=attempt) | DeliverSuccess(attempt=attempt):
            return attempt
        case (
            CancelEmit(attempt=attempt)
            | CancelStaging(attempt=attempt)
            | CommitStep(members=[CommitMember(attempt=attempt)])
        ):
            return attempt
        case RunJob(job=Job(attempts=(attempt,))) | CancelJob(job=Job(attempts=(attempt,))):
            return attempt
    return None
