"""Stages that find the rows of a spout over which a row function raises. Pickled into tasks.

`Sieve` finds the rows of a parked transaction, in one pass. `Quarantine` leaves such rows out of a batch, and
returns the output for the others. A chunk of rows that raises is tried again in halves, down to single rows. So few bad
rows cost little.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from attrs import frozen
from pyspark.sql import types as t

from coordinators.protocol.messages import FailureKind
from trident_py.rows.row import hashes_of_rows
from trident_py.rows.schema import arrow_schema, nullable
from trident_py.worker.counters import CountScope, count_scope, counting_if_passed
from trident_py.worker.failures import TaskFailed, TaskFailure, text_of
from trident_py.worker.pipeline import RowPipeline, Step, chunks, prepared, record_batch

POSITION = "_position"
FOUND = t.StructType([t.StructField(POSITION, t.LongType(), False)])
"""The fields of a sieve's output: the positions of the rows that fail."""


def positioned(rows: pa.Table) -> pa.Table:
    """Return ``rows`` with the position of each, from 0 on, as the last column."""
    return rows.append_column(
        pa.field(POSITION, pa.int64(), nullable=False), pa.array(range(rows.num_rows), pa.int64())
    )


@frozen
class Sieve:
    """Runs row functions over positioned rows of a spout, and returns the positions of those that make one raise.

    Attributes:
        pipelines: the row functions of each path that begins at the spout.
    """

    pipelines: Sequence[RowPipeline]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with count_scope(CountScope()):  # what they count is not of a transaction
            for batch in chunks(batches):
                rows, positions = batch.drop_columns([POSITION]), batch.column(POSITION).to_pylist()
                failing = {row for pipeline in self.pipelines for row in _failing(pipeline, rows)}
                found = pa.array([positions[row] for row in sorted(failing)], pa.int64())
                yield pa.RecordBatch.from_arrays([found], names=[POSITION])


def _failing(pipeline: RowPipeline, rows: pa.RecordBatch) -> Iterator[int]:
    with prepared(pipeline.user_code, pipeline.title):
        for first, made in _tried(pipeline, rows):
            if isinstance(made, Raised):
                yield first


@frozen
class Raised:
    """The result of a single row for which ``operation`` raised ``error``."""

    operation: str
    error: str


def _tried(pipeline: RowPipeline, rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch | Raised]]:
    """Yield the result of each part of ``rows``, with the position of its first row; a part that raises is one row."""
    waiting = [(0, rows)]
    while waiting:
        first, part = waiting.pop()
        made = _made(pipeline, part)
        if isinstance(made, Raised) and part.num_rows > 1:
            middle = part.num_rows // 2
            waiting += [(first + middle, part.slice(middle)), (first, part.slice(0, middle))]
            continue
        yield first, made


def _made(pipeline: RowPipeline, rows: pa.RecordBatch) -> pa.RecordBatch | Raised:
    begun: list[Step] = [pipeline.steps[0]]
    try:
        with counting_if_passed():
            return record_batch(pipeline.columns(rows, begun.append), pipeline.target, pipeline.title)
    except Exception as error:  # noqa: BLE001 - user code
        return Raised(begun[-1].title, text_of(error))


# --- quarantine -------------------------------------------------------------------------------------------------------

BAD = "_trident_bad_row"
"""The hidden column that is null for good rows."""

OPERATION, ERROR, TRIED = "_operation", "_error", "_tried"


def bad_fields(source: t.StructType) -> t.StructType:
    """Return the fields of `BAD`: the row, what raised, and in the last row of a task only how many rows it tried."""
    return t.StructType(
        [
            t.StructField("row", t.StructType(nullable(source))),
            t.StructField(OPERATION, t.StringType()),
            t.StructField(ERROR, t.StringType()),
            t.StructField(TRIED, t.LongType()),
        ]
    )


def hashes(rows: pa.Table | pa.RecordBatch, source: t.StructType) -> list[int]:
    """Return the hash of each of ``rows`` of these fields, as unsigned 64-bit numbers."""
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    typed = table.cast(arrow_schema(source)).combine_chunks().to_batches(2048)
    return [each for batch in typed for each in hashes_of_rows(batch).tolist()]


@frozen(kw_only=True)
class Quarantine:
    """Runs row functions over rows of a spout; a row that makes one raise becomes a bad row, and has no output.

    Attributes:
        pipeline: the row functions.
        fixed: the rows that are left out, each with its hash; any other row that makes a function raise fails the
            stage, which must see all rows of the batch. None: every row that makes a function raise is left out.
        most: the number of bad rows above which the stage fails.
        share: if less than 1, the share of all rows of the batch above which it fails, when all tasks have ended.
    """

    pipeline: RowPipeline
    fixed: Sequence[tuple[int, Raised]] | None
    most: int
    share: float = 1.0

    @property
    def target(self) -> t.StructType:
        """The fields of the output."""
        return t.StructType([*nullable(self.pipeline.target), t.StructField(BAD, bad_fields(self.pipeline.source))])

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the output for the good rows, then the bad rows, and last how many rows were tried.

        Raises:
            TaskFailed: there are too many bad rows, or other ones than the fixed ones.
        """
        bad: list[tuple[pa.RecordBatch, Raised]] = []
        left, tried = self._left(), 0
        with prepared(self.pipeline.user_code, self.pipeline.title):
            for chunk in chunks(batches):
                tried += chunk.num_rows
                for part, made in self._sifted(chunk, left):
                    if isinstance(made, Raised):
                        bad.append((part.take(pa.array([0], pa.int64())), made))  # a slice would keep its chunk
                        self._ensure_few(len(bad), made)
                    else:
                        yield self._output(made, pa.nulls(made.num_rows, self._bad_type))
        if bad:
            yield self._bad_rows([part for part, _ in bad], [raised for _, raised in bad])
        yield self._tally(tried)

    def _left(self) -> defaultdict[int, list[Raised]]:
        left = defaultdict[int, list[Raised]](list)
        for hashed, raised in reversed(self.fixed or ()):
            left[hashed].append(raised)
        return left

    def _sifted(
        self, chunk: pa.RecordBatch, left: defaultdict[int, list[Raised]]
    ) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch | Raised]]:
        if self.fixed is None:
            yield from ((chunk.slice(first, 1), made) for first, made in _tried(self.pipeline, chunk))
            return
        found = {}
        if left:
            known = hashes(chunk, self.pipeline.source)
            found = {place: left[each].pop() for place, each in enumerate(known) if left.get(each)}
            yield from ((chunk.slice(place, 1), raised) for place, raised in found.items())
            chunk = chunk.take(pa.array([place for place in range(chunk.num_rows) if place not in found], pa.int64()))
        if chunk.num_rows:
            yield chunk, record_batch(self.pipeline.columns(chunk), self.pipeline.target, self.pipeline.title)

    def _ensure_few(self, count: int, last: Raised) -> None:
        if count > self.most:
            raise too_many(f"more than {self.most} rows", last)

    @property
    def _bad_type(self) -> pa.DataType:
        return arrow_schema(self.target).field(BAD).type

    def _bad_rows(self, rows: Sequence[pa.RecordBatch], raised: Sequence[Raised]) -> pa.RecordBatch:
        fields = arrow_schema(t.StructType(nullable(self.pipeline.source)))
        table = pa.Table.from_batches(rows).cast(fields).combine_chunks()
        columns = [column.combine_chunks() for column in table.columns]
        texts = ([each.operation for each in raised], [each.error for each in raised])
        return self._only_bad(
            len(raised),
            pa.StructArray.from_arrays(columns, fields=list(fields)),
            *(pa.array(each, pa.string()) for each in texts),
            pa.nulls(len(raised), pa.int64()),
        )

    def _tally(self, tried: int) -> pa.RecordBatch:
        row, *texts, _ = (pa.nulls(1, field.type) for field in self._bad_type)
        return self._only_bad(1, row, *texts, pa.array([tried], pa.int64()))

    def _only_bad(self, count: int, *columns: pa.Array) -> pa.RecordBatch:
        names = self.pipeline.target.names
        nothing = [pa.nulls(count, field.type) for field in arrow_schema(self.pipeline.target)]
        bad = pa.StructArray.from_arrays(columns, fields=list(self._bad_type))
        return self._output(pa.RecordBatch.from_arrays(nothing, names=names), bad)

    def _output(self, made: pa.RecordBatch, bad: pa.Array) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([*made.columns, bad], schema=arrow_schema(self.target))


def too_many(how_many: str, last: Raised) -> TaskFailed:
    """Return the failure of a batch with too many bad rows, the last of which is ``last``."""
    text = (
        f"{how_many} make a row function raise, and bad_rows_max allows no more: this is rather the code than the rows."
        f" The last one: {' '.join(last.error.split())}. To fix this: mend the function, or raise bad_rows_max"
    )
    return TaskFailed(TaskFailure(kind=FailureKind.USER_CODE, text=text))
