"""Stages in Spark jobs: they settle their worker, report failures, and collect counts of user functions.

Counts are collected only for branches that have used a counter.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import PurePath
from types import FrameType
from typing import Any, TypeVar

import pyarrow as pa
from attrs import define, field, frozen
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.resource import ResourceProfile
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import StringType, StructField, StructType

from trident_py.rows.schema import arrow_schema, nullable
from trident_py.spark.asking import answer_within
from trident_py.worker.counters import (
    COUNTS,
    CountingStage,
    CountScope,
    NodeCounts,
    UncountedStage,
    count_scope,
    of_reports,
)
from trident_py.worker.failures import Classify, Stage, TaskFailed, by_user_code, telling


@frozen
class Settling:
    """A stage that settles its worker at the end."""

    stage: Stage

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from self.stage(batches)
        settle()


def settle() -> None:
    """Prepare this process to be a good worker; only the first call has an effect.

    A worker collects garbage after each task, and traverses everything that it has imported. That takes 17 ms of CPU,
    two thirds of the cost of a small task. So the present objects are frozen. A worker that Spark ends after an idle
    minute finds its Unix socket closed and prints a traceback. With this it ends silently.
    """
    if gc.get_freeze_count():
        return
    pa.array([""])  # imports pandas, which the first row would, in a task of a standby, which has none
    gc.collect()
    gc.freeze()
    if os.name != "posix" or threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGPIPE) is signal.SIG_IGN:
        signal.signal(signal.SIGPIPE, _end_quietly)


def _end_quietly(_: int, frame: FrameType | None) -> None:
    # Code of a task that writes into a closed pipe must get its BrokenPipeError, as without this handler.
    # PySpark's worker calls all code of a task; its daemon calls only the end of the process.
    while frame and PurePath(frame.f_code.co_filename).parent.name != "pyspark":
        frame = frame.f_back
    if frame and PurePath(frame.f_code.co_filename).name == "daemon.py":
        os._exit(0)


T = TypeVar("T")

OBSERVED_WITHIN_SECONDS = 30.0

_EXCLUDED_RULES = "spark.sql.adaptive.optimizer.excludedRules"
_DROPS_EMPTY_STAGES = "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"


@define
class CountingJob:
    """The counts of a job, from its construction to its end.

    Attributes:
        is_listening: whether tasks may count; otherwise the job fails if one does.
    """

    is_listening: bool
    _scope: CountScope = field(factory=CountScope, init=False)  # on the driver
    _observations: list[Observation] = field(factory=list, init=False)

    def observe(self, frame: DataFrame) -> DataFrame:
        """Observe the counts in a frame; return its rows without the last row of each task, which has the counts."""
        observation = Observation()
        self._observations.append(observation)
        seen = frame.observe(observation, F.collect_list(COUNTS).alias("reports"))
        return seen.where(F.col(COUNTS).isNull()).drop(COUNTS)

    def heard(self) -> dict[tuple[int | None, str], NodeCounts]:
        """Return the counts by transaction and node; call it when the job has returned.

        If a node ran twice, the run reported by more tasks counts, because Spark may have stopped the other one early.

        Raises:
            RuntimeError: Spark doesn't return the counts.
        """
        found = {key: NodeCounts(by_name) for key, by_name in self._scope.counts.items()}
        for observation in self._observations:
            metrics = observed(observation)
            for key, counts in of_reports((metrics or {}).get("reports", [])).items():
                if key not in found or counts.tasks > found[key].tasks:
                    found[key] = counts
        return found


def observed(observation: Observation) -> dict[str, Any] | None:
    """Return the observed metrics, after the job; None if the optimiser removed the observed part.

    Raises:
        RuntimeError: Spark doesn't answer.
    """
    try:
        return dict(answer_within(lambda: observation.get, OBSERVED_WITHIN_SECONDS))
    except (PySparkException, Py4JJavaError):
        return None
    except TimeoutError as error:
        raise RuntimeError("Spark doesn't return the counts of the tasks of a job") from error


_job: ContextVar[CountingJob | None] = ContextVar("trident_counting_job", default=None)


@contextmanager
def counting_job(*, is_listening: bool) -> Iterator[CountingJob]:
    """Let user functions count for transactions in a job that the block builds and runs on this thread."""
    job = CountingJob(is_listening)
    token = _job.set(job)
    try:
        with count_scope(job._scope):  # noqa: SLF001 - its own
            yield job
    finally:
        _job.reset(token)


def mapped(
    frame: DataFrame,
    stage: Stage,
    target: StructType,
    classify: Classify = by_user_code,
    profile: ResourceProfile | None = None,
) -> DataFrame:
    """Apply a stage by ``frame.mapInArrow``; it reports its failure, and the counts of its functions.

    ``profile`` has the resources of its tasks.
    """
    job = _job.get()
    if job is None:
        return frame.mapInArrow(Settling(telling(stage, classify)), target, profile=profile)
    if not job.is_listening:
        return frame.mapInArrow(Settling(telling(UncountedStage(stage), classify)), target, profile=profile)
    counting = CountingStage(stage, arrow_schema(target))
    hidden = StructType([*nullable(target), StructField(COUNTS, StringType())])
    return job.observe(frame.mapInArrow(Settling(telling(counting, classify)), hidden, profile=profile))


def listen_to_empty_stages(session: SparkSession) -> None:
    """Keep stages without rows in Spark's plan: otherwise their reports would be lost."""
    rules = [rule for rule in (session.conf.get(_EXCLUDED_RULES, "") or "").split(",") if rule]
    if _DROPS_EMPTY_STAGES not in rules:
        session.conf.set(_EXCLUDED_RULES, ",".join([*rules, _DROPS_EMPTY_STAGES]))


@define(eq=False)
class CountingJobs:
    """Runs jobs with tasks that may count; a job that uses a counter for the first time is run again with collection.

    So topologies without counters don't pay for collection, which takes some milliseconds of each job.

    Attributes:
        session: the session of the jobs.
    """

    session: SparkSession
    _listening: set[Hashable] = field(factory=set, init=False)

    def run(self, kind: Hashable, job: Callable[[CountingJob], T], *, again: bool = True) -> T:
        """Return the result of ``job``.

        Args:
            kind: once a job of this kind has counted, counts of all such jobs are collected.
            job: builds and runs the job.
            again: whether it may be run again at once; otherwise its attempt must be replayed.

        Raises:
            TaskFailed: a task has failed; or it has counted, and may not be run again.
        """
        try:
            return self._run(kind, job)
        except TaskFailed as error:
            if not error.failure.counts:
                raise
            listen_to_empty_stages(self.session)
            self._listening.add(kind)
            if not again:
                raise
        return self._run(kind, job)

    def _run(self, kind: Hashable, job: Callable[[CountingJob], T]) -> T:
        with counting_job(is_listening=kind in self._listening) as counting:
            return job(counting)
