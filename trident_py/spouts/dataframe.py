"""`DataFrameSpout`: any source that Spark can read, in ranges of offsets from two functions."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias

from attrs import define, field, frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.batch_coordinator import CursorCoordinator
from coordinators.values.canonical import Json, canonical_json
from trident_py.errors import SpoutError, TopologyError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import TopologyContext
from trident_py.interfaces.spouts import Emitter, ITridentSpout
from trident_py.rows.schema import schema_of, shown
from trident_py.spouts.pace import Pace

Latest: TypeAlias = Callable[[Any], Json]
Read: TypeAlias = Callable[[Any, Any, Any], DataFrame]
UpTo: TypeAlias = Callable[[Any, Any, Any], Json]
"""A function of session, start and latest offset that returns the end of a batch."""

Range: TypeAlias = dict[str, Json]
"""``{"start": offset, "end": offset}``: the rows after the first offset, up to and including the second."""


class DataFrameSpout(ITridentSpout[Range]):
    """Emits the rows that ``read`` reads, in batches: of a table, a JDBC query, or any source with offsets.

    A batch is ``(start, end]``: all rows after one offset, up to and including another one. It must be exact: a range
    must have the same rows each time it is read. So ``latest`` must return only offsets up to which no row is added any
    more. The spout checks this: the rows of each batch are counted and hashed when they are read. If a range has other
    rows when it is read again, the topology ends with a `SpoutError`.

    All functions run in the driver's process, with the topology's session: ``latest`` and ``upto`` on one thread,
    ``read`` on another. If ``latest`` or ``upto`` raises, the source counts as unavailable, and they are called again.
    Each batch is read once, by its own Spark job, and kept by the executors until it is committed.

    Args:
        schema: the fields of the rows, a DDL string or a ``StructType``.
        latest: ``latest(spark)`` returns the offset up to which there are rows now, as a value that JSON can hold.
            None: there are no rows yet. While there is nothing new, it is called every 50 ms. If it is slow, it is
            called less often, and takes a tenth of the time.
        read: ``read(spark, start, end)`` returns the DataFrame of the rows after ``start``, up to and including
            ``end``.
        start: the offset after which the first batch begins. With None, ``read`` gets None as its first ``start``, and
            must read from the beginning of the source. Later runs continue after the last batch.
        upto: ``upto(spark, start, latest)`` returns the end of the next batch, if it should not have all rows: an
            offset after ``start``. None: a batch has all rows that there are.

    Raises:
        TopologyError: the schema is not valid, or a function can't be called.
        MetadataError: JSON can't hold ``start``.
    """

    coordinator_needs_spark: ClassVar[bool] = True
    gives_again: ClassVar[bool] = True

    def __init__(
        self,
        schema: str | StructType,
        latest: Callable[[SparkSession], Json],
        read: Callable[[SparkSession, Any, Any], DataFrame],
        *,
        start: Json = None,
        upto: Callable[[SparkSession, Any, Any], Json] | None = None,
    ) -> None:
        self.output_schema = schema_of(schema)
        for name, function in (("latest", latest), ("read", read), ("upto", upto)):
            if not callable(function) and (name != "upto" or function is not None):
                raise TopologyError(f"{name} must be a function, not {shown(function)}")
        canonical_json(start)
        self._latest, self._read, self._start, self._upto = latest, read, start, upto

    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> DataFrameCoordinator:
        return DataFrameCoordinator(tx_state_id, context.spark, self._latest, self._upto, self._start)

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> DataFrameEmitter:
        return DataFrameEmitter(tx_state_id, context.spark, self._read)


_END = "end"


@define
class DataFrameCoordinator(CursorCoordinator[Range]):
    """Defines consecutive ranges."""

    tx_state_id: str
    spark: SparkSession | None
    latest: Latest
    upto: UpTo | None
    start: Json
    clock: Callable[[], float] = time.monotonic
    _end: Json = field(init=False)
    _pace: Pace = field(init=False)
    _seen: list[Json] = field(factory=list, init=False)  # the offset that `is_ready` got, for the next definition

    def __attrs_post_init__(self) -> None:
        self._end, self._pace = self.start, Pace(self.clock)

    def restore(self, cursors: Mapping[str, Json]) -> None:
        """Continue after the last batch."""
        self._end = cursors.get(_END, self.start)

    def moved(self, metadata: Range) -> Mapping[str, Json]:
        """Return the end of the batch."""
        return {_END: metadata["end"]}

    def is_ready(self, txid: int) -> bool:
        """Return whether there are rows after the last batch."""
        if not self._pace.is_due():
            return False
        with self._pace.asking():
            self._seen = [self.latest(self.spark)]
        return self._seen[0] not in (None, self._end)

    def has_pending_input(self) -> bool:
        """Return whether ``latest`` was not called in the last `is_ready`, so that there may be rows."""
        return not self._pace.is_asking

    def initialize_transaction(self, txid: int, prev_metadata: Range | None, curr_metadata: Range | None) -> Range:
        """Return the range from the end of the previous batch to the latest offset, or to the result of ``upto``.

        Raises:
            SpoutError: ``upto`` returned an empty range, so no batch would ever contain the other rows.
        """
        if curr_metadata is not None:
            return curr_metadata
        start = prev_metadata["end"] if prev_metadata else self.start
        latest = self._seen.pop() if self._seen else self.latest(self.spark)
        end = start if latest is None else latest
        if self.upto is not None and end != start:
            end = self.upto(self.spark, start, latest)
            if end == start:
                raise SpoutError(
                    f"spout {self.tx_state_id!r}, transaction {txid}: upto returned {shown(end)}, where the batch "
                    f"begins, although there are rows up to {shown(latest)}; to fix this: return an offset after the "
                    f"start",
                    txid=txid,
                    spout=self.tx_state_id,
                )
        self._end = end
        return {"start": start, "end": end}


@frozen
class DataFrameEmitter(Emitter[Range]):
    """Emits the rows of a range."""

    tx_state_id: str
    spark: SparkSession | None
    read: Read

    def emit_batch(self, attempt: TransactionAttempt, metadata: Range, collector: TridentCollector) -> None:
        """Emit the rows of the DataFrame that ``read`` returns.

        Raises:
            SpoutError: it returned another object.
        """
        start, end = metadata["start"], metadata["end"]
        if start == end:
            return
        frame = self.read(self.spark, start, end)
        if not isinstance(frame, DataFrame):
            raise SpoutError(
                f"spout {self.tx_state_id!r}, attempt {attempt}: read({start!r}, {end!r}) returned {shown(frame)}; to "
                f"fix this: return a DataFrame with the fields that {self.tx_state_id!r} was declared with",
                attempt=attempt,
                spout=self.tx_state_id,
            )
        collector.emit_dataframe(frame, fingerprinting=True)
