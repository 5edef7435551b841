"""The world outside of the data plane: emitters, Spark's jobs, reports and commits of one simulated process.

What is decided is decided by the product's own `DataPlane`; here its instructions are carried out, which takes time,
and may go wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field

from coordinators.backends.zookeeper.record_store import ZooKeeperRecordStore
from coordinators.batches.spout_coordinator import Ask
from coordinators.driver.batch_streams import Batch
from coordinators.protocol.messages import (
    Acked,
    BadRowsFound,
    DeadLetters,
    Diagnosis,
    FailureKind,
    Fingerprinted,
    LettersRead,
    Message,
    OffsetsResolved,
    Reported,
    RowsFailed,
    RowsStored,
)
from coordinators.protocol.protocol import StreamId
from coordinators.record.bad_rows import BadRow
from coordinators.record.parking import StoredRows
from coordinators.record.record import CoordinatorRecord
from coordinators.record.wishes import Wish
from coordinators.values.attempt import FIRST_ATTEMPT_ID, CommitToken, TransactionAttempt
from coordinators.values.canonical import Fingerprint
from coordinators.values.errors import CoordinationLost, TridentError
from tests.simulation.partitions import Sent, emitted
from tests.simulation.plane_mutants import plane_of
from tests.simulation.residents import Residents
from tests.simulation.rules import Violation
from tests.simulation.sources import Source
from tests.simulation.stores import Entry, Given, Group, Rows, RowsRefusedError
from trident_py.engine.plane.commit_lane import partial_commit_txid
from trident_py.engine.plane.instructions import (
    Abort,
    Answer,
    CancelEmit,
    CancelJob,
    CancelStaging,
    CommitStep,
    DeliverSuccess,
    Emit,
    InspectOutputs,
    Instruction,
    Post,
    ReadLetters,
    RunJob,
    TryCommit,
)
from trident_py.engine.plane.plane import DataPlane
from trident_py.engine.plane.stimuli import (
    Aborted,
    AttemptCancelled,
    BatchAnnounced,
    CommitAnnounced,
    EmitFailed,
    Emitted,
    JobDone,
    JobFailed,
    LettersStored,
    LettersWanted,
    OutputsInspected,
    OutputsWanted,
    ReadDone,
    ReadWanted,
    SiftedInput,
    SpoutSucceeded,
    StepCommitted,
    StepFailed,
    Stimulus,
    SuccessAnnounced,
    TakenOver,
    TrialCommitted,
    TrialCommitWanted,
)
from trident_py.engine.plane.work import BranchShape, Half, Job, JobMember, Processed, SpoutShape, TopologyShape
from trident_py.errors import StateError, StoreBusyException
from trident_py.interfaces.sinks import SinkTransaction, TransactionKey
from trident_py.participants.capabilities import Capabilities

if TYPE_CHECKING:
    from tests.simulation.process import Process

EMIT_SECONDS, JOB_SECONDS, COMMIT_SECONDS, LATE_SECONDS = 0.005, 0.1, 0.02, 6.0
TASKS = 2
NEVER = 10**15
"""In milliseconds."""
NOBODY = 999


@define(eq=False)
class Plane:
    """`coordinators.driver.driver.BatchStreams` of one process.

    Attributes:
        machine: the product's; made when the process leads, since versions of a topology differ.
        reports: what came of its instructions, and was not taken yet.
        running: the jobs whose end has not come.
        cancelled: the jobs that Spark was told to cancel.
        splits: what spouts that learn it have given, by attempt and spout.
        committing: the transactions of the present commit step.
    """

    process: Process
    machine: DataPlane = field(factory=lambda: DataPlane(shape=TopologyShape(spouts=(), branches=())))
    reports: list[Stimulus] = field(factory=list)
    running: set[Job] = field(factory=set)
    cancelled: set[Job] = field(factory=set)
    splits: dict[TransactionAttempt, dict[str, Any]] = field(factory=dict)
    committing: Group = ()
    residents: Residents = field(init=False)

    def __attrs_post_init__(self) -> None:
        """No task stays before the process leads."""
        self.residents = Residents(self)

    def lead(self, record: CoordinatorRecord) -> None:
        """A topology as the version that leads has it, from where a takeover has found it."""
        world = self.process.world
        shape = TopologyShape(
            spouts=tuple(SpoutShape(name=name) for name in world.sources),
            branches=tuple(
                BranchShape(
                    name=name,
                    spouts=store.reads or frozenset(world.sources),
                    is_shareable=world.shares,
                    capabilities=Capabilities(
                        keeps_alive=store.remembers, is_fenced=store.remembers, stages_in_commit=store.tasked
                    ),
                    collects=frozenset(each.name for each in self.process.outputs.values() if each.leaves_out)
                    if store.collects
                    else frozenset(),
                )
                for name, store in self.process.outputs.items()
            ),
        )
        self.machine, self.residents = plane_of(shape, world.rules), Residents(self, world.residents)
        stores = self.process.stores.values()
        last = [store.fence.token.txid if store.fence.token else 0 for store in stores if store.remembers]
        partial = partial_commit_txid(last, record, all_remember=len(last) == len(stores))
        together = [range(len(shape.branches))] if self._commits_together else []
        self.machine.handle(TakenOver(partial if world.has("partial at a takeover") else 0, together))

    # --- BatchStreams -------------------------------------------------------------------------------------------------

    def consumers(self, stream: StreamId) -> int:
        """Every spout, or every store."""
        self.process.next_edge = 1
        return self.machine.consumers(stream)

    def ask(self, spout: str, ask: Ask) -> None:
        """Answered on the spout's own thread."""
        self.process.post("answer", EMIT_SECONDS, spout, ask, lane=f"coordinator {spout}")

    def emit_batch(self, batch: Batch) -> None:
        """Announce a batch."""
        self.process.may_crash("before emit_batch")
        self.process.world.oracle.batch_announced(batch)
        self._announce(BatchAnnounced(batch))

    def ask_outputs(self, attempt: TransactionAttempt, *, may_have_begun: bool) -> None:
        """On the commit thread."""
        self.process.may_crash("before ask_outputs")
        self._announce(OutputsWanted(attempt, may_have_begun))

    def on_inspect(self, inspection: InspectOutputs) -> None:
        """Each store is asked."""
        tx = evolve(self.transaction(inspection.attempt), parks=inspection.attempt.attempt_id)
        stores, world = self.process.stores.values(), self.process.world
        is_able = all(each.can_park(tx, may_have_begun=inspection.may_have_begun) for each in stores)
        world.parked.able[tx.txid] = is_able
        self.report(OutputsInspected(tx.txid, "" if is_able or not world.has("outputs asked") else "a store has it"))

    def read_letters(self, wish: Wish) -> None:
        """On the commit thread."""
        self.process.may_crash("before read_letters")
        self._announce(LettersWanted(wish))

    def on_letters(self, read: ReadLetters) -> None:
        """The rows of each store that are kept as bad ones."""
        world, outputs = self.process.world, self.process.outputs.values()
        found = []
        for letters in (each for each in outputs if each.collects):
            for store in (each for each in outputs if each.leaves_out):
                by_spout: dict[str, list[tuple[str, int]]] = {}
                for spout, position in sorted(letters.letters(store.name).elements()):
                    by_spout.setdefault(spout, []).append((spout, position))
                stored = {
                    spout: self._file(f"{read.wish.id} {self.process.life} {store.name} {spout}", tuple(rows))
                    for spout, rows in by_spout.items()
                }
                if stored:
                    found.append(DeadLetters(branch=store.name, txid=world.oracle.committed, stored=stored))
        self.report(LettersStored(LettersRead(read.wish, tuple(found))))

    def try_commit(self, attempt: TransactionAttempt) -> None:
        """On the commit thread."""
        self.process.may_crash("before try_commit")
        self._announce(TrialCommitWanted(attempt))

    def on_try(self, trial: TryCommit) -> None:
        """What a store does and undoes in one transaction changes nothing."""
        if not self.process.world.has("trials undone"):
            for branch, store in enumerate(self.process.outputs.values()):
                token = CommitToken(trial.attempt.txid, 0, trial.attempt.attempt_id)
                store.ledger.append(Entry(token, trial.receipts[branch]))
            self.process.world.oracle.effect_landed()
        self.report(TrialCommitted(trial.attempt))

    def emit_commit(self, group: Mapping[TransactionAttempt, Sequence[int]]) -> None:
        """Announce a group commit."""
        self.process.may_crash("before emit_commit")
        self._announce(CommitAnnounced(group))

    def emit_success(self, attempt: TransactionAttempt, number: int | None) -> None:
        """Announce a success."""
        self.process.may_crash("before emit_success")
        self.splits.pop(attempt, None)
        self._announce(SuccessAnnounced(attempt, number))

    def cancel(self, attempt: TransactionAttempt) -> None:
        """What runs may run on for a while."""
        self.process.may_crash("before cancel")
        self.splits.pop(attempt, None)
        self._announce(AttemptCancelled(attempt))

    def take(self) -> Sequence[Message]:
        """What came of it."""
        reports, self.reports = self.reports, []
        return [message for stimulus in reports for message in self._turn(stimulus)]

    def alive(self) -> Collection[tuple[TransactionAttempt, StreamId]]:
        """What visibly goes on."""
        return self.machine.alive()

    def next_window_at(self) -> int:
        """That of the stores; there is one more, which never ends: so time never goes back."""
        window, ends = self.process.world.window, [NEVER]
        if window is not None:
            ends += [end for store in self.process.stores.values() if (end := window.next_at(store)) is not None]
        return min(ends)

    # --- the machine's turn -------------------------------------------------------------------------------------------

    def report(self, stimulus: Stimulus) -> None:
        """Something came of an instruction."""
        if isinstance(stimulus, JobDone | JobFailed):
            self.process.world.oracle.require(stimulus.job in self.running, "S27", f"{stimulus.job} ends twice")
            self.running.discard(stimulus.job)
        self.reports.append(stimulus)
        self.process.deliver(Reported())

    def _announce(self, stimulus: Stimulus) -> None:
        for message in self._turn(stimulus):
            self.process.deliver(message)

    def _turn(self, stimulus: Stimulus) -> list[Message]:
        instructions = self.machine.handle(stimulus)
        for instruction in instructions:
            self._carry_out(instruction)
        return [each.message for each in instructions if isinstance(each, Post)]

    def _carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case Emit():
                self._emit(instruction)
            case RunJob(job, members):
                self._run(job, tuple(members))
            case CancelJob(job):
                self.cancelled.add(job)
                self.residents.cancel(job)
            case CommitStep():
                self._send_commit(instruction)
            case Abort() | Answer() | InspectOutputs() | ReadLetters() | TryCommit():
                kinds = {
                    Abort: "abort",
                    Answer: "read",
                    InspectOutputs: "inspect",
                    ReadLetters: "letters",
                    TryCommit: "try",
                }
                kind = kinds[type(instruction)]
                self.process.post(kind, EMIT_SECONDS, instruction)
            case DeliverSuccess(attempt, number, spout):
                self.process.post("success", EMIT_SECONDS, attempt, number, spout, lane=f"successes {spout}")
            case Post() | CancelEmit() | CancelStaging():
                pass  # posted in order; an emission is short, and so is what tasks do in a commit
            case _:
                raise TypeError(f"nobody does {instruction} here")

    def _send_commit(self, step: CommitStep) -> None:
        """To the commit thread; which may be faster than the rest of this turn, and the record that it writes."""
        if self.process.world.chance.happens("commit at once"):
            self.on_commit(step)
        else:
            self.process.post("commit", COMMIT_SECONDS, step)

    # --- processing ---------------------------------------------------------------------------------------------------

    def _emit(self, emit: Emit) -> None:
        if emit.number is None:
            self.report(self._given(emit, (), ()))
        else:
            self.process.post("emit", EMIT_SECONDS, emit, lane=f"emitter {emit.spout}")

    def on_emit(self, emit: Emit) -> None:
        """The emitter of one spout gives its rows."""
        world, attempt, spout = self.process.world, emit.attempt, emit.spout
        if world.chance.happens("source away"):
            self._emission_failed(emit, OSError("out of reach"), FailureKind.UNREACHABLE)
            return
        try:
            rows = self._stored_rows(emit)
            fails_here = not world.shares and not emit.stores and not attempt.is_trial
            is_poison = fails_here and self._is_poison(attempt, rows)
            if world.chance.happens("user code fails") or is_poison:
                raise ValueError("user code")
            if rows is not None and world.has("stored rows released"):
                bad = self._bad_rows(emit, rows, is_exact=world.sources[spout].exact)
                self.report(self._given(emit, rows, (), bad))
                return
            rows, resolved = self._emitted(emit, world.sources[spout])
            stored = (self._stored(emit, rows),) if emit.stores else ()
            bad = self._bad_rows(emit, rows, is_exact=world.sources[spout].exact)
        except Violation:
            raise
        except Exception as error:  # noqa: BLE001 - what an emitter raises fails its attempt
            kind = FailureKind.FATAL if isinstance(error, TridentError) else FailureKind.USER_CODE
            self._emission_failed(emit, error, kind)
            return
        self.report(self._given(emit, rows, (*resolved, *stored), bad))

    def _bad_rows(self, emit: Emit, rows: Rows, *, is_exact: bool) -> Rows:
        """The rows over which a function raises, which may pass the next time, if they are looked for; or the fixed.

        Raises:
            ValueError: one of the others raises.
        """
        world, fixed = self.process.world, emit.bad_rows if is_exact else None
        if emit.stores or not any(store.collects for store in self.process.outputs.values()):
            return ()
        raising = [row for row in rows if world.chance.happens("a row raises")]
        if fixed is None and emit.sifts:
            return tuple(raising)
        known = {(each.spout, each.hash) for each in fixed or ()}
        if not known.issuperset(raising):
            raise ValueError("user code")
        return tuple(row for row in rows if row in known)

    def _stored_rows(self, emit: Emit) -> Rows | None:
        """Those that belong to a part of a parked transaction."""
        return None if emit.stored is None else self.process.world.kept(emit.stored)

    def _stored(self, emit: Emit, rows: Rows) -> RowsStored:
        """A file of its own, which no crash takes away."""
        name = f"{emit.attempt} {emit.spout} {len(self.process.world.files)}"
        return RowsStored(emit.attempt, emit.spout, self._file(name, rows))

    def _file(self, name: str, rows: Rows) -> StoredRows:
        self.process.world.files[name] = rows
        return StoredRows(file=name, host=self.process.name, bytes=len(rows), hash="", rows=len(rows))

    def _given(
        self, emit: Emit, rows: Rows, resolved: tuple[OffsetsResolved | RowsStored, ...], bad: Rows = ()
    ) -> Emitted:
        number, outputs = list(self.process.world.sources).index(emit.spout), self.process.outputs.values()
        running = range(len(outputs)) if emit.branches is None else emit.branches
        leaving = [each.name for branch, each in enumerate(outputs) if each.leaves_out and branch in running]
        good = tuple(row for row in rows if row not in bad)
        found = tuple(
            BadRow(branch=name, spout=spout, hash=position, operation="", error="")
            for name in leaving
            for spout, position in bad
        )
        kept = tuple((f"{spout}@{name}", position) for name in leaving for spout, position in bad)
        if emit.branches is not None and self.process.world.has("letters taken out"):
            kept = (*kept, *((f"{spout}@{name}", ~position) for name in leaving for spout, position in rows))
        return Emitted(
            attempt=emit.attempt,
            spout=emit.spout,
            batch=rows,
            rows=len(rows),
            is_small=len(rows) < self.process.world.large_rows,
            # One edge from each spout to the job of each store that reads it.
            edges={
                branch: 1 << 8 + 4 * number + branch
                for branch, each in enumerate(self.machine.shape.branches)
                if emit.spout in each.spouts and not emit.stores and branch in running
            },
            resolved=(*resolved, BadRowsFound(emit.attempt, found)) if found else resolved,
            sifted={
                branch: SiftedInput(read, len(read) < self.process.world.large_rows)
                for branch, store in enumerate(outputs)
                if (read := kept if store.collects else good) != rows
            },
        )

    def _emission_failed(self, emit: Emit, error: Exception, kind: FailureKind) -> None:
        self.report(EmitFailed(emit.attempt, emit.spout, Diagnosis(error, kind)))

    def _emitted(self, emit: Emit, source: Source) -> tuple[Rows, tuple[OffsetsResolved, ...]]:
        assert emit.number is not None
        metadata: Any = emit.metadata
        if not source.learns:
            return source.read(emit.number, metadata), ()
        sent, emitter, attempt = Sent(), self.process.emitters[source.name], emit.attempt
        known_as = TransactionAttempt(emit.number, attempt.attempt_id)
        emitter.emit_batch(known_as, metadata, sent)
        rows, note = emitted(self.process.world, source, sent.task)
        resolved = emitter.resolve_offsets(known_as, [note])
        self.splits.setdefault(attempt, {})[source.name] = resolved.moved
        return rows, (OffsetsResolved(attempt, source.name, resolved.metadata, resolved.moved),)

    def on_job(self, job: Job, members: tuple[JobMember, ...]) -> None:
        """A job ends: it has staged its rows, and its tasks report; or it has failed, or is a zombie that goes on."""
        chance = self.process.world.chance
        if job in self.cancelled and not chance.happens("job goes on"):
            self._job_failed(job, FailureKind.INTERRUPTED)
        elif job.sieves:
            self._sieve(job, members[0])
        elif self._poisoned(job, members) or (chance.happens("job fails") and not job.attempts[0].is_trial):
            self._fail_job(job, members)
        else:
            others = members if self.process.world.has("rows apart") else (*members[1:], *members[:1])
            self._end_job(job, members, [_given(other) for other in others])

    def _run(self, job: Job, members: tuple[JobMember, ...]) -> None:
        self.running.add(job)
        if not self.residents.begin(job, members):
            self.run_in_spark(job, members)

    def run_in_spark(self, job: Job, members: tuple[JobMember, ...]) -> None:
        """Start a Spark job."""
        self.process.post("job", JOB_SECONDS, job, members)

    def on_resident(self, what: str, *arguments: Any) -> None:
        """Something has happened to a task that stays."""
        getattr(self.residents, what)(*arguments)

    def rows_of(self, members: Sequence[JobMember]) -> Mapping[int, Rows]:
        """What a task that stays is given, by transaction."""
        return {member.attempt.txid: _given(member) for member in members}

    def take_answer(self, job: Job, members: tuple[JobMember, ...], rows: Mapping[int, Rows]) -> None:
        """The rows that a task has made; or a failure of user code; or the task couldn't, and a job must."""
        if self._poisoned(job, members):
            self._fail_job(job, members)
        elif self.process.world.chance.happens("job fails"):
            self.run_in_spark(job, members)
        else:
            self._end_job(job, members, [rows.get(member.attempt.txid, ()) for member in members])

    def _sieve(self, job: Job, member: JobMember) -> None:
        """Where transactions share jobs, it is a row function that the bad rows make raise."""
        told: list[Message] = []
        for spout, given in member.inputs.items():
            bad = [n for n, row in enumerate(given.batch) if self._is_poison(member.attempt, (row,))]
            if bad and self.process.world.shares:
                told.append(RowsFailed(member.attempt, spout, tuple(bad)))
            told.append(Acked(member.attempt, StreamId.BATCH, given.edge))
        self.report(JobDone(job, [Processed(None, told)]))

    def _poisoned(self, job: Job, members: Sequence[JobMember]) -> list[int]:
        """The transactions that make a job fail."""
        if not (self.process.world.shares or job.attempts[0].is_trial):
            return []
        return [each.attempt.txid for each in members if self._is_poison(each.attempt, _given(each))]

    def _is_poison(self, attempt: TransactionAttempt, rows: Rows | None) -> bool:
        """A batch that always fails: also when it is released, until it is mended; a part of it, if it has bad rows."""
        world, executor = self.process.world, self.machine._executors.get(attempt)
        number = executor.batch.number if world.parks_poison and executor else attempt.txid
        is_part = attempt.is_trial or (executor is not None and bool(executor.batch.stored))
        is_bad = not is_part or any(position % 2 == 0 for _, position in rows or ())
        return number == world.poison and not (world.refuses or world.is_mended) and is_bad

    def _fail_job(self, job: Job, members: Sequence[JobMember]) -> None:
        """Nobody knows whose rows it was, or somebody does, or says so; or an executor was lost, nobody's fault."""
        chance, txids = self.process.world.chance, [attempt.txid for attempt in job.attempts]
        if poisoned := self._poisoned(job, members):
            whose = chance.pick("whose rows", [NOBODY, None, poisoned[0]])
            self._job_failed(job, FailureKind.USER_CODE, whose)
        elif len(txids) == 1 or chance.happens("executor lost"):
            self._job_failed(job, FailureKind.INTERRUPTED)
        else:
            self._job_failed(job, FailureKind.USER_CODE, chance.pick("whose rows", [None, NOBODY, *txids]))

    def _job_failed(self, job: Job, kind: FailureKind, whose: int | None = None) -> None:
        self.report(JobFailed(job, Diagnosis(RuntimeError("a job failed"), kind, whose)))

    def _end_job(self, job: Job, members: Sequence[JobMember], made_of: Sequence[Rows]) -> None:
        store = list(self.process.outputs.values())[job.branch]
        made = []
        for member, rows in zip(members, made_of, strict=True):
            tx = self.transaction(member.attempt)
            if not store.inline:
                if tx.epoch < store.highest_epoch:  # a staging area is made by the leader, under the fence
                    self._job_failed(job, FailureKind.INTERRUPTED)
                    return
                store.stage(tx, rows)
            made.append(Processed(rows if store.inline else None, self._reports(member, job.branch)))
        done = JobDone(job, made)
        if self.process.world.chance.happens("report late"):
            self.process.post("reported", 2.0, done)
        else:
            self.report(done)

    def on_reported(self, stimulus: Stimulus) -> None:
        """What came late is here."""
        self.report(stimulus)

    def _reports(self, member: JobMember, branch: int) -> list[Message]:
        """Of the job and of its tasks; that of a task may be lost, or come twice."""
        chance, attempt = self.process.world.chance, member.attempt
        tasks = [1 << 20 + TASKS * branch + task for task in range(TASKS)]
        told: list[Message] = []
        for number, (spout, given) in enumerate(member.inputs.items()):
            if self.process.world.sources[spout].exact:
                executor = self.machine._executors.get(attempt)
                rows = executor._emitted[spout].batch if executor else given.batch  # with bad rows, too
                seen = Fingerprint(len(rows), sum(position for _, position in rows))
                told.append(Fingerprinted(attempt, spout, seen))
            told.append(Acked(attempt, StreamId.BATCH, given.edge, () if number else tuple(tasks)))
        heard = [task for task in tasks if not chance.happens("report lost")]
        heard += [task for task in heard if chance.happens("report twice")]
        return [*told, *(Acked(attempt, StreamId.BATCH, task) for task in heard)]

    # --- committing ---------------------------------------------------------------------------------------------------

    def on_commit(self, step: CommitStep) -> None:
        """A step of a commit: leadership is checked right before."""
        world, records = self.process.world, self.process.record_store
        if records is None or self.process.driver is None:
            return
        try:
            records.ensure_leading()
        except TridentError as error:
            lost = isinstance(error, CoordinationLost)
            self._step_ended(StoreBusyException(str(error)) if lost else error)
            return
        world.oracle.commit_started(self.process)
        for member in step.members:
            for name, splits in self.splits.get(member.attempt, {}).items():
                world.sources[name].committing(member.number or 0, splits)
        stores = list(self.process.outputs.values())
        groups = {
            stores[branch].name: tuple(
                evolve(
                    self.transaction(member.attempt),
                    group_first=step.group_first,
                    time=member.time,
                    parks=FIRST_ATTEMPT_ID if branch in member.idle else member.parks,
                )
                for member in step.members
            )
            for branch in step.branches
        }
        sent: dict[str, Given | None] = {
            stores[each].name: tuple(member.receipts[each] or () for member in step.members)
            if stores[each].inline
            else None
            for each in step.branches
        }
        for name, rows in sent.items():
            if world.stores[name].tasked:
                world.stores[name].work(groups[name], rows or ())
        if self._commits_together:
            world.send_together(self.process, groups, sent)
            return
        ((name, rows),) = sent.items()
        self.committing = groups[name]
        world.send_commit(self.process, name, self.committing, rows)

    @property
    def _commits_together(self) -> bool:
        world = self.process.world
        return world.together and world.has("one step for one database")

    def on_committed_together(self, error: BaseException | None) -> None:
        """A database has answered, or its connection has broken."""
        self._step_ended(error)

    def on_committed(self, name: str, values: Given, error: BaseException | None) -> None:
        """A store has answered, or its connection has broken; its new values go on before the step is done."""
        world = self.process.world
        downstream = next((each for each, store in self.process.stores.items() if store.fed_by == name), None)
        is_done = error is not None or downstream is None
        if downstream is not None and error is None:
            world.send_commit(self.process, downstream, self.committing, values)
        if is_done if world.has("values within the commit") else name in self.process.outputs:
            self._step_ended(error)

    def _step_ended(self, error: BaseException | None) -> None:
        if error is None:
            self.report(StepCommitted())
        else:
            kind = FailureKind.FATAL if isinstance(error, TridentError) else FailureKind.INTERRUPTED
            refused = error.args[0] if isinstance(error, RowsRefusedError) else None
            self.report(StepFailed(Diagnosis(error, FailureKind.USER_CODE if refused else kind, refused)))

    def on_abort(self, abort: Abort) -> None:
        """A store gives up what an attempt has staged."""
        store = list(self.process.outputs.values())[abort.branch]
        if not store.inline:
            store.discard(self.transaction(abort.attempt))
        self.report(Aborted())

    # --- reads --------------------------------------------------------------------------------------------------------

    def ask_states(self) -> None:
        """Somebody wants to read all states at one transaction."""
        self.report(ReadWanted("read", whole=True))

    def _are_kept(self) -> bool:
        try:
            for name in self.process.stores:
                self.process.check_kept(name)
        except StateError:
            return False  # who asks is told so
        return True

    def on_read(self, _: object) -> None:
        """S16: all states have the same transactions, where nobody else may lead."""
        records = self.process.record_store
        if records is not None and self._leads(records) and self._are_kept():
            has = {name: len(store.ledger) for name, store in self.process.stores.items() if not store.lags}
            story = f"{self.process.name} reads states with so many transactions: {has}"
            self.process.world.oracle.require(len(set(has.values())) == 1, "S16", story)
        self.report(ReadDone())

    def _leads(self, records: ZooKeeperRecordStore) -> bool:
        try:
            records.ensure_leading()
        except TridentError:
            return False
        return True

    # --- success ------------------------------------------------------------------------------------------------------

    def on_success(self, attempt: TransactionAttempt, number: int, spout: str) -> None:
        """A spout hears of it."""
        self.process.world.oracle.success_delivered(attempt.txid)
        self.process.world.sources[spout].success(number)
        if spout in self.process.emitters:
            self.process.emitters[spout].success(TransactionAttempt(number, attempt.attempt_id))
        for half in Half:
            self.report(SpoutSucceeded(attempt.txid, spout, half))

    def transaction(self, attempt: TransactionAttempt) -> SinkTransaction:
        """An attempt as stores see it."""
        store = self.process.record_store
        if store is None:
            raise AssertionError("nobody leads here")
        key = TransactionKey(store.identity.uuid, store.identity.incarnation, attempt.txid)
        return SinkTransaction(key, attempt, store.epoch)


def _given(member: JobMember) -> Rows:
    return tuple(row for given in member.inputs.values() for row in given.batch)
