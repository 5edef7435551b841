"""The partition of a row within a batch, which matters to operations by partition, and to parallelism."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import ClassVar

from attrs import evolve, frozen
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import IntegerType, StructField, StructType

from coordinators.values.attempt import TransactionAttempt
from trident_py.errors import TopologyError
from trident_py.graph.flow import Flow
from trident_py.graph.graph import NeedsSpark, Node, Operation, RowFlow
from trident_py.rows.schema import check_comparable, select, shown
from trident_py.spark.frames import column
from trident_py.spark.jobs import parallelism
from trident_py.worker.pipeline import RowPipeline

_COPY = "_copy"
_NUMBER = "_number"


class Partitioning(Enum):
    """The distribution of rows over partitions."""

    BY_FIELDS = "partition_by"
    """Rows with equal values are in the same partition."""

    BY_NUMBER = "partition"
    """An expression determines the partition of each row."""

    SHUFFLE = "shuffle"
    """Rows are distributed evenly."""

    GLOBAL = "global_"
    """All rows in one partition."""

    BROADCAST = "broadcast"
    """A copy of each row in every partition."""


@frozen(kw_only=True)
class Repartition(Operation):
    """Distributes a batch over partitions, each of which runs a task, even without rows.

    Attributes:
        fields: the fields of `Partitioning.BY_FIELDS`.
        number: the expression of `Partitioning.BY_NUMBER`.
        partitions: their number; None: as many as Spark runs tasks at once, or one for a broadcast.
    """

    title: str
    kind: Partitioning
    fields: tuple[str, ...] = ()
    number: Column | str = ""
    partitions: int | None = None

    @property
    def only_places(self) -> bool:
        """False for a broadcast, which adds rows."""
        return self.kind is not Partitioning.BROADCAST

    @property
    def spread_by(self) -> tuple[str, ...]:
        return self.fields

    def carrying(self) -> Repartition | None:
        return self if self.only_places else None

    def output(self, inputs: Sequence[StructType]) -> StructType:
        check_comparable(select(inputs[0], self.fields))
        return inputs[0]

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        flow = inputs[0]
        if self.kind is not Partitioning.BY_NUMBER:
            return flow.parted(self._spread)
        number = F.expr(self.number) if isinstance(self.number, str) else self.number
        frame = flow.native().withColumn(_NUMBER, number.cast("int"))
        numbered = Flow.of(frame, StructType([*flow.schema.fields, StructField(_NUMBER, IntegerType())]))
        placed = numbered.parted(self._spread)
        return evolve(placed, given=placed.frame.drop(_NUMBER), rows=RowPipeline(flow.schema))

    def on_rows(self, inputs: Sequence[RowFlow], batch_id: TransactionAttempt | None) -> RowFlow:
        """Return the rows unchanged: operations without Spark see no partitions."""
        if self.kind in {Partitioning.BROADCAST, Partitioning.BY_NUMBER}:  # copies of rows, and a Spark expression
            raise NeedsSpark(self.title)
        return inputs[0]

    def _spread(self, frame: DataFrame) -> DataFrame:
        match self.kind:
            case Partitioning.GLOBAL:
                return frame.repartition(1)
            case Partitioning.BROADCAST:
                count = self.partitions or 1
                copies = frame.crossJoin(frame.sparkSession.range(count).toDF(_COPY))
                return copies.repartitionById(count, F.col(_COPY).cast("int")).drop(_COPY)
        count = self.partitions or parallelism(frame.sparkSession)
        if self.kind is Partitioning.BY_NUMBER:
            return frame.repartitionById(count, F.coalesce(F.col(_NUMBER), F.lit(0)))
        return frame.repartition(count, *map(column, self.fields))


@frozen
class ParallelismHint(Operation):
    """The number of partitions of the repartitioning before it; if there is no repartitioning, one is added."""

    title: str
    partitions: int

    only_places: ClassVar[bool] = True
    keeps_partitions: ClassVar[bool] = True

    def carrying(self) -> ParallelismHint:
        return self

    def output(self, inputs: Sequence[StructType]) -> StructType:
        return inputs[0]

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """Return the flow unchanged: `hinted` has passed the hint to the repartitioning."""
        return inputs[0]

    def on_rows(self, inputs: Sequence[RowFlow], batch_id: TransactionAttempt | None) -> RowFlow:
        return inputs[0]


def parallelism_hint(title: str, partitions: object) -> ParallelismHint:
    """Check the number, and make the hint."""
    if type(partitions) is not int or partitions < 1:
        raise TopologyError(f"a number of partitions is an int from 1, not {shown(partitions)}")
    return ParallelismHint(title, partitions)


def is_placed(node: Node) -> bool:
    """Return whether an operation before it determines the partition of its rows."""
    if isinstance(node.operation, Repartition | ParallelismHint):
        return True
    return node.operation.keeps_partitions and any(map(is_placed, node.inputs))


def hinted(node: Node, partitions: int = 0) -> Node:
    """Return ``node`` with the number of partitions of each hint set in the repartitioning before it.

    Without one, a shuffle is added after the last operation that doesn't keep partitions. The greatest hint counts,
    as in Storm.
    """
    operation = node.operation
    if isinstance(operation, ParallelismHint):
        partitions = max(partitions, operation.partitions)
    if isinstance(operation, Repartition) and partitions:
        operation, partitions = evolve(operation, partitions=partitions), 0
    passed_on = partitions if operation.keeps_partitions else 0
    changed = evolve(node, operation=operation, inputs=tuple(hinted(each, passed_on) for each in node.inputs))
    if partitions and not passed_on:
        spread = Repartition(title=operation.title, kind=Partitioning.SHUFFLE, partitions=partitions)
        return Node(spread, (changed,), node.schema, node.label, node.phase)
    return changed


def hint_before(node: Node) -> int:
    """Return the number of partitions that hints before ``node`` set, back to its repartitioning; 0 without a hint."""
    hint = node.operation.partitions if isinstance(node.operation, ParallelismHint) else 0
    if not node.operation.keeps_partitions:
        return hint
    return max([hint, *map(hint_before, node.inputs)])


def fields_before(node: Node) -> tuple[str, ...]:
    """Return the fields by which the rows of ``node`` were partitioned; empty if by no field."""
    return fields_before(node.inputs[0]) if node.operation.keeps_partitions else node.operation.spread_by
