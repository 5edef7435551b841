"""Job tags: they find and cancel the Spark jobs of a dead attempt. No other module uses SparkContext.

On classic Spark, ``SparkSession.interruptTag`` finds only tags that the calling thread added itself. (Measured on 4.3:
it returned nothing and the job continued.) So tags use ``SparkContext`` there. Spark Connect has no SparkContext, and
its session's own method works across threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from pyspark import SparkContext
from pyspark.errors import PySparkAttributeError, PySparkNotImplementedError
from pyspark.sql import SparkSession

DESCRIPTION = "spark.job.description"
"""The thread property that `SparkContext.setJobDescription` sets; Spark has no method to read or reset it."""

GROUP = "spark.jobGroup.id"
"""The thread property that `SparkContext.setJobGroup` sets."""


def spark_context(session: SparkSession) -> SparkContext | None:
    """Return the context of a classic session; None for Spark Connect."""
    try:
        return session.sparkContext
    except (PySparkAttributeError, PySparkNotImplementedError):
        return None


def parallelism(session: SparkSession) -> int:
    """Return how many tasks run at once; for Spark Connect, the number of shuffle partitions."""
    context = spark_context(session)
    return context.defaultParallelism if context else int(session.conf.get("spark.sql.shuffle.partitions") or 1)


@contextmanager
def tagged(session: SparkSession, tag: str, description: str) -> Iterator[None]:
    """Tag every job that this thread starts inside with ``tag``, and describe it in Spark's UI."""
    target = spark_context(session)
    if target is None:
        session.addTag(tag)
    else:
        target.addJobTag(tag)
    try:
        with described(session, description):
            yield
    finally:
        if target is None:
            session.removeTag(tag)
        else:
            target.removeJobTag(tag)


def described(session: SparkSession, description: str) -> AbstractContextManager[None]:
    """Set ``description`` in Spark's UI for every job that this thread starts inside; no effect on Spark Connect."""
    return _with_property(session, DESCRIPTION, description)


def grouped(session: SparkSession, group: str) -> AbstractContextManager[None]:
    """Put every job that this thread starts inside into ``group``; no effect on Spark Connect."""
    return _with_property(session, GROUP, group)


@contextmanager
def _with_property(session: SparkSession, name: str, value: str) -> Iterator[None]:
    target = spark_context(session)
    if target is None:
        yield
        return
    before = target.getLocalProperty(name)
    target.setLocalProperty(name, value)
    try:
        yield
    finally:
        target.setLocalProperty(name, before)  # type: ignore[arg-type]  # None removes it


def stages(session: SparkSession, but_of_group: str) -> dict[str, str]:
    """Return the active stages of this application, a sentence for each; empty for Spark Connect.

    Those of the jobs in ``but_of_group`` are left out.
    """
    context = spark_context(session)
    if context is None:
        return {}
    tracker = context.statusTracker()
    infos = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(but_of_group)]
    others = {stage for info in infos if info is not None for stage in info.stageIds}
    hosts = sorted({each.host for each in tracker.getExecutorInfos() if each.numRunningTasks})
    where = f" on {', '.join(hosts)}" if hosts else ""
    found = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds() if stage not in others]
    return {
        f"stage {each.stageId}": f"Spark stage {each.stageId}: {each.numCompletedTasks} of {each.numTasks} tasks done, "
        f"{each.numActiveTasks} running{where if each.numActiveTasks else ''}"
        for each in found
        if each is not None
    }


def tasks_done(session: SparkSession, group: str) -> int | None:
    """Return the number of ended tasks of the active stages of jobs in ``group``; None for Spark Connect."""
    context = spark_context(session)
    if context is None:
        return None
    tracker = context.statusTracker()
    infos = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    found = [tracker.getStageInfo(stage) for info in infos if info is not None for stage in info.stageIds]
    return sum(each.numCompletedTasks for each in found if each is not None)


def cancel(session: SparkSession, tag: str) -> None:
    """Cancel the running jobs with ``tag``. Their Python workers may continue for seconds: this is no fence."""
    context = spark_context(session)
    if context is None:
        session.interruptTag(tag)
    else:
        context.cancelJobsWithTag(tag)
