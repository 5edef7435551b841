"""`BadRows`: the rows of a spout that branches leave out, because a row function raised over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from attrs import frozen
from pyspark.sql import types as t

from coordinators.values.attempt import TransactionAttempt
from trident_py.errors import TopologyError
from trident_py.graph.flow import Flow
from trident_py.graph.graph import Engine, Node, Operation
from trident_py.rows.schema import append, nullable
from trident_py.worker.pipeline import RowPipeline

DEAD_LETTERS = t.StructType(
    [
        t.StructField("txid", t.LongType()),
        *(t.StructField(name, t.StringType()) for name in ("branch", "spout", "operation", "error", "row")),
        t.StructField("letters", t.LongType()),
    ]
)
"""The fields of bad rows that trident_py itself keeps.

``row`` is a JSON object. ``letters`` is how many equal ones there are; negative if they are kept no longer.
"""


@frozen
class BadRows(Operation):
    """``on_error``: the bad rows of each branch through its input.

    Attributes:
        spout: the fields of the rows.
        yields: whether branches with another ``on_error`` are left to that.
        as_letters: whether the fields are `DEAD_LETTERS`; otherwise they are those of the spout, and more.
    """

    title: str
    spout: t.StructType
    yields: bool = False
    as_letters: bool = False

    collects: ClassVar[bool] = True

    @property
    def fields(self) -> t.StructType:
        """The fields of the spout, then what raised; or those of dead letters."""
        if self.as_letters:
            return DEAD_LETTERS
        return append(
            t.StructType(nullable(self.spout)),
            t.StructType(
                [
                    t.StructField("_error", t.StringType()),
                    t.StructField("_operation", t.StringType()),
                    t.StructField("_txid", t.LongType()),
                ]
            ),
        )

    def engine(self, inputs: Sequence[Node]) -> Engine:
        """Return the engine of the row functions that raise."""
        return Engine.PYTHON

    def origin(self, inputs: Sequence[t.StructType]) -> t.StructType:
        return self.fields

    def output(self, inputs: Sequence[t.StructType]) -> t.StructType:
        return self.fields

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """Raise an error: the planner starts from the rows that were left out."""
        raise AssertionError(f"{self.title} is collected, not built")


def bad_rows_of(title: str, node: Node, *, as_letters: bool = False) -> BadRows:
    """Return the operation on the stream of ``node``.

    Raises:
        TopologyError: something else than row functions is between the spout and this stream.
    """
    before = node
    while (source := before.source) is None:
        if len(before.inputs) != 1 or before.operation.fused(RowPipeline(before.inputs[0].schema or _UNKNOWN)) is None:
            raise TopologyError(
                f"it is about rows of one spout, and {before.operation.title} is not a row function: call on_error() "
                f"before it, on a stream that has only map, flat_map, filter, each, peek or project behind its spout"
            )
        (before,) = before.inputs
    return BadRows(title, source.schema, as_letters=as_letters)


_UNKNOWN = t.StructType()
