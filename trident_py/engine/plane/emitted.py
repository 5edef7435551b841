"""What a spout emitted for one attempt, before Spark sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, reduce
from operator import add
from typing import Any

import pyarrow as pa
from attrs import field, frozen
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from coordinators.values.canonical import NO_ROWS, Fingerprint
from trident_py.engine.plane.counting import CountsByNode
from trident_py.rows.row_hash import hash_rows
from trident_py.rows.schema import arrow_schema
from trident_py.worker.failures import TaskFailed, TaskFailure, by_spout


@frozen
class Splits:
    """Input that Spark tasks read: one task calls ``read`` for each of ``splits``.

    Attributes:
        reports_offsets: what ``read`` finds out while it reads decides what the next batch is; its generator returns
            that as a note. Then it is read once, by a job of its own.
        fingerprinting: the generators that ``read`` gives return a number that tells their rows from others; the sum of
            these doesn't depend on how the batch is cut.
    """

    splits: tuple[Any, ...]
    read: Callable[[Any], Iterator[pa.RecordBatch]]
    reports_offsets: bool = False
    fingerprinting: bool = False


HASHED_BY_READER = "read"
"""The kind of a fingerprint that is made of what ``read`` of `Splits` has told of its rows."""


@frozen(eq=False)
class ReadRows:
    """Fingerprinting splits that the driver has read itself: the rows, and the sum of what ``read`` told of them."""

    table: pa.Table
    hash: int

    @classmethod
    def of(cls, table: pa.Table, told: Iterable[int]) -> ReadRows:
        """Return the rows of splits, of which ``read`` has ``told`` a number each."""
        return cls(table, sum(told) % 2**64)


@frozen
class ReportedOffsets:
    """What is known of a batch that was emitted by a job of its own.

    Attributes:
        notes: what its tasks found out, one of each.
        rows: how many rows they gave.
    """

    notes: tuple[str, ...]
    rows: int
    fingerprint: Fingerprint | None = None


SMALL_ROWS = 4096
SMALL_BYTES = 1 << 20
"""Up to here a batch that is in memory shares a job with others: it costs less than the job itself."""


@frozen
class EmittedBatch:
    """All that a spout emitted for one attempt, in the order it did.

    Attributes:
        chunks: Arrow tables, `ReadRows`, DataFrames and `Splits`.
        counts: what its emitter has counted so far.
        hashes_frames: whether the rows of its DataFrames are counted and hashed.
        verifies: called on the driver after the splits were read; each raises if they aren't the batch's any more.
    """

    schema: StructType
    chunks: tuple[pa.Table | ReadRows | DataFrame | Splits, ...] = ()
    reported: ReportedOffsets | None = None
    counts: CountsByNode = field(factory=dict)
    hashes_frames: bool = False
    verifies: tuple[Callable[[], None], ...] = ()

    def verify(self) -> None:
        """Compare the source with what the batch was defined for, after its splits were read.

        Raises:
            TaskFailed: they aren't the batch's any more, or the source doesn't answer.
        """
        for verify in self.verifies:
            try:
                verify()
            except BaseException as error:
                raise TaskFailed(TaskFailure.of(error, by_spout)) from error

    @property
    def is_read_once(self) -> bool:
        """Whether it has to be read once, by a job of its own, before anything else is emitted."""
        reports = any(isinstance(chunk, Splits) and chunk.reports_offsets for chunk in self.chunks)
        return reports or self.hashes_frames

    @property
    def is_settled(self) -> bool:
        """Whether reading it again gives the same rows, whatever the spout promises: they are in memory."""
        return all(isinstance(chunk, pa.Table) for chunk in self.sources)

    @property
    def is_small(self) -> bool:
        """Whether it is in memory, and too small for a job of its own to be worth it."""
        size = sum(chunk.nbytes for chunk in self.sources if isinstance(chunk, pa.Table))
        return self.is_settled and self.known_rows <= SMALL_ROWS and size <= SMALL_BYTES

    @property
    def sources(self) -> tuple[pa.Table | DataFrame | Splits, ...]:
        """Where the rows of each part come from: from memory, from Spark, or from tasks that read them."""
        return tuple(chunk.table if isinstance(chunk, ReadRows) else chunk for chunk in self.chunks)

    @property
    def table(self) -> pa.Table:
        """The rows of a batch that is in memory."""
        schema = arrow_schema(self.schema)
        tables = [chunk.cast(schema) for chunk in self.sources if isinstance(chunk, pa.Table)]
        return pa.concat_tables([schema.empty_table(), *tables])

    def fingerprint(self, read: Fingerprint | None = None) -> Fingerprint | None:
        """Return that of all rows, of which those that tasks have read have the fingerprint ``read``.

        None: nobody knows it.

        It follows from what was emitted, never from what a job does with it: a replay may take another way. Nobody
        hashes the rows of DataFrames, unless that was asked for: a job reads only those of their columns that it needs.
        """
        has_frames = any(isinstance(chunk, DataFrame) for chunk in self.chunks)
        if (has_frames and not self.hashes_frames) or ((self.tasks or has_frames) and read is None):
            return None
        return self._in_memory + (read or NO_ROWS)

    @cached_property
    def _in_memory(self) -> Fingerprint:
        schema = arrow_schema(self.schema)
        tables = [hash_rows(chunk.cast(schema)) for chunk in self.chunks if isinstance(chunk, pa.Table)]
        read = [
            Fingerprint(chunk.table.num_rows, chunk.hash, HASHED_BY_READER)
            for chunk in self.chunks
            if isinstance(chunk, ReadRows)
        ]
        return reduce(add, [*tables, *read], NO_ROWS)

    @property
    def known_rows(self) -> int:
        """How many rows it has as far as is known before the job that reads it."""
        if self.reported:
            return self.reported.rows
        given: int = sum(chunk.num_rows for chunk in self.sources if isinstance(chunk, pa.Table))
        return given

    @property
    def tasks(self) -> int:
        """How many reports its reading tasks make."""
        return sum(len(chunk.splits) for chunk in self.chunks if isinstance(chunk, Splits))
