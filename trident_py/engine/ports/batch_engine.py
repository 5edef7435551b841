"""`BatchEngine`: the interface to run batches, implemented with Spark (`spark_engine`) and Python (`row_engine`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TypeAlias

import pyarrow as pa
from attrs import frozen
from pyspark.sql import SparkSession

from coordinators.status.status import BusyTask
from coordinators.values.attempt import TransactionAttempt
from trident_py.engine.plane.emitted import EmittedBatch
from trident_py.engine.plane.instructions import Emit
from trident_py.engine.plane.sifting import Sifted
from trident_py.engine.plane.work import Job, JobMember, Processed
from trident_py.engine.ports.commit_thread import CommitThread
from trident_py.engine.ports.job_names import JobNames
from trident_py.engine.ports.reads import StateReads
from trident_py.engine.ports.requests import ByJob
from trident_py.interfaces.sinks import SinkTransaction
from trident_py.participants.context import CommitSpark
from trident_py.participants.participant import Participant
from trident_py.planner.plan import Branch, Plan
from trident_py.spark.asking import Life
from trident_py.worker.sieve import Quarantine

Ended: TypeAlias = Callable[[Sequence[Processed] | BaseException | None], object]
"""Called once, on any thread, with the results of a job or its failure; None: `Jobs.process` must run it."""


NO_STAGES: Mapping[str, str] = {}


@frozen(kw_only=True)
class BatchWork:
    """The work of one leadership on batches.

    Attributes:
        exact: the spouts whose batches must be the same in each attempt.
        names: of its jobs.
        branches: the processing of a batch.
        participants: the output of each branch.
        transaction: returns an attempt, at a time in milliseconds, in the form for outputs.
        draw_edge: draws an acker edge.
        reads: queries states; it blocks until they may be read.
    """

    exact: frozenset[str]
    names: JobNames
    branches: Sequence[Branch]
    participants: Sequence[Participant]
    transaction: Callable[[TransactionAttempt, int], SinkTransaction]
    draw_edge: Callable[[], int]
    reads: StateReads


class Jobs(ABC):
    """Runs the jobs of one leadership, on job threads; each method with an `Emit` runs on an emitter's thread."""

    shareable: Collection[int] = ()
    """The branches for which several small attempts can share a job."""

    resident_tasks: Callable[[], Mapping[str, int]] = dict
    """Returns the numbers of `TopologyStatus.resident_tasks`."""

    busy_tasks: Callable[[], Sequence[BusyTask]] = tuple
    """Returns `TopologyStatus.busy_tasks`."""

    @abstractmethod
    def process(self, job: Job, members: Sequence[JobMember]) -> Sequence[Processed]:
        """Return the results of the job, one for each of its attempts."""

    def begin(self, job: Job, members: Sequence[JobMember], ended: Ended) -> bool:
        """Begin a shared job without waiting for it, and return true, if possible. Called on the driver's thread."""
        return False

    @abstractmethod
    def checkpoint(self, emit: Emit, batch: EmittedBatch, verify: bool) -> EmittedBatch:
        """Return the same rows, read once and stored; ``verify``: with a fingerprint."""

    @abstractmethod
    def sift(self, emit: Emit, batch: EmittedBatch, branch: int, quarantine: Quarantine) -> Sifted:
        """Run the row functions of ``branch`` over ``batch``; return their output and the bad rows.

        Raises:
            TaskFailed: there are too many bad rows, or other ones than the fixed ones.
        """

    def rows_of(self, emit: Emit, batch: EmittedBatch) -> pa.Table:
        """Return the rows of ``batch``, read once, in the memory of this process; here they are there already."""
        return batch.table

    def cancel_job(self, job: Job) -> None:
        """Cancel a job that attempts share, if possible."""

    def cancel_attempt(self, attempt: TransactionAttempt) -> None:
        """Cancel all jobs that belong to one attempt, if possible."""

    def close(self) -> None:
        """Abandon the work of this leadership that runs outside of its jobs' threads."""


class BatchEngine(ABC):
    """Runs the batches and requests of one topology, as long as it runs or is a standby in this process.

    Attributes:
        plan: that it runs.
        session: for the DataFrames of emitters.
        parallelism: how many tasks run at once.
    """

    plan: Plan
    session: SparkSession | Callable[[], SparkSession]
    parallelism: int = 1

    @abstractmethod
    def jobs(self, work: BatchWork) -> Jobs:
        """Return the jobs of one leadership."""

    def warm_up(self) -> None:
        """Load code for the first batches, on a standby, which doesn't lead yet; write nothing."""
        return

    @property
    @abstractmethod
    def request_jobs(self) -> ByJob:
        """The function that runs operations of requests that aren't row operations."""

    def commit_spark(self, epoch: int, thread: CommitThread) -> CommitSpark | None:
        """Return the Spark session for jobs within the commits of a leadership; None: such jobs are impossible."""
        return None

    def stages(self) -> Mapping[str, str]:
        """Return its current work outside of this process's threads: a sentence for each item, by a constant name."""
        return NO_STAGES

    @abstractmethod
    def life(self) -> Life:
        """Return whether it can still run jobs."""

    @abstractmethod
    def watched(self, lost: Callable[[BaseException], object]) -> AbstractContextManager[None]:
        """Call ``lost`` if the engine is lost while the block runs."""
