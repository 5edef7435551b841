"""A stream while its DataFrame is being built: row operations wait, to be run together in one Spark stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from trident_py.planner.pipeline import RowPipeline
from trident_py.planner.steps import ProjectStep, Step
from trident_py.schema import select
from trident_py.spark.frames import column, map_batches


@frozen
class Flow:
    """A frame, and the row operations that are still to run over it.

    Attributes:
        frame: has the fields of ``rows.source``.
        rows: the waiting row operations.
    """

    frame: DataFrame
    rows: RowPipeline

    @classmethod
    def of(cls, frame: DataFrame, schema: StructType) -> Flow:
        """Just a frame."""
        return cls(frame, RowPipeline(schema))

    @property
    def schema(self) -> StructType:
        """The fields behind the waiting operations."""
        return self.rows.target

    def then(self, step: Step) -> Flow:
        """One more row operation."""
        return Flow(self.frame, self.rows.then(step))

    def native(self) -> DataFrame:
        """The frame with nothing waiting: for what Spark does itself."""
        return (
            map_batches(self.frame, self.rows.source.names, self.rows, self.schema) if self.rows.steps else self.frame
        )

    def replaced(self, change: Callable[[DataFrame], DataFrame], schema: StructType) -> Flow:
        """What Spark itself makes of it."""
        return Flow.of(change(self.native()), schema)

    def select(self, names: Sequence[str]) -> Flow:
        """Only these fields; as a row operation where others wait, so that Python hands less over."""
        if list(names) == self.schema.names:
            return self
        if self.rows.steps:
            return self.then(project_step(self.schema, names))
        return self.replaced(lambda frame: frame.select(*map(column, names)), select(self.schema, names))


def project_step(schema: StructType, names: Sequence[str]) -> ProjectStep:
    """Keeps the fields ``names``."""
    return ProjectStep(
        title="project", source=tuple(schema.names), in_fields=tuple(names), target=select(schema, names)
    )
