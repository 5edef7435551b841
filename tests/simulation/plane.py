"""What is done with batches in a simulated world: emitters, jobs, reports, commits. In the product: Spark."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field

from coordinators.attempt import TransactionAttempt
from coordinators.canonical import Json
from coordinators.errors import CoordinationLost, TridentError
from coordinators.fingerprint import Fingerprint
from coordinators.notices import Acked, ExtentsLearned, Failed, FailureKind, Fingerprinted, Notice, SuccessDelivered
from coordinators.protocol import StreamId
from coordinators.spout_coordinator import Ask
from tests.simulation.partitions import Sent, emitted
from tests.simulation.rules import Violation
from tests.simulation.sources import Source
from tests.simulation.stores import Rows
from trident_py.errors import StoreBusyException
from trident_py.interfaces.sinks import SinkTransaction, TransactionKey

if TYPE_CHECKING:
    from tests.simulation.process import Process

EMIT_SECS, JOB_SECS, COMMIT_SECS, LATE_SECS = 0.005, 0.1, 0.02, 6.0
TASKS = 2


@define
class Work:
    """One attempt on its way.

    Attributes:
        rows: what each spout gave.
        extents: what those that learn it have given.
        running: how many jobs of it run.
        prepared: the stores whose job is done.
    """

    attempt: TransactionAttempt
    rows: dict[str, Rows] = field(factory=dict)
    extents: dict[str, Any] = field(factory=dict)
    running: int = 0
    prepared: set[str] = field(factory=set)
    cancelled: bool = False


@define
class Commit:
    """A group of attempts being committed, step by step, each store by store.

    Attributes:
        group_first: the first transaction of the group, for those who are told.
        waiting: those that no step has had yet.
        edges: those that are left.
        works: the attempts of this step.
        stores: that this step still has to go to.
    """

    group_first: int | None
    waiting: list[Work]
    edges: dict[TransactionAttempt, list[int]]
    works: list[Work] = field(factory=list)
    stores: list[str] = field(factory=list)

    @property
    def attempt(self) -> TransactionAttempt:
        """The first of this step."""
        return self.works[0].attempt

    def begin_step(self, stores: Sequence[str], large_rows: int) -> None:
        """The next step: small transactions together, or a large one alone."""
        small = list(takewhile(lambda work: len(_given(work)) < large_rows, self.waiting))
        self.works, self.stores = small or self.waiting[:1], list(stores)
        del self.waiting[: len(self.works)]


@define(eq=False)
class Plane:
    """`coordinators.streams.BatchStreams` of one process: every effect takes time, and may go wrong."""

    process: Process
    works: dict[TransactionAttempt, Work] = field(factory=dict)
    gathered: dict[int, list[Work]] = field(factory=dict)
    commits: list[Commit] = field(factory=list)

    # --- BatchStreams -------------------------------------------------------------------------------------------------

    def consumers(self, stream: StreamId) -> int:
        """Every spout, or every store."""
        world = self.process.world
        self.process.next_edge = 1
        return len(world.sources) if stream is StreamId.BATCH else len(self.process.stores)

    def ask(self, spout: str, ask: Ask) -> None:
        """Answered on the spout's own thread."""
        self.process.post("answer", EMIT_SECS, spout, ask, lane=f"coordinator {spout}")

    def emit_batch(
        self, attempt: TransactionAttempt, metadata: Mapping[str, Json], time: int, edges: Sequence[int]
    ) -> None:
        """Every spout emits, on its own thread."""
        self.process.may_crash("before emit_batch")
        self.process.world.oracle.batch_announced(attempt, time)
        self.works[attempt] = Work(attempt)
        for spout, edge in zip(self.process.world.sources, edges, strict=True):
            self.process.post("emit", EMIT_SECS, attempt, spout, metadata[spout], edge, lane=f"emitter {spout}")

    def emit_commit(self, run: Mapping[TransactionAttempt, Sequence[int]]) -> None:
        """One after the other, on the thread for commits; in one step of each store."""
        self.process.may_crash("before emit_commit")
        world = self.process.world
        works, names = [self.works[attempt] for attempt in run], list(self.process.stores)
        for work in works:
            if set(names) - work.prepared:
                unprepared = set(names) - work.prepared
                raise Violation("S10", f"{work.attempt} commits although {unprepared} have not prepared it")
        group_first = works[0].attempt.txid if world.has("known groups") else None
        if not world.has("runs in order"):
            works.reverse()
        commit = Commit(group_first, works, {attempt: list(edges) for attempt, edges in run.items()})
        commit.begin_step(names, world.large_rows)
        self.commits.append(commit)
        if len(self.commits) == 1:
            self.process.post("commit", COMMIT_SECS)

    def emit_success(self, attempt: TransactionAttempt) -> None:
        """Delivered on the spouts' threads, in order."""
        self.process.may_crash("before emit_success")
        self.works.pop(attempt, None)
        self.process.post("success", EMIT_SECS, attempt, lane="successes")

    def cancel(self, attempt: TransactionAttempt) -> None:
        """What runs may run on for a while."""
        self.process.may_crash("before cancel")
        work = self.works.pop(attempt, None)
        if work is not None:
            work.cancelled = True
            for name in sorted(work.prepared):
                self.process.world.stores[name].discard(self.transaction(attempt))

    def alive(self) -> Collection[tuple[TransactionAttempt, StreamId]]:
        """Attempts with a running job."""
        return [(attempt, StreamId.BATCH) for attempt, work in self.works.items() if work.running]

    def holds_rows(self) -> bool:
        """A window does, at all times: so time never goes back."""
        return True

    # --- processing ---------------------------------------------------------------------------------------------------

    def on_emit(self, attempt: TransactionAttempt, spout: str, extent: Any, edge: int) -> None:
        """The emitter of one spout gives its rows; when all have, the jobs start."""
        world, work = self.process.world, self.works.get(attempt)
        if work is None:
            return
        if world.chance.happens("source away"):
            self.report(Failed(attempt, OSError("out of reach"), FailureKind.UNREACHABLE, (spout,)))
            return
        try:
            if world.chance.happens("user code fails") or attempt.txid == world.poison:
                raise ValueError("user code")
            work.rows[spout] = self._emitted(work, world.sources[spout], extent)
        except Violation:
            raise
        except Exception as error:  # noqa: BLE001 - what an emitter raises fails its attempt
            kind = FailureKind.FATAL if isinstance(error, TridentError) else FailureKind.USER_CODE
            self.report(Failed(attempt, error, kind))
            return
        # One edge from each spout to each store's job.
        number = list(world.sources).index(spout)
        made = tuple(1 << 8 + 4 * number + branch for branch in range(len(self.process.stores)))
        self.report(Acked(attempt, StreamId.BATCH, edge, made))
        if len(work.rows) == len(world.sources):
            for branch in range(len(self.process.stores)):
                work.running += 1
                self._start(work, branch)

    def _start(self, work: Work, branch: int) -> None:
        """A job of its own; or, where jobs are shared, one with all that come until the one that runs has ended."""
        if not self.process.world.shares:
            self.process.post("job", JOB_SECS, (work,), branch)
        elif branch in self.gathered:
            self.gathered[branch].append(work)
        else:
            self.gathered[branch] = []
            self.process.post("job", JOB_SECS, (work,), branch)

    def _emitted(self, work: Work, source: Source, metadata: Any) -> Rows:
        txid = work.attempt.txid
        rows = self._learned(work, source, metadata) if source.learns else source.read(txid, metadata)
        if source.exact:
            seen = Fingerprint(len(rows), sum(position for _, position in rows))
            self.process.deliver(Fingerprinted(work.attempt, source.name, seen))
        return rows

    def _learned(self, work: Work, source: Source, metadata: Any) -> Rows:
        sent, emitter = Sent(), self.process.emitters[source.name]
        emitter.emit_batch(work.attempt, metadata, sent)
        rows, note = emitted(self.process.world, source, sent.task)
        learned = emitter.learn(work.attempt, [note])
        work.extents[source.name] = learned.moved
        self.process.deliver(ExtentsLearned(work.attempt, source.name, learned.metadata, learned.moved))
        return rows

    def on_job(self, works: tuple[Work, ...], branch: int) -> None:
        """A job ends: it has staged its rows, and its tasks report; or it has failed, or is a zombie that goes on."""
        world = self.process.world
        if world.shares:
            waiting = [work for work in self.gathered.pop(branch, []) if not work.cancelled]
            if waiting:
                self.gathered[branch] = []
                self.process.post("job", JOB_SECS, tuple(waiting), branch)
        if len(works) > 1 and world.chance.happens("job fails"):
            for work in works:  # each by itself, so that whoever fails fails alone
                self.process.post("job", JOB_SECS, (work,), branch)
            return
        others = list(works) if world.has("rows apart") else [*works[1:], *works[:1]]
        for work, other in zip(works, others, strict=True):
            self._end_job(work, branch, _given(other), alone=len(works) == 1)

    def _end_job(self, work: Work, branch: int, rows: Rows, *, alone: bool) -> None:
        world, tx = self.process.world, self.transaction(work.attempt)
        name, store = list(self.process.stores.items())[branch]
        work.running -= 1
        if work.cancelled and not world.chance.happens("job goes on"):
            return
        if alone and world.chance.happens("job fails"):
            self.report(Failed(work.attempt, RuntimeError("an executor was lost"), FailureKind.INTERRUPTED))
            return
        if tx.epoch < store.highest_epoch:
            return  # A staging area is made by the leader, under the fence.
        store.stage(tx, rows)
        if work.cancelled:
            store.discard(tx)
            return
        work.prepared.add(name)
        tasks = [1 << 20 + TASKS * branch + task for task in range(TASKS)]
        for number in range(len(world.sources)):
            made = tuple(tasks) if number == 0 else ()
            self.report(Acked(work.attempt, StreamId.BATCH, 1 << 8 + 4 * number + branch, made))
        for edge in tasks:
            self.report(Acked(work.attempt, StreamId.BATCH, edge))

    def report(self, notice: Notice) -> None:
        """A report to the acker may be lost, come twice, or come late."""
        chance = self.process.world.chance
        if not self.process.world.real_time:
            self.process.deliver(notice)
            return
        if chance.happens("report lost"):
            return
        self.process.post("report", 2.0 if chance.happens("report late") else 0.001, notice)
        if chance.happens("report twice"):
            self.process.post("report", 0.5, notice)

    # --- committing ---------------------------------------------------------------------------------------------------

    def on_commit(self) -> None:
        """The next step of the commit that is being made: leadership is checked right before."""
        commit = self.commits[0]
        store, driver = self.process.record_store, self.process.driver
        if any(work.cancelled for work in commit.works) or store is None or driver is None:
            self._end_commit()
            return
        try:
            store.ensure_leading()
        except CoordinationLost as error:
            self._fail_commit(StoreBusyException(str(error)))
            return
        except TridentError as error:
            self._fail_commit(error)
            return
        self.process.world.oracle.commit_started(self.process)
        for work in commit.works:
            for name, extents in work.extents.items():
                self.process.world.sources[name].committing(work.attempt.txid, extents)
        run = tuple(evolve(self.transaction(work.attempt), group_first=commit.group_first) for work in commit.works)
        self.process.world.send_commit(self.process, commit.stores[0], run)

    def on_committed(self, attempt: TransactionAttempt, error: BaseException | None) -> None:
        """A store has answered, or its connection has broken."""
        if not self.commits or self.commits[0].attempt != attempt:
            return
        if error is not None:
            self._fail_commit(error)
            return
        commit = self.commits[0]
        commit.stores.pop(0)
        for work in commit.works:
            self.process.deliver(Acked(work.attempt, StreamId.COMMIT, commit.edges[work.attempt].pop(0)))
        if not commit.stores and commit.waiting:
            commit.begin_step(list(self.process.stores), self.process.world.large_rows)
        if commit.stores:
            self.process.post("commit", COMMIT_SECS)
        else:
            self._end_commit()

    def _fail_commit(self, error: BaseException) -> None:
        kind = FailureKind.FATAL if isinstance(error, TridentError) else FailureKind.INTERRUPTED
        self.process.deliver(Failed(self.commits[0].attempt, error, kind))
        self._end_commit()

    def _end_commit(self) -> None:
        self.commits.pop(0)
        if self.commits:
            self.process.post("commit", COMMIT_SECS)

    # --- success ------------------------------------------------------------------------------------------------------

    def on_success(self, attempt: TransactionAttempt) -> None:
        """Every spout hears of it."""
        self.process.world.oracle.success_delivered(attempt.txid)
        for source in self.process.world.sources.values():
            source.success(attempt.txid)
        for emitter in self.process.emitters.values():
            emitter.success(attempt)
        self.process.deliver(SuccessDelivered(attempt.txid))

    def transaction(self, attempt: TransactionAttempt) -> SinkTransaction:
        """An attempt as stores see it."""
        store = self.process.record_store
        if store is None:
            raise AssertionError("nobody leads here")
        key = TransactionKey(store.identity.uuid, store.identity.incarnation, attempt.txid)
        return SinkTransaction(key, attempt, store.epoch)


def _given(work: Work) -> Rows:
    return tuple(row for spout in sorted(work.rows) for row in work.rows[spout])
