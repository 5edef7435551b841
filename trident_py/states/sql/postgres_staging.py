"""What a Spark task does to hand its part of a change to PostgreSQL; runs in Python workers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
from attrs import frozen
from pyspark import TaskContext
from pyspark.sql import DataFrame

from coordinators.secret import Secret
from trident_py.rows.row import column_values
from trident_py.states.keys import encode_keys
from trident_py.states.sql.postgres_client import GONE, Link, Target, explained
from trident_py.states.sql.postgres_table import Staging
from trident_py.worker.failures import by_state, telling

REPORTS = "task bigint, rows bigint, checksum string"
"""What a task tells the driver: which it was, how many rows it stored, and what PostgreSQL made of them."""

_ARROW = pa.schema([("task", pa.int64()), ("rows", pa.int64()), ("checksum", pa.string())])
_links: dict[tuple[int, Secret], Link] = {}


@frozen
class StagingTask:
    """Stores the rows of a partition and reports them; travels to the worker.

    Attributes:
        where: names the topology, the attempt and the table in errors.
    """

    target: Target
    staging: Staging
    where: str

    def over(self, frame: DataFrame) -> DataFrame:
        """The reports of the tasks that store the rows of ``frame``."""
        return frame.mapInArrow(telling(self, by_state), REPORTS)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run over a partition, as ``DataFrame.mapInArrow`` wants it."""
        context = TaskContext.get()
        task = context.taskAttemptId() if context else 0
        rows, checksum = self.staged(task, batches)
        yield pa.RecordBatch.from_pylist([{"task": task, "rows": rows, "checksum": checksum}], schema=_ARROW)

    def staged(self, task: int, batches: Iterator[pa.RecordBatch]) -> tuple[int, str]:
        """Store ``batches`` as the rows of ``task``; returns how many the database has, and their checksum."""
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return 0, ""
        with explained(self.where, self.target, GONE), link_of(self.target).transaction() as connection:
            cursor = connection.cursor()
            with cursor.copy(self.staging.copy) as copy:
                for batch in chain([first], filled):
                    for row in self._rows(batch, task):
                        copy.write_row(row)
            ((_, rows, checksum),) = cursor.execute(self.staging.sums, [[task]]).fetchall()
        return rows, checksum

    def _rows(self, batch: pa.RecordBatch, task: int) -> Iterator[Sequence[Any]]:
        columns = list(map(column_values, batch.columns))
        keys: list[Sequence[Any]] = list(zip(*columns[:-1], strict=True)) if columns[:-1] else [()] * batch.num_rows
        return ((*row, text, task) for row, text in zip(zip(*columns, strict=True), encode_keys(keys), strict=True))


def link_of(target: Target) -> Link:
    """This process's connection to the database, whatever states it stages for; one of a parent process isn't ours."""
    link = _links.setdefault((os.getpid(), target.dsn), Link(target))
    link.target = target  # under whose name newer leaders find it
    return link
