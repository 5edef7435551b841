"""What the tasks of a job count, collected beside its rows; only for branches that have used a counter."""

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
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import StringType, StructField, StructType

from trident_py.rows.schema import arrow_schema
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
    """A stage behind which its worker is settled."""

    stage: Stage

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the stage."""
        yield from self.stage(batches)
        settle()


def settle() -> None:
    """Make this process a good worker; only the first call does anything.

    A worker collects garbage behind each task, and goes through everything that it has imported for that: 17 ms of CPU,
    two thirds of what a small task costs it. So what is there now is frozen. And a worker that Spark ends, as it was
    idle for a minute, finds its Unix socket closed and prints where: it ends without a word instead.
    """
    if gc.get_freeze_count():
        return
    gc.collect()
    gc.freeze()
    if os.name != "posix" or threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGPIPE) is signal.SIG_IGN:
        signal.signal(signal.SIGPIPE, _end_quietly)


def _end_quietly(_: int, frame: FrameType | None) -> None:
    # Whatever else writes into a closed pipe gets its BrokenPipeError, as if nobody had handled the signal: all that a
    # task does is called by PySpark's worker, and only what ends the process by its daemon.
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
    """What is counted while a job is built and run.

    Attributes:
        is_listening: whether tasks may count; otherwise the job ends if one does.
    """

    is_listening: bool
    _scope: CountScope = field(factory=CountScope, init=False)  # on the driver
    _observations: list[Observation] = field(factory=list, init=False)

    def observe(self, frame: DataFrame) -> DataFrame:
        """Return the rows of a frame that tell what was counted, without the last of each task, that does."""
        observation = Observation()
        self._observations.append(observation)
        seen = frame.observe(observation, F.collect_list(COUNTS).alias("reports"))
        return seen.where(F.col(COUNTS).isNull()).drop(COUNTS)

    def heard(self) -> dict[tuple[int | None, str], NodeCounts]:
        """Return what was counted, by transaction and node; called when the job has returned.

        Of a node that was run twice, the run counts of which more tasks tell: Spark may have cut the other one short.

        Raises:
            RuntimeError: Spark doesn't tell what was counted.
        """
        found = {key: NodeCounts(by_name) for key, by_name in self._scope.counts.items()}
        for observation in self._observations:
            metrics = observed(observation)
            for key, counts in of_reports((metrics or {}).get("reports", [])).items():
                if key not in found or counts.tasks > found[key].tasks:
                    found[key] = counts
        return found


def observed(observation: Observation) -> dict[str, Any] | None:
    """Return what was observed, asked for after the job; None: the optimiser found that nothing of it was needed.

    Raises:
        RuntimeError: Spark doesn't tell.
    """
    try:
        return dict(answer_within(lambda: observation.get, OBSERVED_WITHIN_SECONDS))
    except (PySparkException, Py4JJavaError):
        return None
    except TimeoutError as error:
        raise RuntimeError("Spark doesn't tell what the tasks of a job have counted") from error


_job: ContextVar[CountingJob | None] = ContextVar("trident_counting_job", default=None)


@contextmanager
def counting_job(*, is_listening: bool) -> Iterator[CountingJob]:
    """Let user functions count in a job for transactions, which the block builds and runs on this thread."""
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
    """Return ``frame.mapInArrow`` for a stage of ours, which tells what it fails of, and what its functions count.

    ``profile`` is what its tasks need.
    """
    job = _job.get()
    if job is None:
        return frame.mapInArrow(Settling(telling(stage, classify)), target, profile=profile)
    if not job.is_listening:
        return frame.mapInArrow(Settling(telling(UncountedStage(stage), classify)), target, profile=profile)
    counting = CountingStage(stage, arrow_schema(target))
    hidden = StructType([*nullable(target), StructField(COUNTS, StringType())])
    return job.observe(frame.mapInArrow(Settling(telling(counting, classify)), hidden, profile=profile))


def nullable(schema: StructType) -> list[StructField]:
    """Return the fields of ``schema``, where each may be null, as in a row that only tells something."""
    return [StructField(each.name, each.dataType, True, each.metadata) for each in schema.fields]


def listen_to_empty_stages(session: SparkSession) -> None:
    """Have Spark keep a stage in its plan that gave no rows: what it tells got lost with it."""
    rules = [rule for rule in (session.conf.get(_EXCLUDED_RULES, "") or "").split(",") if rule]
    if _DROPS_EMPTY_STAGES not in rules:
        session.conf.set(_EXCLUDED_RULES, ",".join([*rules, _DROPS_EMPTY_STAGES]))


@define(eq=False)
class CountingJobs:
    """Runs jobs whose tasks may count: one in which a counter is used for the first time is run again, and listens.

    So that nobody pays for counters who doesn't use them: to listen takes some milliseconds of each job.

    Attributes:
        session: in which the jobs run.
    """

    session: SparkSession
    _listening: set[Hashable] = field(factory=set, init=False)

    def run(self, kind: Hashable, job: Callable[[CountingJob], T], *, again: bool = True) -> T:
        """Return what ``job`` gives.

        Args:
            kind: once a job of this kind has counted, all of them listen.
            job: builds and runs it.
            again: whether it may be run again at once; otherwise its attempt has to be.

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
