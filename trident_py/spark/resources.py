"""The resources of the tasks of a stage, as a Spark resource profile."""

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
    """The resources of each task of a stage, or of each executor that runs it.

    Attributes:
        cpus: the cores of a task; None: ``spark.task.cpus``.
        memory: the memory of an executor, as ``"4g"``; None: ``spark.executor.memory``.
        gpus: the GPUs of a task; less than 1 if tasks share one. None: no GPU.
    """

    cpus: int | None = None
    memory: str | None = None
    gpus: float | None = None
    _profiles: WeakKeyDictionary[SparkSession, ResourceProfile] = field(
        factory=WeakKeyDictionary, init=False, repr=False, eq=False
    )

    def profile(self, session: SparkSession) -> ResourceProfile | None:
        """Return the profile, the same one for each batch: for a different profile, Spark starts other executors.

        None in local mode.

        Raises:
            TopologyError: Spark's configuration can't provide the resources.
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
