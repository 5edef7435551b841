"""``resources``: the resources of the tasks that run the preceding Python operations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from attrs import frozen
from pyspark.sql.types import StructType

from coordinators.values.attempt import TransactionAttempt
from trident_py.errors import TopologyError
from trident_py.graph.flow import Flow
from trident_py.graph.graph import Operation
from trident_py.rows.schema import shown
from trident_py.spark.resources import StageResources

_MEMORY = re.compile(r"[1-9]\d*[kmgt]b?", re.IGNORECASE)


@frozen
class Resources(Operation):
    """Ends a stage: the deferred Python operations run in tasks with these resources."""

    title: str
    needed: StageResources

    keeps_partitions: ClassVar[bool] = True

    def carrying(self) -> Resources:
        return self

    def output(self, inputs: Sequence[StructType]) -> StructType:
        return inputs[0]

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """Return the stage.

        Raises:
            TopologyError: no operation is deferred before it, or Spark can't provide the resources.
        """
        if not inputs[0].rows.steps:
            raise TopologyError("no Python operation is before it; put it after map, flat_map, each or filter")
        return inputs[0].resourced(self.needed)


def resources_of(title: str, cpus: object, memory: object, gpus: object) -> Resources:
    """Check the arguments.

    Raises:
        TopologyError: an argument is invalid, or all are missing.
    """
    if cpus is None and memory is None and gpus is None:
        raise TopologyError("name at least one of cpus, memory and gpus")
    if cpus is not None and (type(cpus) is not int or cpus < 1):
        raise TopologyError(f"cpus are a whole number from 1, not {shown(cpus)}")
    if memory is not None and not (isinstance(memory, str) and _MEMORY.fullmatch(memory)):
        raise TopologyError(f"memory is text like '4g' or '512m', not {shown(memory)}")
    if gpus is not None and not ((type(gpus) is int and gpus >= 1) or (type(gpus) is float and 0 < gpus <= 0.5)):
        raise TopologyError(f"gpus are a whole number from 1, or a share up to 0.5, not {shown(gpus)}")
    return Resources(title, StageResources(cpus=cpus, memory=memory, gpus=gpus))
