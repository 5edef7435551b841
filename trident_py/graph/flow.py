"""A stream while its DataFrame is built: row operations are deferred, and run together in one Spark stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import evolve, frozen
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import StructType

from trident_py.rows.schema import select
from trident_py.spark.frames import DeferredScan, column, in_order, map_batches
from trident_py.spark.resources import StageResources
from trident_py.worker.failures import Stage
from trident_py.worker.pipeline import NO_ROW, ProjectStep, RowPipeline, Step


@frozen
class Flow:
    """A frame, and the deferred row operations over it.

    Attributes:
        given: the fields of ``rows.source``, followed by `NO_ROW` if it is marked.
        rows: the deferred row operations.
        is_marked: whether ``frame`` has a marker row, which is not a row of the stream; see `marked`.
        is_parted: whether each partition runs a task, even without rows; else Spark runs no task if it knows that there
            are no rows.
    """

    given: DataFrame | DeferredScan
    rows: RowPipeline
    is_marked: bool = False
    is_parted: bool = False

    @classmethod
    def of(cls, given: DataFrame | DeferredScan, schema: StructType) -> Flow:
        """Begin with rows and no operations."""
        return cls(given, RowPipeline(schema))

    @property
    def frame(self) -> DataFrame:
        """The frame before the deferred operations."""
        return self.given.frame() if isinstance(self.given, DeferredScan) else self.given

    @property
    def schema(self) -> StructType:
        """The fields after the deferred operations."""
        return self.rows.target

    def then(self, step: Step) -> Flow:
        """Add a row operation."""
        return evolve(self, rows=self.rows.then(step))

    def native(self) -> DataFrame:
        """Return the frame after all deferred operations, without marker: the input of native Spark operations."""
        if self.rows.steps:
            return self._mapped(self.rows, self.schema)
        return self.frame.where(~F.col(NO_ROW)).drop(NO_ROW) if self.is_marked else self.frame

    def staged(self, stage: Stage, schema: StructType) -> Flow:
        """Apply ``stage``, which also runs the deferred operations, to each partition."""
        return Flow(self._mapped(stage, schema), RowPipeline(schema), is_parted=self.is_parted)

    def resourced(self, needed: StageResources) -> Flow:
        """Run the deferred operations in a separate stage with the resources ``needed`` for its tasks."""
        mapped = self._mapped(self.rows, self.schema, needed)
        return Flow(mapped, RowPipeline(self.schema), is_parted=self.is_parted)

    def marked(self) -> Flow:
        """Add a marker row, in a separate partition: Spark runs no task over an empty batch."""
        frame, schema = self.native(), self.schema
        nothing = [F.lit(None).cast(field.dataType).alias(field.name) for field in schema.fields]
        marker = frame.sparkSession.range(1).select(*nothing, F.lit(True).alias(NO_ROW))
        return Flow(frame.withColumn(NO_ROW, F.lit(False)).unionAll(marker), RowPipeline(schema), is_marked=True)

    def parted(self, change: Callable[[DataFrame], DataFrame]) -> Flow:
        """Move the rows to other partitions by ``change``; each partition runs a task, even without rows."""
        marked = self.marked()
        return evolve(marked, given=in_order(marked.frame, change), is_parted=True)

    def grouped(self, keys: Sequence[str]) -> Flow:
        """Bring rows with the same values of ``keys`` into the same partition; without rows, no task runs."""
        return self.replaced(
            lambda frame: in_order(frame, lambda given: given.repartition(*map(column, keys))), self.schema
        )

    def _mapped(self, stage: Stage, schema: StructType, needed: StageResources | None = None) -> DataFrame:
        if isinstance(self.given, DeferredScan):
            return self.given.staged(stage, schema, needed)
        names = [*self.rows.source.names, *([NO_ROW] if self.is_marked else [])]
        return map_batches(self.given, names, stage, schema, needed)

    def replaced(self, change: Callable[[DataFrame], DataFrame], schema: StructType) -> Flow:
        """Apply a native Spark operation to the frame."""
        return Flow.of(change(self.native()), schema)

    def select(self, names: Sequence[str]) -> Flow:
        """Keep only these fields; if row operations are deferred, as one of them, so that Python returns less data."""
        if list(names) == self.schema.names:
            return self
        if self.rows.steps:
            return self.then(project_step(self.schema, names))
        return self.replaced(lambda frame: frame.select(*map(column, names)), select(self.schema, names))


def project_step(schema: StructType, names: Sequence[str]) -> ProjectStep:
    """Return the step that keeps the fields ``names``."""
    return ProjectStep(
        title="project", source=tuple(schema.names), in_fields=tuple(names), target=select(schema, names)
    )
