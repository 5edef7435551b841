"""Spark jobs within commits: those behind a state's new values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from attrs import frozen
from pyspark.sql import SparkSession

from trident_py.participants.context import CommitSpark
from trident_py.spark import jobs
from trident_py.worker.failures import task_failures_told


@frozen
class CommitSession(CommitSpark):
    """A session for them.

    Attributes:
        tag: that of the jobs.
        description: what Spark's UI says of them.
    """

    session: SparkSession
    tag: str
    description: str

    @contextmanager
    def running(self) -> Iterator[SparkSession]:
        """Let the block run jobs in the session, on the commit thread."""
        with jobs.tagged(self.session, self.tag, self.description), task_failures_told():
            yield self.session
