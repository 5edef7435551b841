"""Job tags: how the Spark jobs of a dead attempt are found and cancelled. The one place that touches SparkContext.

On classic Spark ``SparkSession.interruptTag`` finds only the tags that the calling thread added itself (measured on
4.3: it returned nothing and the job ran on), so tags go through ``SparkContext`` there. Spark Connect has no
SparkContext, and its session's own form works across threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import SparkContext
from pyspark.errors import PySparkAttributeError, PySparkNotImplementedError
from pyspark.sql import SparkSession

DESCRIPTION = "spark.job.description"
"""The property of a thread that `SparkContext.setJobDescription` sets, and nothing reads or resets."""


def spark_context(session: SparkSession) -> SparkContext | None:
    """Return the context of a classic session; None where Spark Connect is behind it."""
    try:
        return session.sparkContext
    except (PySparkAttributeError, PySparkNotImplementedError):
        return None


def parallelism(session: SparkSession) -> int:
    """Return how many tasks run at once; for Spark Connect, which doesn't tell, what its shuffles are set to."""
    context = spark_context(session)
    return context.defaultParallelism if context else int(session.conf.get("spark.sql.shuffle.partitions") or 1)


@contextmanager
def tagged(session: SparkSession, tag: str, description: str) -> Iterator[None]:
    """Give every job that this thread starts inside ``tag``, and ``description`` in Spark's UI."""
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


@contextmanager
def described(session: SparkSession, description: str) -> Iterator[None]:
    """Have Spark's UI say ``description`` of every job that this thread starts inside; Spark Connect can't."""
    target = spark_context(session)
    if target is None:
        yield
        return
    before = target.getLocalProperty(DESCRIPTION)
    target.setJobDescription(description)
    try:
        yield
    finally:
        target.setLocalProperty(DESCRIPTION, before)  # type: ignore[arg-type]  # None removes it


def stages(session: SparkSession) -> dict[str, str]:
    """Return what Spark is working on in this application, a sentence for each stage; none over Spark Connect."""
    context = spark_context(session)
    if context is None:
        return {}
    tracker = context.statusTracker()
    hosts = sorted({each.host for each in tracker.getExecutorInfos() if each.numRunningTasks})
    where = f" on {', '.join(hosts)}" if hosts else ""
    found = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return {
        f"stage {each.stageId}": f"Spark stage {each.stageId}: {each.numCompletedTasks} of {each.numTasks} tasks done, "
        f"{each.numActiveTasks} running{where if each.numActiveTasks else ''}"
        for each in found
        if each is not None
    }


def cancel(session: SparkSession, tag: str) -> None:
    """Cancel the running jobs with ``tag``. Their Python workers may go on for seconds: no fence, only thrift."""
    context = spark_context(session)
    if context is None:
        session.interruptTag(tag)
    else:
        context.cancelJobsWithTag(tag)
