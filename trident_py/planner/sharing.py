"""How several small transactions share one Spark job: one more field in front says which of them a row is of.

The field, the txid, is carried along by row operations, which don't see it, and is the first
key of whatever aggregates a batch. So what comes out is each transaction's own change, as if it had been alone; a
branch with anything that looks at a batch as a whole, or at its partitions, is not shared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from attrs import evolve, frozen
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import LongType, StructField, StructType

from trident_py.graph.aggregation import Aggregation, Scope
from trident_py.graph.graph import Node, Source
from trident_py.graph.outputs import AggregateState, UpdatedState, unused
from trident_py.graph.partitioning import ParallelismHint, Partitioning, Repartition
from trident_py.graph.rowwise import ColumnFilter, RowOperation
from trident_py.interfaces.operations import CombinerAggregator, ReducerAggregator
from trident_py.operations.builtin import NativeAggregator
from trident_py.planner.commits import Committer, PartitionPersist, PersistentAggregate
from trident_py.planner.plan import Branch, ancestry
from trident_py.rows.schema import arrow_schema

_FIELD = "_transaction"


@frozen(kw_only=True)
class SharedBranch:
    """A branch as it is run for several transactions at once.

    Attributes:
        spout: the one that it reads.
        source: the fields of its input: the txid, and those of the spout.
        nothing: the change of a transaction of which nothing came out; None: no row.
    """

    branch: Branch
    spout: str
    source: StructType
    nothing: Callable[[], Any] | None

    def together(self, batches: Mapping[int, pa.Table]) -> pa.Table:
        """The rows of these batches, each with its txid in front."""
        schema = arrow_schema(self.source)
        marked = [
            pa.table([pa.repeat(pa.scalar(txid, pa.int64()), rows.num_rows), *rows.columns], schema=schema)
            for txid, rows in batches.items()
        ]
        return pa.concat_tables(marked)

    def build(self, frame: DataFrame) -> DataFrame:
        """What is done to the batches, as DataFrame expressions."""
        return self.branch.build({self.spout: frame})

    def apart(self, made: pa.Table, txids: Collection[int]) -> dict[int, pa.Table]:
        """What came out of the batch of each of ``txids``.

        Raises:
            RuntimeError: there are rows of another one.
        """
        numbers = made.column(0)
        made = made.drop_columns([made.schema.names[0]]).append_column(_FIELD, numbers).sort_by(_FIELD)
        rows = {each["values"]: each["counts"] for each in pc.value_counts(numbers).to_pylist()}
        if not rows.keys() <= set(txids):
            raise RuntimeError(f"a job for the transactions {sorted(txids)} gave rows of {sorted(map(str, rows))}")
        changes, offset = {}, 0
        for txid in sorted(txids):
            part = made.slice(offset, rows.get(txid, 0)).drop_columns([_FIELD])
            offset += part.num_rows
            changes[txid] = part if part.num_rows or self.nothing is None else self._nothing(part.schema)
        return changes

    def _nothing(self, schema: pa.Schema) -> pa.Table:
        value = self.nothing() if self.nothing else None
        return pa.table([pa.array([value], schema.types[0])], schema=schema)


RowWise: TypeAlias = Callable[[Column | str, StructType], bool]
"""Whether a condition depends on nothing but a row of these fields."""


def shared(branch: Branch, is_rowwise: RowWise) -> SharedBranch | None:
    """``branch`` for several transactions at once; None where they could get in each other's way."""
    committer, nodes = branch.committer, ancestry(branch.end)
    sources = [node.operation for node in nodes if isinstance(node.operation, Source)]
    if not isinstance(committer, PersistentAggregate | PartitionPersist) or len(sources) != 1:
        return None
    taken = {name for node in nodes for name in (node.schema or StructType()).names}
    name = unused(_FIELD, taken)
    end = _shared(branch.end, name, is_rowwise)
    if end is None:
        return None
    return SharedBranch(
        branch=evolve(branch, end=end),
        spout=sources[0].tx_id,
        source=_marked(sources[0].schema, name),
        nothing=_zero(committer),
    )


def _zero(committer: Committer) -> Callable[[], Any] | None:
    """Where there is one value in all, nothing is also a change."""
    if not isinstance(committer, PersistentAggregate) or committer.keys.fields:
        return None
    return committer.aggregator.zero if isinstance(committer.aggregator, CombinerAggregator) else None


def _shared(node: Node, name: str, is_rowwise: RowWise) -> Node | None:
    operation = node.operation
    if isinstance(operation, ParallelismHint) or (
        isinstance(operation, Repartition) and operation.kind is not Partitioning.BROADCAST
    ):
        return _shared(node.inputs[0], name, is_rowwise)  # one task does it all
    inputs = [_shared(each, name, is_rowwise) for each in node.inputs]
    changed: Any = None
    match operation:
        case Source():
            changed = evolve(operation, schema=_marked(operation.schema, name))
        case RowOperation():
            changed = evolve(operation, carried=True)
        case ColumnFilter(condition=condition) if is_rowwise(condition, node.schema or StructType()):
            changed = operation
        case Aggregation(scope=Scope.BATCH) if operation.keys and _by_key(operation):
            changed = _keyed(operation, name, node.inputs[0])
        case AggregateState() if _by_key(operation.aggregation):
            changed = evolve(operation, aggregation=_keyed(operation.aggregation, name, node.inputs[0]))
        case UpdatedState():
            changed = evolve(operation, in_fields=(name, *operation.in_fields))
    known = [each for each in inputs if each is not None]
    return evolve(node, operation=changed, inputs=tuple(known)) if changed and len(known) == len(inputs) else None


def _marked(schema: StructType, name: str) -> StructType:
    return StructType([StructField(name, LongType(), False), *schema.fields])


def _by_key(aggregation: Aggregation) -> bool:
    # What an Aggregator is told of its batch would be of all of them.
    return all(isinstance(part.aggregator, CombinerAggregator | ReducerAggregator) for part in aggregation.parts)


def _keyed(aggregation: Aggregation, name: str, source: Node) -> Aggregation:
    seen = tuple((source.schema or StructType()).names)  # an aggregator that sees all fields doesn't see the new one
    parts = [
        part if isinstance(part.aggregator, NativeAggregator) else evolve(part, in_fields=part.in_fields or seen)
        for part in aggregation.parts
    ]
    return evolve(aggregation, keys=(name, *aggregation.keys), parts=tuple(parts))
