"""A spout with rows that are given in its declaration: for tests and first steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pyarrow as pa
from attrs import frozen
from pyspark.sql.types import StructType

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.batch_coordinator import BatchCoordinator
from trident_py.errors import SpoutError, TopologyError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import TopologyContext
from trident_py.interfaces.spouts import Emitter, ITridentSpout
from trident_py.rows.schema import arrow_table, schema_of, shown


class FixedBatchSpout(ITridentSpout[list[int]]):
    """Emits ``rows``, ``max_batch_size`` at a time, once or in a cycle. Storm's class.

    The rows of a transaction depend only on its txid, and txids are shared by the spouts of a topology. Transaction t
    has the rows from ``(t - 1) * max_batch_size`` on. With ``cycle``, the last row ends its batch, and the next batch
    begins with the first row.

    Raises:
        TopologyError: a row has the wrong number of values or a value of the wrong type, or the size is not valid.
    """

    gives_again: ClassVar[bool] = True

    def __init__(
        self, schema: str | StructType, max_batch_size: int, *rows: Sequence[Any], cycle: bool = False
    ) -> None:
        self.output_schema = schema_of(schema)
        if type(max_batch_size) is not int or max_batch_size < 1:
            raise TopologyError(f"max_batch_size must be a whole number of at least 1, not {shown(max_batch_size)}")
        self._rows = _table(rows, self.output_schema)
        self._batches = _Batches(len(rows), max_batch_size, cycle)

    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> FixedCoordinator:
        """Return a coordinator that defines batches by the first row and the one after the last."""
        return FixedCoordinator(tx_state_id, self._batches)

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> FixedEmitter:
        """Return an emitter of the rows in memory."""
        return FixedEmitter(tx_state_id, self._rows)


def _table(rows: Sequence[Any], schema: StructType) -> pa.Table:
    for row in rows:
        if not isinstance(row, tuple | list) or len(row) != len(schema.fields):
            raise TopologyError(
                f"{shown(row)} is no row of the fields {schema.names}: give a tuple with a value for each"
            )
    try:
        return arrow_table(rows, schema)
    except (TypeError, ValueError) as error:
        raise TopologyError(str(error)) from error


@frozen
class _Batches:
    """The rows of each transaction, as a range."""

    rows: int
    size: int
    cycle: bool

    def split(self, txid: int) -> list[int]:
        """Return the first row and the one after the last."""
        number = txid - 1
        if self.cycle and self.rows:
            number %= -(-self.rows // self.size)
        return [min(self.rows, number * self.size), min(self.rows, (number + 1) * self.size)]


class FixedCoordinator(BatchCoordinator[list[int]]):
    """Ready as long as there are rows left."""

    def __init__(self, tx_state_id: str, batches: _Batches) -> None:
        self._tx_state_id = tx_state_id
        self._batches = batches

    def is_ready(self, txid: int) -> bool:
        """Return whether the transaction has rows."""
        start, end = self._batches.split(txid)
        return start < end

    def initialize_transaction(
        self, txid: int, prev_metadata: list[int] | None, curr_metadata: list[int] | None
    ) -> list[int]:
        """Return the split of the txid.

        Raises:
            SpoutError: the previous transaction had other rows, so rows would be skipped or repeated.
        """
        if curr_metadata is not None:
            return curr_metadata
        expected = self._batches.split(txid - 1)
        if prev_metadata is not None and prev_metadata != expected:
            raise SpoutError(
                f"spout {self._tx_state_id!r}: transaction {txid - 1} had the rows {prev_metadata}, it would now have "
                f"{expected}: rows, max_batch_size or cycle were changed; to fix this: change them back, or `trident "
                f"reset` the topology",
                txid=txid,
                spout=self._tx_state_id,
            )
        return self._batches.split(txid)


class FixedEmitter(Emitter[list[int]]):
    """Emits slices of the rows."""

    def __init__(self, tx_state_id: str, rows: pa.Table) -> None:
        self._tx_state_id = tx_state_id
        self._rows = rows

    def emit_batch(self, attempt: TransactionAttempt, metadata: list[int], collector: TridentCollector) -> None:
        """Emit the rows of the split."""
        start, end = metadata
        if end > self._rows.num_rows:
            raise SpoutError(
                f"spout {self._tx_state_id!r}, attempt {attempt}: was defined as the rows {start} to {end}, there are "
                f"only {self._rows.num_rows} now; to fix this: give it the same rows as before, or `trident reset` "
                f"the topology",
                attempt=attempt,
                spout=self._tx_state_id,
            )
        if start < end:
            collector.emit_arrow(self._rows.slice(start, end - start))
