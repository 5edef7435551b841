"""The three streams of a topology: carries batches to spouts, branches and states, on the right threads.

Each spout has one thread for its coordinator and one for its emitter, commits have one, and Spark jobs have as many as
may run side by side. All calls of one kind are in txid order, and a commit never waits for an emission. What comes of
it is posted to the driver; nothing here decides anything.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, takewhile
from typing import Any, TypeAlias

from attrs import define, evolve, field

from coordinators.attempt import TransactionAttempt
from coordinators.canonical import Json
from coordinators.notices import Acked, Broken, Failed, Notice, SuccessDelivered
from coordinators.protocol import StreamId
from coordinators.shutdown import Shutdown
from coordinators.spout_coordinator import Ask, TridentSpoutCoordinator
from trident_py.engine.bolt_executor import BranchInput, Processed, TridentBoltExecutor
from trident_py.engine.closing import Closing
from trident_py.engine.commit_step import CommitStep, all_of
from trident_py.engine.emitted import EmittedBatch
from trident_py.engine.gathering import Gathering
from trident_py.engine.participants import Participant
from trident_py.engine.reads import StateReads
from trident_py.engine.spout_threads import SpoutThreads
from trident_py.engine.threads import Threads
from trident_py.errors import CoordinationLost, SpoutError, StoreBusyException
from trident_py.interfaces.sinks import SinkTransaction
from trident_py.spark.failures import Diagnose, Diagnosis, Place

log = logging.getLogger(__name__)

CANCEL_AGAIN_SECS = 0.5

Run: TypeAlias = Sequence[tuple[TridentBoltExecutor, Sequence[int]]]
"""Attempts that commit one behind the other, and the edges of their commits."""


@define(kw_only=True, eq=False)
class TopologyStreams:
    """`BatchStreams` over real spouts, branches and participants.

    Attributes:
        branches: for each participant, the spouts that it reads.
        rereads: the spouts that one of them reads more than once.
        shareable: the branches in which small batches may share a job.
        process: runs one branch of an attempt as a Spark job and returns what it prepared. Called on job threads.
        process_together: the same for a shareable branch of several attempts with small batches, in one job.
        settle: reads a batch once: for several branches of a spout that may give other rows when it is read again, and
            where only reading it tells what it consists of.
        cancel_jobs: cancels the Spark jobs of an attempt; `cancel_together` the one that these share.
        diagnose: what an exception means for the attempt.
        transaction: an attempt and its transaction's time as sinks see them.
        ensure_leading: raises if another leader may exist.
        reads: whoever reads states between commits.
        shutdown: how long `close` waits, and for what.
    """

    topology: str
    spouts: Sequence[SpoutThreads]
    branches: Sequence[frozenset[str]]
    rereads: frozenset[str]
    participants: Sequence[Participant]
    shareable: Collection[int]
    process: Callable[[TridentBoltExecutor, int], Processed]
    process_together: Callable[[Sequence[TridentBoltExecutor], int], list[Processed]]
    settle: Callable[[TridentBoltExecutor, EmittedBatch, bool], EmittedBatch]
    cancel_jobs: Callable[[TransactionAttempt], None]
    cancel_together: Callable[[Sequence[TridentBoltExecutor]], None]
    diagnose: Diagnose
    transaction: Callable[[TransactionAttempt, int], SinkTransaction]
    ensure_leading: Callable[[], None]
    draw_edge: Callable[[], int]
    post: Callable[[Notice], object]
    job_threads: int
    reads: StateReads
    shutdown: Shutdown
    _attempts: dict[TransactionAttempt, TridentBoltExecutor] = field(factory=dict, init=False)
    _committing: Sequence[TransactionAttempt] = field(default=(), init=False)
    _unfenced: str = field(default="", init=False)  # what commits without a fence, at the moment
    _gathering: Gathering = field(init=False)
    _commits: Threads = field(init=False)
    _jobs: Threads = field(init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        """Have threads for commits and jobs; they begin to run when there is work."""
        self._commits = Threads(f"trident-{self.topology}-commit")
        self.reads.open(self._commits)
        self._jobs = Threads(f"trident-{self.topology}-job", self.job_threads)
        self._gathering = Gathering(partial(self._submit, self._jobs), self._run_together)

    # --- BatchStreams: called by the driver, never blocks -------------------------------------------------------------

    def consumers(self, stream: StreamId) -> int:
        """Every spout listens to ``$batch``; whatever commits listens to ``$commit``."""
        return len(self.spouts) if stream is StreamId.BATCH else len(self._committers()) + len(self._committer_spouts())

    def ask(self, spout: str, ask: Ask) -> None:
        """Have the coordinator of ``spout`` answer."""
        threads = next(threads for threads in self.spouts if threads.tx_id == spout)
        self._submit(threads.coordinating, self._answer, threads.coordinator, ask)

    def emit_batch(
        self, attempt: TransactionAttempt, metadata: Mapping[str, Json], time: int, edges: Sequence[int]
    ) -> None:
        """Have every spout emit its part of ``attempt``."""
        work = TridentBoltExecutor(attempt, self.branches, time)
        with self._lock:
            self._attempts[attempt] = work
        for threads, edge in zip(self.spouts, edges, strict=True):
            self._submit(threads.emitting, self._emit, work, threads, metadata.get(threads.tx_id), edge)

    def emit_commit(self, run: Mapping[TransactionAttempt, Sequence[int]]) -> None:
        """Have everything that commits commit these attempts: the committer spouts, then states and sinks."""
        self._submit(self._commits, self._commit, [(self._attempts[attempt], edges) for attempt, edges in run.items()])

    def emit_success(self, attempt: TransactionAttempt) -> None:
        """Tell both halves of every spout, each on its thread."""
        with self._lock:
            self._attempts.pop(attempt, None)
        waiting = [2 * len(self.spouts)]
        for threads in self.spouts:
            self._submit(threads.emitting, self._succeed, attempt, waiting, threads.executor.success, attempt)
            self._submit(
                threads.coordinating,
                self._succeed,
                attempt,
                waiting,
                threads.coordinator.coordinator.success,
                attempt.txid,
            )

    def cancel(self, attempt: TransactionAttempt) -> None:
        """Cancel the jobs of ``attempt``, and give up what it prepared."""
        with self._lock:
            work = self._attempts.pop(attempt, None)
        if work is None:
            return
        for branch, receipt in work.cancel().items():
            self._submit(self._commits, self._abort, work, branch, receipt)
        if work.is_working:
            self._submit(self._jobs, self._cancel_jobs, work)

    def alive(self) -> Collection[tuple[TransactionAttempt, StreamId]]:
        """Attempts with a running Spark job, and the one that a state of ours is committing."""
        if late := self.reads.thread.warning():
            log.warning("topology %s: %s", self.topology, late)
        with self._lock:
            alive = [(attempt, StreamId.BATCH) for attempt, work in self._attempts.items() if work.is_working]
            waits = list(self._attempts) if self.reads.is_busy else []  # a commit of one of them, perhaps
            return [*alive, *((each, StreamId.COMMIT) for each in (*self._committing, *waits))]

    def holds_rows(self) -> bool:
        """Whether a window by time holds rows of what is committed."""
        return any(participant.holds_rows for participant in self.participants)

    def rows_of(self, attempt: TransactionAttempt) -> int:
        """How many rows a live attempt has read, where anybody counted: not those of emitted DataFrames."""
        with self._lock:
            work = self._attempts.get(attempt)
        return work.rows if work else 0

    def close(self) -> None:
        """Stop the threads and have what they served closed; leave behind those that don't return in time."""
        for threads in self.spouts:
            self._submit(threads.emitting, threads.executor.emitter.close)
            self._submit(threads.coordinating, threads.coordinator.coordinator.close)
        Closing(
            topology=self.topology,
            workers=[
                *(pool for threads in self.spouts for pool in (threads.coordinating, threads.emitting)),
                self._jobs,
            ],
            commits=self._commits,
            participants=self.participants,
            reads=self.reads,
            shutdown=self.shutdown,
            unfenced=lambda: self._unfenced,
        ).run()

    # --- on the emitters' threads -------------------------------------------------------------------------------------

    def _emit(self, work: TridentBoltExecutor, threads: SpoutThreads, metadata: Json, edge: int) -> None:
        if work.cancelled.is_set():
            return
        readers = [branch for branch, reads in enumerate(self.branches) if threads.tx_id in reads]
        try:
            batch = threads.executor.emit_batch(work.attempt, metadata)
            is_reread = len(readers) > 1 or threads.tx_id in self.rereads
            if batch.is_noting or (is_reread and not (threads.coordinator.exact or batch.is_settled)):
                batch = self._settled(work, threads, batch)
            for notice in threads.executor.learn(work.attempt, batch.noted):
                self.post(notice)
        except BaseException as error:  # noqa: BLE001 - user code
            self._fail(work.attempt, error, Place.SPOUT, f"spout {threads.tx_id!r} emitting", [threads.tx_id])
            return
        work.count_rows(threads.tx_id, "driver", batch.known_rows)
        inputs = {branch: BranchInput(self.draw_edge(), batch) for branch in readers}
        ready = work.deliver(threads.tx_id, inputs)
        self.post(Acked(work.attempt, StreamId.BATCH, edge, tuple(entry.edge for entry in inputs.values())))
        for branch in ready:
            work.begin_work()  # waiting for others' jobs is no silence
            if batch.is_small and branch in self.shareable:
                self._gathering.add(branch, work)
            else:
                self._submit(self._jobs, self._run, work, branch)

    def _settled(self, work: TridentBoltExecutor, threads: SpoutThreads, batch: EmittedBatch) -> EmittedBatch:
        work.begin_work()
        try:
            return self.settle(work, batch, threads.coordinator.exact)
        finally:
            work.end_work()

    # --- on the job threads -------------------------------------------------------------------------------------------

    def _run_together(self, branch: int, works: list[TridentBoltExecutor]) -> list[list[TridentBoltExecutor]]:
        """Run the job of these attempts; returns those that have to run again, without whoever made it fail."""
        live = [work for work in works if not work.cancelled.is_set()]
        left: list[list[TridentBoltExecutor]] = []
        for work in live:
            work.share(live)
        try:
            done = self.process_together(live, branch) if live else []
        except BaseException as error:  # noqa: BLE001 - user code, or Spark
            left = self._without_failed(branch, live, error)
            for work in chain.from_iterable(left):
                work.begin_work()
        else:
            for work, processed in zip(live, done, strict=True):
                self._keep(work, branch, processed)
        finally:
            for work in works:
                work.end_work(live)
        return left

    def _without_failed(
        self, branch: int, works: list[TridentBoltExecutor], error: BaseException
    ) -> list[list[TridentBoltExecutor]]:
        """Fail whose rows made the job of these attempts fail; returns the others, in halves if nobody knows whose."""
        found = self._diagnosed(works[0].attempt, error, Place.JOB, self.participants[branch].name)
        failed = next((work for work in works if work.attempt.txid == found.txid), None)
        if not found.kind.counts or len(works) == 1:  # nobody's own: the first fails, and those behind it with it
            failed = works[0]
        if failed is None:
            middle = len(works) // 2
            return [works[:middle], works[middle:]]
        self.post(Failed(failed.attempt, found.cause, found.kind, self.branches[branch]))
        self._keep(failed, branch, None)
        others = [work for work in works if work is not failed]
        return [others] if others and found.kind.counts else []

    def _run(self, work: TridentBoltExecutor, branch: int) -> None:
        try:
            if not work.cancelled.is_set():
                self._keep(work, branch, self.process(work, branch))
        except BaseException as error:  # noqa: BLE001 - user code, or Spark
            self._fail(work.attempt, error, Place.JOB, self.participants[branch].name, self.branches[branch])
            self._keep(work, branch, None)
        finally:
            work.end_work()

    def _keep(self, work: TridentBoltExecutor, branch: int, processed: Processed | None) -> None:
        receipt = processed and processed.receipt
        if not work.prepared(branch, receipt):
            self._submit(self._commits, self._abort, work, branch, receipt)
        # Only now: the commit may follow at once.
        for notice in processed.reports if processed else ():
            self.post(notice)

    def _cancel_jobs(self, work: TridentBoltExecutor) -> None:
        # Again and again: a job that was on its way to Spark is not found by the first cancel.
        while not (work.wait_quiet(0) or self.shutdown.given_up.is_set()):
            self.cancel_jobs(work.attempt)
            for together in work.sharing:
                if all(each.cancelled.is_set() for each in together):  # else the others' job goes on
                    self.cancel_together(together)
            work.wait_quiet(CANCEL_AGAIN_SECS)

    # --- on the commit thread -----------------------------------------------------------------------------------------

    def _commit(self, run: Run) -> None:
        waiting = list(run)
        while waiting:
            # Small ones in one step; after a large one, what waits for its place may start.
            part = list(takewhile(lambda member: member[0].is_small, waiting)) or waiting[:1]
            if not self._commit_together(part, [work.attempt for work, _ in waiting], run[0][0].attempt.txid):
                return
            del waiting[: len(part)]

    def _commit_together(self, run: Run, waiting: Sequence[TransactionAttempt], group_first: int) -> bool:
        doing, works = "committing", [work for work, _ in run]
        try:
            for number, step in enumerate(self._commit_steps(works, group_first)):
                doing = f"{step.name} committing"
                self._unfenced = "" if step.is_fenced else doing  # before the question: `close` asks it the other way
                if any(work.cancelled.is_set() for work in works):
                    return False
                self._ensure_leading()
                self._committing = waiting if step.is_ours else ()
                with self.reads.thread.doing(f"the commit of transaction {works[-1].attempt.txid} ({step.name})"):
                    step.commit()
                self._committing = ()
                for work, edges in run:
                    self.post(Acked(work.attempt, StreamId.COMMIT, edges[number]))
            self.reads.committed(works[-1].attempt.txid)
        except BaseException as error:  # noqa: BLE001 - user code, or a store
            self._fail(works[0].attempt, error, Place.COMMIT, doing)
            return False
        finally:
            self._committing, self._unfenced = (), ""
        return True

    def _commit_steps(self, works: Sequence[TridentBoltExecutor], group_first: int) -> Iterator[CommitStep]:
        for threads in self._committer_spouts():
            commits = [partial(threads.executor.commit, work.attempt) for work in works]
            yield CommitStep(f"spout {threads.tx_id!r}", False, False, partial(all_of, commits))
        for branch in self._committers():
            participant = self.participants[branch]
            commit = partial(self._commit_branch, works, branch, group_first)
            yield CommitStep(participant.name, participant.is_ours, participant.is_fenced, commit)

    def _commit_branch(self, works: Sequence[TridentBoltExecutor], branch: int, group_first: int) -> None:
        self.reads.committing(works[-1].attempt.txid)
        transactions = [evolve(self.transaction(work.attempt, work.time), group_first=group_first) for work in works]
        receipts = [work.receipt(branch) for work in works]
        self.participants[branch].commit_run(list(zip(transactions, receipts, strict=True)))

    def _ensure_leading(self) -> None:
        try:
            self.ensure_leading()
        except CoordinationLost as error:
            # Perhaps for a moment only: this commit doesn't start, and the driver's own next round is the judge.
            raise StoreBusyException(str(error)) from error

    def _abort(self, work: TridentBoltExecutor, branch: int, receipt: Any) -> None:
        participant = self.participants[branch]
        try:
            participant.abort(self.transaction(work.attempt, work.time), receipt)
        except BaseException:
            # It will never commit in any case; what it staged is swept at the next takeover.
            log.exception("topology %s: %s could not give up %s", self.topology, participant.name, work.attempt)

    # --- everywhere ---------------------------------------------------------------------------------------------------

    def _answer(self, coordinator: TridentSpoutCoordinator, ask: Ask) -> None:
        for answer in coordinator.answers(ask):
            self.post(answer)

    def _succeed(
        self, attempt: TransactionAttempt, waiting: list[int], success: Callable[[Any], None], argument: Any
    ) -> None:
        try:
            success(argument)
        except BaseException as error:
            raise SpoutError(
                f"topology {self.topology!r}: success({argument}) of a spout raised {type(error).__name__}: {error}; "
                f"the transaction is committed, and its success is delivered again when the topology is started again"
            ) from error
        with self._lock:
            waiting[0] -= 1
            if waiting[0] == 0:
                self.post(SuccessDelivered(attempt.txid))

    def _fail(
        self, attempt: TransactionAttempt, error: BaseException, place: Place, doing: str, spouts: Collection[str] = ()
    ) -> None:
        found = self._diagnosed(attempt, error, place, doing)
        self.post(Failed(attempt, found.cause, found.kind, spouts))

    def _diagnosed(self, attempt: TransactionAttempt, error: BaseException, place: Place, doing: str) -> Diagnosis:
        where = f"topology {self.topology!r}, attempt {attempt}, {doing}"
        log.debug("%s failed", where, exc_info=error)
        return self.diagnose(error, place, where)

    def _committers(self) -> list[int]:
        return [branch for branch, participant in enumerate(self.participants) if participant.commits]

    def _committer_spouts(self) -> list[SpoutThreads]:
        return [threads for threads in self.spouts if threads.executor.is_committer]

    def _submit(self, pool: Threads, call: Callable[..., Any], *arguments: Any) -> None:
        pool.submit(partial(self._guarded, call, *arguments))  # too late: then it has ended, and nobody wants it

    def _guarded(self, call: Callable[..., Any], *arguments: Any) -> None:
        try:
            call(*arguments)
        except BaseException as error:  # noqa: BLE001 - nothing may end in a forgotten future
            self.post(Broken(error))
