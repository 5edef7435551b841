"""``sample``: a share of the rows of each batch, the same rows in each replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from attrs import evolve, frozen
from pyspark.sql.types import LongType, StructField, StructType

from coordinators.values.attempt import TransactionAttempt
from trident_py.errors import TopologyError
from trident_py.graph.flow import Flow
from trident_py.graph.graph import Engine, Node, Operation, RowFlow, RowWise
from trident_py.rows.row import hashes_of_rows, mixed
from trident_py.rows.schema import arrow_schema, shown
from trident_py.worker.pipeline import RowPipeline, chunks

_HASH = "_row_hash"
_WORD = 2**64


@frozen(kw_only=True)
class Sample(Operation):
    """Keeps some rows: the choice depends only on their values, the transaction and the seed.

    Equal rows are numbered, and each is kept or dropped separately, so they must be in one partition.

    Attributes:
        is_tagged: whether the first field is the txid of a row; see `sharing`.
    """

    title: str
    fraction: float
    seed: int
    is_tagged: bool = False

    def engine(self, inputs: Sequence[Node]) -> Engine:
        return Engine.PYTHON

    def shared(self, field: StructField, source: StructType, is_rowwise: RowWise) -> Sample:
        """Sample each transaction by its own number."""
        return evolve(self, is_tagged=True)

    def output(self, inputs: Sequence[StructType]) -> StructType:
        return inputs[0]

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """Hash rows in place, bring equal hashes together, and sample there."""
        (flow,) = inputs
        schema = StructType([*flow.schema.fields, StructField(_HASH, LongType(), False)])
        hashed = flow.staged(HashStage(flow.rows, self.is_tagged), schema)
        return hashed.grouped([_HASH]).staged(self._drawing(batch_id), flow.schema)

    def on_rows(self, inputs: Sequence[RowFlow], batch_id: TransactionAttempt | None) -> RowFlow:
        """Process all rows once."""
        (flow,) = inputs
        return flow.staged(SampleStage(HashStage(flow.rows, self.is_tagged), self._drawing(batch_id)), flow.schema)

    def _drawing(self, batch_id: TransactionAttempt | None) -> DrawStage:
        txid = None if self.is_tagged else batch_id.txid if batch_id else 0
        return DrawStage(fraction=self.fraction, seed=self.seed, txid=txid)


@frozen
class HashStage:
    """Row operations that append a hash of each output row.

    Attributes:
        skips: whether the hash leaves out the first field.
    """

    rows: RowPipeline
    skips: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run over a partition, as ``DataFrame.mapInArrow`` requires."""
        schema = arrow_schema(self.rows.target)
        for batch in self.rows(batches) if self.rows.steps else chunks(batches):
            columns = [column.cast(kind) for column, kind in zip(batch.columns, schema.types, strict=True)]
            seen = pa.RecordBatch.from_arrays(columns, schema=schema)
            hashes = hashes_of_rows(seen.select(schema.names[1:]) if self.skips else seen).view(np.int64)
            yield pa.RecordBatch.from_arrays([*columns, pa.array(hashes)], [*schema.names, _HASH])


@frozen(kw_only=True)
class DrawStage:
    """Keeps or drops rows by their hashes, which are the last field, and drops that field.

    Attributes:
        fraction: the share that is kept, from 0 to 1.
        seed: a different seed keeps different rows.
        txid: the transaction; None: it is the first field.
    """

    fraction: float
    seed: int
    txid: int | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run over a partition; all rows with equal hashes are in the same partition."""
        copies = Counter[tuple[int, int]]()
        for batch in batches:
            kept = batch.filter(pa.array(self._is_kept(batch, copies)))
            yield kept.select(range(kept.num_columns - 1))

    def _is_kept(self, batch: pa.RecordBatch, copies: Counter[tuple[int, int]]) -> np.ndarray:
        hashes = batch.column(batch.num_columns - 1).to_numpy()
        txids = batch.column(0).to_numpy() if self.txid is None else np.full(len(hashes), self.txid)
        numbers = np.zeros(len(hashes), np.uint64)
        for position, key in enumerate(zip(txids.tolist(), hashes.tolist(), strict=True)):
            numbers[position] = copies[key]
            copies[key] += 1
        drawn: np.ndarray = hashes.view(np.uint64)
        for more in (np.full(len(hashes), self.seed % _WORD, np.uint64), txids.astype(np.uint64), numbers):
            drawn = mixed(drawn + more)
        kept: np.ndarray = (drawn >> np.uint64(11)) * 2.0**-53 < self.fraction
        return kept


@frozen
class SampleStage:
    """Both stages in one pass."""

    hashing: HashStage
    drawing: DrawStage

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run over all rows of a batch."""
        return self.drawing(self.hashing(batches))


def sample_of(title: str, fraction: object, seed: object) -> Sample:
    """Check the arguments, and make the operation.

    Raises:
        TopologyError: an argument is invalid.
    """
    if not (type(fraction) is int or type(fraction) is float) or not 0 <= fraction <= 1:  # NaN is rejected too
        raise TopologyError(f"a fraction is a number from 0 to 1, not {shown(fraction)}")
    if type(seed) is not int:
        raise TopologyError(f"a seed is an int, not {shown(seed)}")
    return Sample(title=title, fraction=fraction, seed=seed)
