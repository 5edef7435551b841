"""The rows that a spout emitted for one attempt, before Spark reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from operator import add
from typing import Any, TypeAlias

import pyarrow as pa
from attrs import define, field, frozen
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import NO_ROWS, Fingerprint
from trident_py.rows.row import hash_rows, hash_tables
from trident_py.rows.schema import arrow_schema
from trident_py.worker.counters import NodeCounts, summed
from trident_py.worker.failures import TaskFailed, TaskFailure, by_spout

CountsByNode: TypeAlias = Mapping[str, NodeCounts]
"""The counts while an attempt was processed, by the node of the function."""

CommitCounts: TypeAlias = Mapping[tuple[int, str], Mapping[str, int]]
"""The counts in a step of a commit, by transaction and output."""


@define
class TransactionCounts:
    """Stores the reported counts of attempts and commits. Pure."""

    _processed: dict[TransactionAttempt, dict[str, NodeCounts]] = field(factory=dict, init=False)
    _committed: dict[int, dict[str, Mapping[str, int]]] = field(factory=dict, init=False)

    def process(self, attempt: TransactionAttempt, counts: CountsByNode) -> None:
        """Record the counts of one of the jobs of ``attempt``.

        Several branches may have run one node, over the same rows. The counts from more tasks are used, because the
        other branch may have stopped reading early.
        """
        for node, told in counts.items():
            known = self._processed.setdefault(attempt, {})
            if node not in known or told.tasks > known[node].tasks:
                known[node] = told

    def commit(self, counts: CommitCounts) -> None:
        """Record the counts of a commit step, which may have failed.

        If an output has applied a transaction, the next attempt doesn't call it again. So its first counts are kept
        until others replace them.
        """
        for (txid, output), by_name in counts.items():
            if by_name:
                self._committed.setdefault(txid, {})[output] = by_name

    def of(self, attempt: TransactionAttempt) -> Mapping[str, int]:
        """Return the counts in ``attempt`` so far, by name."""
        processed = (each.by_name for each in self._processed.get(attempt, {}).values())
        return _total([*processed, *self._committed.get(attempt.txid, {}).values()])

    def cancel(self, attempt: TransactionAttempt) -> None:
        """Forget ``attempt``, which will never commit."""
        self._processed.pop(attempt, None)

    def close(self, attempt: TransactionAttempt) -> None:
        """Forget ``attempt``, which is committed and has published all its counts."""
        self._processed.pop(attempt, None)
        self._committed.pop(attempt.txid, None)


def _total(counts: Iterable[Mapping[str, int]]) -> Mapping[str, int]:
    return reduce(summed, counts, {})


@frozen
class Splits:
    """Input that Spark tasks read: one task calls ``read`` for each of ``splits``.

    Attributes:
        reports_offsets: reading finds out where the next batch begins; the generator returns that as a note. Then the
            batch is read once, by its own job.
        fingerprinting: the generators of ``read`` return a hash of their rows; the sum of these doesn't depend on how
            the batch is split.
    """

    splits: tuple[Any, ...]
    read: Callable[[Any], Iterator[pa.RecordBatch]]
    reports_offsets: bool = False
    fingerprinting: bool = False


HASHED_BY_READER = "read"
"""The kind of a fingerprint that consists of the hashes which ``read`` of `Splits` has returned."""


@frozen(eq=False)
class ReadRows:
    """Fingerprinting splits that the driver has read itself: the rows, and the sum of the returned hashes."""

    table: pa.Table
    hash: int

    @classmethod
    def of(cls, table: pa.Table, told: Iterable[int]) -> ReadRows:
        """Return the rows of splits, with one hash ``told`` by ``read`` for each."""
        return cls(table, sum(told) % 2**64)


@frozen
class ReportedOffsets:
    """The results of a batch that was read once, by its own job.

    Attributes:
        notes: the findings of its tasks, one of each.
        rows: how many rows they read.
    """

    notes: tuple[str, ...]
    rows: int
    fingerprint: Fingerprint | None = None


SMALL_ROWS = 4096
SMALL_BYTES = 1 << 20
"""The limits up to which a batch in memory shares a job with others: it costs less than the job itself."""


@frozen
class EmittedBatch:
    """Everything that a spout emitted for one attempt, in order.

    Attributes:
        chunks: Arrow tables, `ReadRows`, DataFrames and `Splits`.
        counts: the counts of its emitter so far.
        hashes_frames: whether the rows of its DataFrames are counted and hashed.
        verifies: called on the driver after the splits were read; each raises if the splits don't belong to the batch
            any more.
        is_sifted: whether these are not the spout's rows, but the output of row functions, or only the bad rows.
    """

    schema: StructType
    chunks: tuple[pa.Table | ReadRows | DataFrame | Splits, ...] = ()
    reported: ReportedOffsets | None = None
    counts: CountsByNode = field(factory=dict)
    hashes_frames: bool = False
    verifies: tuple[Callable[[], None], ...] = ()
    is_sifted: bool = False

    def verify(self) -> None:
        """Compare the source with the batch's definition, after its splits were read.

        Raises:
            TaskFailed: the source has changed, or doesn't answer.
        """
        for verify in self.verifies:
            try:
                verify()
            except BaseException as error:
                raise TaskFailed(TaskFailure.of(error, by_spout)) from error

    @property
    def is_read_once(self) -> bool:
        """Whether it must be read once, by its own job, before the next emission."""
        reports = any(isinstance(chunk, Splits) and chunk.reports_offsets for chunk in self.chunks)
        return reports or self.hashes_frames

    @property
    def is_settled(self) -> bool:
        """Whether reading it again returns the same rows, regardless of the spout's promise: they are in memory."""
        return all(isinstance(chunk, pa.Table) for chunk in self.sources)

    @property
    def is_small(self) -> bool:
        """Whether it is in memory, and too small to deserve its own job."""
        if self.known_rows > SMALL_ROWS or not self.is_settled:
            return False
        tables = [chunk for chunk in self.sources if isinstance(chunk, pa.Table)]
        # Whole buffers are measured at once. Only if they are larger, perhaps with rows of others, each part is.
        whole: int = sum(table.get_total_buffer_size() for table in tables)
        parts: int = whole if whole <= SMALL_BYTES else sum(table.nbytes for table in tables)
        return parts <= SMALL_BYTES

    @property
    def sources(self) -> tuple[pa.Table | DataFrame | Splits, ...]:
        """The sources of the rows of each part: memory, Spark, or reading tasks."""
        return tuple(chunk.table if isinstance(chunk, ReadRows) else chunk for chunk in self.chunks)

    @cached_property
    def table(self) -> pa.Table:
        """The rows of a batch in memory."""
        tables = [self._as_declared(chunk) for chunk in self.sources if isinstance(chunk, pa.Table)]
        return tables[0] if len(tables) == 1 else pa.concat_tables([self._declared.empty_table(), *tables])

    @cached_property
    def _declared(self) -> pa.Schema:
        return arrow_schema(self.schema)

    def _as_declared(self, chunk: pa.Table) -> pa.Table:
        return chunk if chunk.schema.equals(self._declared) else chunk.cast(self._declared)

    def fingerprint(self, read: Fingerprint | None = None) -> Fingerprint | None:
        """Return the fingerprint of all rows, given that of the rows that tasks have read; None if unknown.

        It depends only on what was emitted, never on what a job does with it: a replay may use another plan. The rows
        of DataFrames are not hashed, unless that was requested: a job reads only the columns that it needs.
        """
        has_frames = any(isinstance(chunk, DataFrame) for chunk in self.chunks)
        if self.is_sifted or (has_frames and not self.hashes_frames) or ((self.tasks or has_frames) and read is None):
            return None
        return self._in_memory + (read or NO_ROWS)

    @cached_property
    def _in_memory(self) -> Fingerprint:
        tables = [hash_rows(self._as_declared(chunk)) for chunk in self.chunks if isinstance(chunk, pa.Table)]
        read = [
            Fingerprint(chunk.table.num_rows, chunk.hash, HASHED_BY_READER)
            for chunk in self.chunks
            if isinstance(chunk, ReadRows)
        ]
        return reduce(add, [*tables, *read], NO_ROWS)

    @property
    def known_rows(self) -> int:
        """How many rows it has, as far as known before the job that reads it."""
        if self.reported:
            return self.reported.rows
        given: int = sum(chunk.num_rows for chunk in self.sources if isinstance(chunk, pa.Table))
        return given

    @property
    def tasks(self) -> int:
        """How many reports its reading tasks send."""
        return sum(len(chunk.splits) for chunk in self.chunks if isinstance(chunk, Splits))


def fingerprints_of(batches: Sequence[EmittedBatch]) -> list[Fingerprint | None]:
    """Return `EmittedBatch.fingerprint` of each batch of one spout, none of which tasks have read."""
    if all(not batch.is_sifted and [*map(type, batch.chunks)] == [pa.Table] for batch in batches):
        return [*hash_tables([batch.table for batch in batches])]
    return [batch.fingerprint() for batch in batches]
