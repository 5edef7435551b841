"""`DataSourceSpout`: every streaming reader of PySpark's Python Data Source API."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import signature
from itertools import chain, islice
from threading import Lock
from typing import Any, ClassVar

import pyarrow as pa
from attrs import define, field, frozen
from pyspark.errors import PySparkNotImplementedError
from pyspark.sql import Row
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    InputPartition,
    SimpleDataSourceStreamReader,
)
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import StructType

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.batch_coordinator import CursorCoordinator
from coordinators.values.canonical import Json
from trident_py.errors import SpoutError, TopologyError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import TopologyContext
from trident_py.interfaces.spouts import Emitter, ITridentSpout, Replay
from trident_py.rows.schema import arrow_schema, arrow_table, schema_of
from trident_py.spark.data_source import data_source
from trident_py.spouts.dataframe import Range
from trident_py.spouts.pace import Pace

CHUNK_ROWS = 10_000
"""The rows that a task converts at once."""

_END = "end"


class DataSourceSpout(ITridentSpout[Range]):
    """Emits the rows of a streaming reader for ``spark.readStream.format(…)``, without such a query.

    A batch is a range from one offset of the reader to another. The range is stored before a row is read, and a replay
    reads it again. A partitioned reader is read in Spark tasks, a simple one in the driver's process. The reader's
    ``commit(end)`` is called when the batch has succeeded, so a source never forgets rows that may be needed again.

    Args:
        source: the class, or ``"module:Class"``.
        schema: the fields of the rows, if the source takes them from the user. None: the source's own.
        replay: ``Replay.EXACT`` if a range always has the same rows. The API doesn't demand this, so a source is
            opaque unless you say so.
        **options: the source's options; never printed.

    Raises:
        TopologyError: the source can't be found, or has no streaming reader.
    """

    in_order: ClassVar[bool] = False

    def __init__(
        self,
        source: type[DataSource] | str,
        *,
        schema: str | StructType | None = None,
        replay: Replay = Replay.OPAQUE,
        **options: Any,
    ) -> None:
        self.replay = replay
        self._source = data_source(source, options)
        self.output_schema = schema_of(schema if schema is not None else _own_schema(self._source))
        self._reader = self._made()

    def __repr__(self) -> str:
        return f"DataSourceSpout({self._source.name()!r})"

    def details(self) -> Mapping[str, Json]:
        """Return the name of the source."""
        return {"source": self._source.name()}

    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> SourceCoordinator:
        """Make a coordinator with a new reader, which the next emitter shares: a reader may keep what it has seen."""
        self._reader = self._made()
        return SourceCoordinator(tx_state_id, self._reader)

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> SourceEmitter:
        return SourceEmitter(tx_state_id, self._reader)

    def _made(self) -> SourceReader:
        schema = schema_of(self.output_schema)
        try:
            return PartitionedReader(schema, self._source.streamReader(schema))
        except PySparkNotImplementedError:
            pass
        try:
            return SimpleReader(schema, self._source.simpleStreamReader(schema))
        except PySparkNotImplementedError:
            raise TopologyError(
                f"the data source {self._source.name()!r} has no streaming reader: neither streamReader nor "
                f"simpleStreamReader; use DataFrameSpout for a source that is read in batches"
            ) from None


@define
class SourceReader(ABC):
    """A reader that a coordinator and an emitter share; one thread uses it at a time, as in Spark.

    Attributes:
        schema: the fields of its rows.
        lock: held during each call of the reader.
    """

    schema: StructType
    lock: Lock = field(factory=Lock, init=False)

    @abstractmethod
    def first(self) -> Json:
        """Return the offset at which the first batch of all begins."""

    @abstractmethod
    def latest(self, start: Json, max_rows: int | None) -> Json:
        """Return the end of a batch that begins at ``start``; ``start`` itself: there are no rows."""

    @abstractmethod
    def emit(self, start: Json, end: Json, collector: TridentCollector) -> None:
        """Emit the rows of a range."""

    @abstractmethod
    def commit(self, end: Json) -> None:
        """Let the source forget the rows before ``end``."""

    def stop(self) -> None:
        """Free the reader's resources."""


@define
class PartitionedReader(SourceReader):
    """A reader with partitions, which tasks read."""

    reader: DataSourceStreamReader

    def first(self) -> Json:
        return self.reader.initialOffset()

    def latest(self, start: Json, max_rows: int | None) -> Json:
        ask: Callable[..., Any] = self.reader.latestOffset
        if len(signature(ask).parameters) < 2:  # sources for Spark before 4.2 are asked without a start
            found: Json = ask()
            return found
        limit = self.reader.getDefaultReadLimit() if max_rows is None else ReadMaxRows(max_rows)
        return ask(start, limit)  # type: ignore[no-any-return] # a dict by its contract

    def emit(self, start: Json, end: Json, collector: TridentCollector) -> None:
        partitions = list(self.reader.partitions(start, end))  # type: ignore[arg-type] # dicts by their contract
        if partitions:
            collector.emit_splits(partitions, PartitionRead(self.reader, self.schema))

    def commit(self, end: Json) -> None:
        self.reader.commit(end)  # type: ignore[arg-type]

    def stop(self) -> None:
        self.reader.stop()


@frozen
class PartitionRead:
    """Reads a partition in a task."""

    reader: DataSourceStreamReader
    schema: StructType

    def __call__(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition.

        Raises:
            ValueError: a row has other fields than the schema, or values of another type.
        """
        rows = iter(self.reader.read(partition))
        first = next(rows, None)
        if first is None:
            return
        given = chain([first], rows)
        if isinstance(first, pa.RecordBatch):
            expected = arrow_schema(self.schema)
            for batch in given:
                yield batch.select(expected.names).cast(expected)
            return
        while chunk := list(islice(given, CHUNK_ROWS)):
            yield from arrow_table(_values(chunk, self.schema), self.schema).to_batches()


@define
class SimpleReader(SourceReader):
    """A reader that reads in the driver's process, and learns the end of a batch by reading it.

    Attributes:
        read: the ranges that were read and are not committed, in their order.
    """

    reader: SimpleDataSourceStreamReader
    read: list[ReadRange] = field(factory=list, init=False)

    def first(self) -> Json:
        return self.reader.initialOffset()

    def latest(self, start: Json, max_rows: int | None) -> Json:
        rows, end = self.reader.read(start)  # type: ignore[arg-type]
        found = list(rows)
        if found and end == start:
            raise SpoutError(
                f"the reader {type(self.reader).__name__} has read {len(found)} rows from {start} on, and its offset "
                f"did not move: they would be read for ever; to fix this: return the offset after them"
            )
        if end != start:
            self.read.append(ReadRange(start, end, found))
        return end

    def emit(self, start: Json, end: Json, collector: TridentCollector) -> None:
        found = next((each for each in self.read if (each.start, each.end) == (start, end)), None)
        rows = self._read_again(start, end) if found is None else found.rows
        collector.emit_arrow(arrow_table(_values(rows, self.schema), self.schema))

    def commit(self, end: Json) -> None:
        done = next((number for number, each in enumerate(self.read, 1) if each.end == end), 0)
        del self.read[:done]
        self.reader.commit(end)  # type: ignore[arg-type]

    def _read_again(self, start: Json, end: Json) -> list[Any]:
        try:
            return list(self.reader.readBetweenOffsets(start, end))  # type: ignore[arg-type]
        except PySparkNotImplementedError as error:
            raise SpoutError(
                f"the reader {type(self.reader).__name__} can't read the rows from {start} to {end} again, which "
                f"another process has read; to fix this: implement readBetweenOffsets"
            ) from error


@frozen
class ReadRange:
    """The rows that a simple reader has read."""

    start: Json
    end: Json
    rows: list[Any]


@define
class SourceCoordinator(CursorCoordinator[Range]):
    """Defines consecutive ranges of a reader's offsets."""

    tx_state_id: str
    reader: SourceReader
    _end: Json = field(default=None, init=False)
    _pace: Pace = field(factory=Pace, init=False)
    _seen: list[Json] = field(factory=list, init=False)  # the end that `is_ready` got, for the next definition
    _max_rows: int | None = field(default=None, init=False)

    def restore(self, cursors: Mapping[str, Json]) -> None:
        """Continue after the last batch."""
        self._end = cursors.get(_END)

    def moved(self, metadata: Range) -> Mapping[str, Json]:
        """Return the end of the batch."""
        return {_END: metadata["end"]}

    def limit_batches(self, max_rows: int | None) -> None:
        """Ask readers that can limit a batch for so many rows."""
        self._max_rows = max_rows

    def is_ready(self, txid: int) -> bool:
        """Return whether the reader has rows after the last batch."""
        if self._seen:
            return True
        if not self._pace.is_due():
            return False
        with self.reader.lock, self._pace.asking():
            start = self._begin()
            end = self.reader.latest(start, self._max_rows)
        if end == start:
            return False
        self._seen = [end]
        self._pace.ask_at_once()
        return True

    def has_pending_input(self) -> bool:
        """Return whether the reader was not asked in the last `is_ready`, so that there may be rows."""
        return not self._pace.is_asking

    def initialize_transaction(self, txid: int, prev_metadata: Range | None, curr_metadata: Range | None) -> Range:
        if curr_metadata is not None:
            return curr_metadata
        with self.reader.lock:
            start = self._begin()
            end = self._seen.pop() if self._seen else self.reader.latest(start, self._max_rows)
        self._end = end
        return {"start": start, "end": end}

    def close(self) -> None:
        with self.reader.lock:
            self.reader.stop()

    def _begin(self) -> Json:
        if self._end is None:
            self._end = self.reader.first()
        return self._end


@define
class SourceEmitter(Emitter[Range]):
    """Emits the rows of ranges, and commits their ends to the source."""

    tx_state_id: str
    reader: SourceReader
    _ends: dict[int, Json] = field(factory=dict, init=False)

    def emit_batch(self, attempt: TransactionAttempt, metadata: Range, collector: TridentCollector) -> None:
        start, end = metadata["start"], metadata["end"]
        self._ends[attempt.txid] = end
        if start != end:
            with self.reader.lock:
                self.reader.emit(start, end, collector)

    def success(self, attempt: TransactionAttempt) -> None:
        """Commit the end of the batch, if this process has emitted it; else that of a later one includes it."""
        if attempt.txid in self._ends:
            with self.reader.lock:
                self.reader.commit(self._ends.pop(attempt.txid))


def _own_schema(source: DataSource) -> str | StructType:
    try:
        return source.schema()
    except PySparkNotImplementedError:
        raise TopologyError(f"the data source {source.name()!r} has no fields of its own: give schema=") from None


def _values(rows: Iterable[Any], schema: StructType) -> list[tuple[Any, ...]]:
    """Return rows as tuples in the order of the fields; a Row of PySpark has its values by name."""
    return [
        tuple(row[name] for name in schema.names) if isinstance(row, Row) and hasattr(row, "__fields__") else tuple(row)
        for row in rows
    ]
