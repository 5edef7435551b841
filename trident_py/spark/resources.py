"""What the tasks of a stage need, as Spark's resource profiles say it."""

from __future__ import annotations

import logging
import math
from functools import cache
from weakref import WeakKeyDictionary

from attrs import field, frozen
from pyspark.resource import (
    ExecutorResourceRequests,
    ResourceProfile,
    ResourceProfileBuilder,
    TaskResourceRequests,
)
from pyspark.sql import SparkSession

from trident_py.errors import TopologyError

log = logging.getLogger(__name__)


@frozen(kw_only=True)
class StageResources:
    """What each task of a stage needs, or each executor that runs it.

    Attributes:
        cpus: cores of a task; None: ``spark.task.cpus``.
        memory: of an executor, as ``"4g"``; None: ``spark.executor.memory``.
        gpus: of a task; less than 1 where tasks share one. None: none.
    """

    cpus: int | None = None
    memory: str | None = None
    gpus: float | None = None
    _profiles: WeakKeyDictionary[SparkSession, ResourceProfile] = field(
        factory=WeakKeyDictionary, init=False, repr=False, eq=False
    )

    def profile(self, session: SparkSession) -> ResourceProfile | None:
        """Return the profile, the same for each batch: for another one, Spark starts other executors.

        None in local mode.

        Raises:
            TopologyError: Spark can't give that as it is configured.
        """
        if str(session.conf.get("spark.master", "")).split("[")[0] == "local":
            _say_local()
            return None
        if session not in self._profiles:
            self._profiles[session] = self._made(session)
        return self._profiles[session]

    def _made(self, session: SparkSession) -> ResourceProfile:
        tasks = TaskResourceRequests()
        if self.cpus is not None:
            tasks = tasks.cpus(self.cpus)
        if self.gpus is not None:
            tasks = tasks.resource("gpu", self.gpus)
        builder = ResourceProfileBuilder().require(tasks)
        if self.memory is not None:
            builder = builder.require(self._executors(session, self.memory))
        return builder.build

    def _executors(self, session: SparkSession, memory: str) -> ExecutorResourceRequests:
        if str(session.conf.get("spark.dynamicAllocation.enabled", "false")).lower() != "true":
            raise TopologyError(
                "other executors for one stage, which memory= asks for, need spark.dynamicAllocation.enabled=true; set "
                "it, or spark.executor.memory for all"
            )
        executors = ExecutorResourceRequests().memory(memory)
        if self.gpus is None:
            return executors
        script = str(session.conf.get("spark.executor.resource.gpu.discoveryScript", ""))
        return executors.resource("gpu", math.ceil(self.gpus), script)


@cache
def _say_local() -> None:
    log.warning("resources(...) is ignored in Spark's local mode, which has no executors to choose from")
