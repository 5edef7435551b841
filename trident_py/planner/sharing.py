"""Small transactions that share one Spark job: an additional first field holds the txid of each row.

Row operations pass this field through without reading it, and it becomes the first key of every aggregation of a batch.
So the result is each transaction's own change, as if it had run alone. A branch is not shared if an operation reads a
batch as a whole, or depends on its partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import evolve, frozen
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructField, StructType

from trident_py.graph.graph import NeedsSpark, Node, RowFlow, RowWise
from trident_py.graph.naming import unused
from trident_py.graph.output import output_of
from trident_py.planner.plan import Branch
from trident_py.rows.schema import arrow_schema

_FIELD = "_transaction"
_ANY_FIELD = StructField(_FIELD, LongType(), False)


@frozen(kw_only=True)
class SharedBranch:
    """A branch that runs for several transactions at once.

    Attributes:
        spout: the spout that it reads.
        source: the fields of its input: the txid, then the fields of the spout.
        nothing: makes the change of a transaction without output rows; None: no row.
    """

    branch: Branch
    spout: str
    source: StructType
    nothing: Callable[[], Any] | None

    def together(self, batches: Mapping[int, pa.Table]) -> pa.Table:
        """Return the rows of these batches, each with its txid as the first field."""
        rows = pa.concat_tables(batches.values())
        txids = np.repeat(np.array([*batches], np.int64), [each.num_rows for each in batches.values()])
        return pa.table([pa.array(txids), *rows.columns], schema=arrow_schema(self.source))

    def build(self, frame: DataFrame) -> DataFrame:
        """Return the operations on the batches as DataFrame expressions."""
        return self.branch.build({self.spout: frame})

    def apart(self, made: pa.Table, txids: Collection[int]) -> dict[int, pa.Table]:
        """Return the change of each of ``txids`` from the combined output.

        Raises:
            RuntimeError: there are rows of another transaction.
        """
        numbers = made.column(0)
        made = made.drop_columns([made.schema.names[0]]).append_column(_FIELD, numbers).sort_by(_FIELD)
        rows = {each["values"]: each["counts"] for each in pc.value_counts(numbers).to_pylist()}
        if not rows.keys() <= set(txids):
            raise RuntimeError(f"a job for the transactions {sorted(txids)} gave rows of {sorted(map(str, rows))}")
        made = made.drop_columns([_FIELD])
        changes, offset = {}, 0
        for txid in sorted(txids):
            part = made.slice(offset, rows.get(txid, 0))
            offset += part.num_rows
            changes[txid] = part if part.num_rows or self.nothing is None else self._nothing(part.schema)
        return changes

    def _nothing(self, schema: pa.Schema) -> pa.Table:
        value = self.nothing() if self.nothing else None
        return pa.table([pa.array([value], schema.types[0])], schema=schema)


def shared(branch: Branch, is_rowwise: RowWise) -> SharedBranch | None:
    """Return ``branch`` for several transactions at once; None if they could affect each other."""
    output, nodes, sources = branch.output, branch.end.ancestry, branch.end.sources
    if output is None or len(sources) != 1:
        return None
    taken = {name for node in nodes for name in (node.schema or StructType()).names}
    field = StructField(unused(_FIELD, taken), LongType(), False)
    end = _shared(branch.end, field, is_rowwise)
    if end is None:
        return None
    return SharedBranch(
        branch=evolve(branch, end=end),
        spout=sources[0].tx_id,
        source=StructType([field, *sources[0].schema.fields]),
        nothing=output.output.nothing(output.source),
    )


def small_batches(end: Node) -> str:
    """Return how small batches of the branch that ends at ``end`` are processed, for people; runs nothing.

    A condition of Spark's is taken for one that depends on the row alone; only a session can tell.
    """
    if len(end.sources) != 1:
        return "each batch takes its own job, because several spouts or paths come together"
    on_the_way = [node for node in reversed(end.ancestry) if node.inputs and not node.operation.only_places]
    for node in on_the_way:
        source = node.inputs[0].schema
        if source is None or node.operation.shared(_ANY_FIELD, source, lambda *_: True) is None:
            return f"each batch takes its own job, because of {node.operation.title}"
    for node in on_the_way[:-1] if _passes_rows(end) else on_the_way:
        try:
            node.operation.on_rows([RowFlow.of((), each.schema) for each in node.inputs if each.schema], None)
        except NeedsSpark:
            return f"small batches share jobs; a resident task can't run {node.operation.title}"
    return "small batches share jobs, or go to a resident task"


def _passes_rows(node: Node) -> bool:
    output = output_of(node)
    return output is not None and output.passes_rows


def _shared(node: Node, field: StructField, is_rowwise: RowWise) -> Node | None:
    if node.operation.only_places:
        return _shared(node.inputs[0], field, is_rowwise)  # a single task processes all rows
    inputs = [each for each in (_shared(each, field, is_rowwise) for each in node.inputs) if each is not None]
    if len(inputs) < len(node.inputs):
        return None
    source = node.inputs[0].schema if node.inputs else None
    changed = node.operation.shared(field, source or StructType(), is_rowwise)
    return evolve(node, operation=changed, inputs=tuple(inputs)) if changed else None
