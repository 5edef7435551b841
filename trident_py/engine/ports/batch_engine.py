"""What runs batches: Spark (`spark_engine`), or Python on the driver (`row_engine`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TypeAlias

from attrs import frozen
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from coordinators.values.attempt import TransactionAttempt
from trident_py.engine.plane.emitted import EmittedBatch
from trident_py.engine.plane.instructions import Emit
from trident_py.engine.plane.work import Job, JobMember, Processed
from trident_py.engine.ports.job_names import JobNames
from trident_py.engine.ports.requests import ByJob
from trident_py.graph.queries import StateQuery
from trident_py.interfaces.sinks import SinkTransaction
from trident_py.participants.context import CommitSpark
from trident_py.participants.participant import Participant
from trident_py.planner.plan import Branch, Plan
from trident_py.spark.asking import Life
from trident_py.worker.steps import Values

AskState: TypeAlias = Callable[[StateQuery, Sequence[Values], StructType], Sequence[Values]]
"""Asks a state for rows with these fields; blocks until it may be read."""


NO_STAGES: Mapping[str, str] = {}


@frozen(kw_only=True)
class BatchWork:
    """What one leadership has to do with batches.

    Attributes:
        exact: the spouts whose batches have to be the same each time.
        names: how its jobs are called.
        branches: what is done to a batch.
        participants: the output of each branch.
        transaction: what an output is told of an attempt, at a time in milliseconds.
        draw_edge: draws an acker edge.
        query: asks a state.
    """

    exact: frozenset[str]
    names: JobNames
    branches: Sequence[Branch]
    participants: Sequence[Participant]
    transaction: Callable[[TransactionAttempt, int], SinkTransaction]
    draw_edge: Callable[[], int]
    query: AskState


class Jobs(ABC):
    """Runs the jobs of one leadership; called on job threads, and on an emitter's to checkpoint."""

    shareable: Collection[int] = ()
    """The branches of which several small attempts can be one job."""

    @abstractmethod
    def process(self, job: Job, members: Sequence[JobMember]) -> Sequence[Processed]:
        """Return what the job has made of each of its attempts."""

    @abstractmethod
    def checkpoint(self, emit: Emit, batch: EmittedBatch, verify: bool) -> EmittedBatch:
        """Return the same rows, read once and kept; ``verify``: with a fingerprint."""

    def cancel_job(self, job: Job) -> None:
        """Cancel a job that attempts share, if it can be."""

    def cancel_attempt(self, attempt: TransactionAttempt) -> None:
        """Cancel all jobs that an attempt has for itself, if they can be."""


class BatchEngine(ABC):
    """What runs the batches and requests of one topology, as long as it runs or stands by here.

    Attributes:
        plan: what it runs.
        session: what emitters build DataFrames with.
        parallelism: how many tasks run at once.
    """

    plan: Plan
    session: SparkSession | Callable[[], SparkSession]
    parallelism: int = 1

    @abstractmethod
    def jobs(self, work: BatchWork) -> Jobs:
        """Make what runs the jobs of one leadership."""

    @property
    @abstractmethod
    def request_jobs(self) -> ByJob:
        """Runs operations of requests that aren't row operations."""

    def commit_spark(self, epoch: int) -> CommitSpark | None:
        """Return what jobs within the commits of a leadership run in; None: there are none."""
        return None

    def stages(self) -> Mapping[str, str]:
        """Return what it is working on besides our threads, a sentence each, by a name that stays."""
        return NO_STAGES

    @abstractmethod
    def life(self) -> Life:
        """Tell whether it can still run anything."""

    @abstractmethod
    def watched(self, lost: Callable[[BaseException], object]) -> AbstractContextManager[None]:
        """Have ``lost`` told, in the block, when it is gone."""
