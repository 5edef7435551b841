"""`TridentSpoutExecutor`: the wrapper around one spout's emitter, and the collector it emits into."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from attrs import define, field
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from coordinators.attempt import TransactionAttempt
from coordinators.canonical import Json, json_copy
from trident_py.collector import TridentCollector
from trident_py.context import Metrics
from trident_py.engine.emitted import EmittedBatch, Extents
from trident_py.errors import FailedException, SpoutError
from trident_py.schema import arrow_schema, arrow_table
from trident_py.spouts.base import Committing, Emitter

log = logging.getLogger(__name__)


@define
class SpoutCollector(TridentCollector):
    """Takes what an emitter emits for one attempt; wrong shapes and types are errors at the emitting call."""

    where: str
    schema: StructType
    metrics: Metrics
    _rows: list[Sequence[Any]] = field(factory=list, init=False)
    _parts: list[pa.Table | DataFrame | Extents] = field(factory=list, init=False)

    def emit(self, row: Sequence[Any]) -> None:
        """Emit one row."""
        names = self.schema.names
        if not isinstance(row, tuple | list):
            raise SpoutError(
                f"{self.where}: emitted {row!r}; emit a tuple, list or Row with a value for each of {names}"
            )
        if len(row) != len(names):
            raise SpoutError(f"{self.where}: emitted {len(row)} values, {row!r}, for the {len(names)} fields {names}")
        self._rows.append(row)

    def emit_arrow(self, data: pa.Table | pa.RecordBatch) -> None:
        """Emit the rows of Arrow data; its columns are cast where that loses nothing."""
        table = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
        expected = arrow_schema(self.schema)
        if sorted(table.column_names) != sorted(expected.names):
            raise SpoutError(
                f"{self.where}: emitted Arrow data with the fields {table.column_names}, declared are {expected.names}"
            )
        try:
            table = table.select(expected.names).cast(expected)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
            raise SpoutError(f"{self.where}: emitted Arrow data that is not of the declared types: {error}") from error
        self._flush()
        self._parts.append(table)

    def emit_dataframe(self, frame: DataFrame) -> None:
        """Emit the rows of a DataFrame with the declared fields, in any order."""
        declared = {field.name: field.dataType for field in self.schema.fields}
        given = {field.name: field.dataType for field in frame.schema.fields}
        if len(given) != len(frame.columns) or given != declared:
            raise SpoutError(
                f"{self.where}: emitted a DataFrame with {frame.schema.simpleString()}, "
                f"declared is {self.schema.simpleString()}"
            )
        self._flush()
        self._parts.append(frame if frame.columns == self.schema.names else frame.select(*self.schema.names))

    def emit_extents(self, extents: Sequence[Any], read: Callable[[Any], Iterator[pa.RecordBatch]]) -> None:
        """Emit rows that Spark tasks read, one task per extent."""
        self._flush()
        if extents:
            self._parts.append(Extents(tuple(extents), read))

    def report_error(self, error: BaseException) -> None:
        """Log ``error`` and count it; the attempt goes on."""
        log.error("%s: reported %s: %s", self.where, type(error).__name__, error)
        self.metrics.add("reported_errors")

    def collected(self) -> EmittedBatch:
        """All that was emitted."""
        self._flush()
        return EmittedBatch(self.schema, tuple(self._parts))

    def _flush(self) -> None:
        if not self._rows:
            return
        try:
            self._parts.append(arrow_table(self._rows, self.schema))
        except (TypeError, ValueError) as error:
            raise SpoutError(f"{self.where}: emitted a value that is not of its field's type: {error}") from error
        self._rows = []


@define
class TridentSpoutExecutor:
    """Drives one emitter through the three streams, and remembers which attempt of each transaction it emitted."""

    topology: str
    tx_id: str
    schema: StructType
    emitter: Emitter[Any]
    metrics: Metrics
    _emitted: dict[int, TransactionAttempt] = field(factory=dict, init=False)

    @property
    def is_committer(self) -> bool:
        """Whether the emitter takes part in the commit phase."""
        return isinstance(self.emitter, Committing)

    def emit_batch(self, attempt: TransactionAttempt, metadata: Json) -> EmittedBatch:
        """``$batch``: have the emitter emit, and give what it did."""
        collector = SpoutCollector(
            f"topology {self.topology!r}, spout {self.tx_id!r}, attempt {attempt}", self.schema, self.metrics
        )
        self.emitter.emit_batch(attempt, json_copy(metadata), collector)
        batch = collector.collected()
        self._emitted[attempt.txid] = attempt
        return batch

    def commit(self, attempt: TransactionAttempt) -> None:
        """``$commit``: of the attempt that was emitted last for this transaction, and no other."""
        if self._emitted.get(attempt.txid) != attempt:
            raise FailedException(f"received commit for different transaction attempt: {attempt}")
        if isinstance(self.emitter, Committing):
            self.emitter.commit(attempt)

    def success(self, attempt: TransactionAttempt) -> None:
        """``$success``: forget the attempts up to this one."""
        for txid in [txid for txid in self._emitted if txid <= attempt.txid]:
            del self._emitted[txid]
        self.emitter.success(attempt)
