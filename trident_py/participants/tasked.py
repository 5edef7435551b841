"""States that user code changes in Spark's tasks, in the commit phase, as participants."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from attrs import define, evolve, frozen
from pyspark.sql import DataFrame
from pyspark.sql.types import IntegerType, StructField, StructType

from trident_py.interfaces.sinks import SinkTransaction
from trident_py.interfaces.states import Emitted, StateChange, TaskedState
from trident_py.participants.context import CommitSpark
from trident_py.participants.participant import Collect
from trident_py.participants.states import (
    AggregateParticipant,
    Staged,
    StateParticipant,
    UpdateParticipant,
    in_key_order,
)
from trident_py.rows.row import columns_in
from trident_py.rows.schema import arrow_table
from trident_py.spark.frames import column, in_order, kept, map_batches, rows_of_frame
from trident_py.spark.jobs import parallelism
from trident_py.states.changes import rows_emitted
from trident_py.worker.failures import by_state

PART = "_part"
"""The hidden column for the number of a row's partition."""

_PART = StructField(PART, IntegerType(), False)


@frozen
class NumberedParts:
    """Adds the number of its partition to each row, in a task.

    Attributes:
        change: decides the partition of a row.
        parts: the number of partitions.
    """

    change: StateChange
    parts: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run over a partition, as a function for ``DataFrame.mapInArrow``."""
        for batch in batches:
            numbers = self.change.partitions(pa.Table.from_batches([batch]), self.parts)
            column = pa.array(numbers, pa.int32())
            yield batch.append_column(pa.field(PART, pa.int32(), nullable=False), column)


def parted(frame: DataFrame, change: StateChange, parts: int) -> DataFrame:
    """Bring the rows into so many partitions, as ``change`` divides them; each keeps the order of the batch."""
    if parts == 1:
        return in_order(frame, lambda given: given.repartition(1))
    target = StructType([*frame.schema.fields, _PART])
    numbered = map_batches(frame, frame.columns, NumberedParts(change, parts), target, classify=by_state)
    return in_order(numbered, lambda given: given.repartitionById(parts, column(PART))).drop(PART)


@frozen
class KeptRows:
    """The receipt of a batch that changes the state in the commit: its rows, which the executors keep."""

    frame: DataFrame
    change: StateChange


@define(kw_only=True, slots=False)  # the two below have another base with slots
class TaskedParticipant(StateParticipant):
    """A state that tasks change in the commit phase, after the transaction before; the driver commits.

    The rows of a small batch are on the driver, and change the state there.

    Attributes:
        spark: runs the job.
    """

    state: TaskedState[Any]
    spark: CommitSpark

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.capabilities = evolve(
            self.capabilities, takes_groups=False, takes_groups_shared=False, stages_in_commit=True, reads_all=False
        )

    def prepare(self, tx: SinkTransaction, frame: DataFrame, collect: Collect) -> KeptRows:
        """Keep the rows of the batch in the executors, by partition."""
        parts = self.parts_of(frame)
        change = self.change_of(tx, parts)
        rows = kept(parted(frame, change, parts))
        return KeptRows(rows, self.informed(change, rows, collect))

    def before_commit(self, tx: SinkTransaction, receipt: Any) -> Any:
        """Let tasks change the values as of the transaction before; return their reports."""
        if not isinstance(receipt, KeptRows):
            return receipt
        self._ensure_wanted()
        with self.spark.running(tx.attempt):
            reports = self.state.update(tx, receipt.change, receipt.frame)
            return Staged(rows_of_frame(reports) if reports is not None else pa.table({}))

    def receipt_rows(self, receipt: Any) -> int | None:
        """Return None for a large batch: what it changes is known in its commit."""
        return None if isinstance(receipt, KeptRows) else super().receipt_rows(receipt)

    def abort(self, tx: SinkTransaction, receipt: Any) -> None:
        """Remove the staged rows, also of an attempt that didn't finish."""
        if isinstance(receipt, KeptRows):
            self.state.discard(tx)

    def _prepared_change(self, tx: SinkTransaction, receipt: Any) -> list[tuple[Any, ...]]:
        if not isinstance(receipt, Staged):
            return super()._prepared_change(tx, receipt)
        *reports, emitted = columns_in(receipt.reports)
        self.state.replace_staged(list(zip(*reports, strict=True)))
        found = [Emitted(**each._asdict()) for several in emitted for each in several or ()]
        return self.emitted(tx, sorted(found, key=lambda each: each.place))

    @abstractmethod
    def change_of(self, tx: SinkTransaction, parts: int) -> StateChange:
        """Return the effect of the rows of ``tx``, in so many partitions."""

    def informed(self, change: StateChange, rows: DataFrame, collect: Collect) -> StateChange:
        """Return ``change`` with the facts about all rows of the batch that it needs in each partition."""
        return change

    def emitted(self, tx: SinkTransaction, emitted: Sequence[Emitted]) -> list[tuple[Any, ...]]:
        """Return the new values that tasks have emitted."""
        return []

    @abstractmethod
    def parts_of(self, frame: DataFrame) -> int:
        """Return the number of partitions of the state for the rows of ``frame``."""


@define(kw_only=True)
class TaskedAggregateParticipant(TaskedParticipant, AggregateParticipant):
    """``persistent_aggregate`` in tasks: as many partitions of keys as Spark runs tasks at once."""

    def change_of(self, tx: SinkTransaction, parts: int) -> StateChange:
        return self.change

    def parts_of(self, frame: DataFrame) -> int:
        return parallelism(frame.sparkSession) if self.keys else 1

    def emitted(self, tx: SinkTransaction, emitted: Sequence[Emitted]) -> list[tuple[Any, ...]]:
        """Return the new values in the order that they have on the driver: that of their keys."""
        if not emitted:
            return []
        rows = arrow_table(rows_emitted(emitted, self.output), self.output)
        return list(zip(*columns_in(in_key_order(rows, self.keys)), strict=True))


@define(kw_only=True)
class TaskedUpdateParticipant(TaskedParticipant, UpdateParticipant):
    """``partition_persist`` in tasks: the updater is called for each partition, even without rows."""

    def change_of(self, tx: SinkTransaction, parts: int) -> StateChange:
        return self.change(tx.attempt)

    def emitted(self, tx: SinkTransaction, emitted: Sequence[Emitted]) -> list[tuple[Any, ...]]:
        return rows_emitted(emitted, self.output)

    def parts_of(self, frame: DataFrame) -> int:
        return self.parts
