"""One operation of a request as a Spark job."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from trident_py.graph.flow import Flow
from trident_py.graph.graph import Operation
from trident_py.rows.row import rows_of
from trident_py.rows.schema import arrow_table
from trident_py.spark import jobs
from trident_py.spark.frames import frame_of_rows
from trident_py.worker.failures import task_failures_told
from trident_py.worker.steps import Values


@frozen
class RequestJobs:
    """Runs what only Spark can, over rows that are on the driver.

    Attributes:
        tag: that of the jobs.
        description: what Spark's UI says of them.
    """

    session: SparkSession
    tag: str
    description: str

    def __call__(self, operation: Operation, inputs: Sequence[tuple[Sequence[Values], StructType]]) -> Sequence[Values]:
        """Return the rows that ``operation`` gives, where its inputs have these rows and fields."""
        flows = [
            Flow.of(frame_of_rows(self.session, arrow_table(rows, schema), schema), schema) for rows, schema in inputs
        ]
        with jobs.tagged(self.session, self.tag, self.description), task_failures_told():
            return rows_of(operation.build(flows, None).native().toArrow())
