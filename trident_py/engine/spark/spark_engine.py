"""`BatchEngine` with Spark: each large batch is its own job, small batches share jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial

import pyarrow as pa
from attrs import define, frozen
from pyspark.sql import SparkSession

from coordinators.values.attempt import TransactionAttempt
from trident_py.engine.plane.emitted import EmittedBatch
from trident_py.engine.plane.instructions import Emit
from trident_py.engine.plane.sifting import Sifted
from trident_py.engine.plane.work import Job, JobMember, Processed
from trident_py.engine.ports.batch_engine import BatchEngine, BatchWork, Ended, Jobs
from trident_py.engine.ports.commit_thread import CommitThread
from trident_py.engine.ports.job_names import JobNames
from trident_py.engine.ports.requests import ByJob
from trident_py.engine.resident.programs import shipped
from trident_py.engine.resident.resident_tasks import ResidentTasks, resident_group
from trident_py.engine.resident.settings import ResidentSettings
from trident_py.engine.spark.shared_job import SharedJobs, shareable, warm_up
from trident_py.engine.spark.spark_job import CommitSession, MicroBatches, RequestJobs
from trident_py.participants.context import CommitSpark
from trident_py.planner.plan import Plan
from trident_py.planner.sharing import SharedBranch
from trident_py.spark.asking import Life, life_of
from trident_py.spark.jobs import stages
from trident_py.spark.session import watched
from trident_py.worker.sieve import Quarantine


@frozen(kw_only=True)
class SparkEngine(BatchEngine):
    """Runs a topology in a Spark session.

    Attributes:
        session: the topology's own.
        small: a second session, for small jobs.
        branches: those whose small batches share jobs, by number.
        residents: the tasks that stay; None: small batches run as jobs.
    """

    plan: Plan
    session: SparkSession
    small: SparkSession
    branches: Mapping[int, SharedBranch]
    residents: ResidentTasks | None = None

    @classmethod
    @contextmanager
    def running(
        cls, plan: Plan, session: SparkSession, small: SparkSession, settings: ResidentSettings | None
    ) -> Iterator[SparkEngine]:
        """Yield the engine, and have resident tasks by ``settings`` until the block ends."""
        branches = shareable(small, plan.branches)
        if settings is None:
            yield cls(plan=plan, session=session, small=small, branches=branches)
            return
        topology = plan.graph.topology
        tasks = ResidentTasks(
            session=session, shipped=lambda: dict(shipped(branches)), settings=settings, topology=topology
        )
        with closing(tasks):
            yield cls(plan=plan, session=session, small=small, branches=branches, residents=tasks)

    @property
    def parallelism(self) -> int:  # type: ignore[override]
        """The parallelism that the session was given: defaultParallelism is not available in Spark Connect."""
        return int(self.session.conf.get("spark.sql.shuffle.partitions") or 1)

    def jobs(self, work: BatchWork) -> Jobs:
        return SparkJobs(
            together=SharedJobs(session=self.small, work=work, branches=self.branches),
            alone=MicroBatches(session=self.session, work=work),
            resident=self.residents,
        )

    def warm_up(self) -> None:
        warm_up(self.small, self.plan.graph.topology, self.branches.values())

    @property
    def request_jobs(self) -> ByJob:
        name = self.plan.graph.topology
        return RequestJobs(self.session, f"trident:{name}:requests", f"{name}: a request")

    def commit_spark(self, epoch: int, thread: CommitThread) -> CommitSpark:
        """Return the session, for the commit thread."""
        return CommitSession(self.session, JobNames(self.plan.graph.topology, epoch), thread)

    def stages(self) -> Mapping[str, str]:
        return stages(self.session, resident_group(self.plan.graph.topology))

    def life(self) -> Life:
        return life_of(self.session)

    def watched(self, lost: Callable[[BaseException], object]) -> AbstractContextManager[None]:
        """Check the session every few seconds while the block runs, and call ``lost`` if it is lost."""
        return watched(self.session, self.plan.graph.topology, lost)


@define(kw_only=True, eq=False)
class SparkJobs(Jobs):
    """The Spark jobs of one leadership."""

    together: SharedJobs
    alone: MicroBatches
    resident: ResidentTasks | None = None

    def __attrs_post_init__(self) -> None:
        self.shareable = self.together.branches.keys()
        if self.resident is not None:
            self.resident_tasks, self.busy_tasks = self.resident.numbers, self.resident.busy

    def process(self, job: Job, members: Sequence[JobMember]) -> Sequence[Processed]:
        if job.sieves:
            return [self.alone.sieve(members[0], job.branch)]
        if not job.is_shared:
            return [self.alone.process(members[0], job.branch)]
        return self.together.process(members, job.branch)

    def begin(self, job: Job, members: Sequence[JobMember], ended: Ended) -> bool:
        if self.resident is None:
            return False
        rows, results = self.together.rows_of, self.together.results
        return self.resident.begin(
            job, partial(rows, members, job.branch), partial(results, members, job.branch), ended
        )

    def checkpoint(self, emit: Emit, batch: EmittedBatch, verify: bool) -> EmittedBatch:
        """Return a batch with the same rows, which are read once and stored in the executors as a DataFrame."""
        return self.alone.checkpoint(emit, batch, verify)

    def sift(self, emit: Emit, batch: EmittedBatch, branch: int, quarantine: Quarantine) -> Sifted:
        return self.alone.sift(emit, batch, branch, quarantine)

    def rows_of(self, emit: Emit, batch: EmittedBatch) -> pa.Table:
        return self.alone.rows_of(emit, batch)

    def cancel_job(self, job: Job) -> None:
        if self.resident is not None:
            self.resident.cancel(job)
        self.together.cancel(job.attempts)

    def cancel_attempt(self, attempt: TransactionAttempt) -> None:
        self.alone.cancel(attempt)

    def close(self) -> None:
        if self.resident is not None:
            self.resident.release()
