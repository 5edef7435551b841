"""Collectors: the objects into which user code emits rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class TridentCollector(ABC):
    """Takes rows from user code. A spout's collector also takes Arrow data and DataFrames."""

    @abstractmethod
    def emit(self, row: Sequence[Any]) -> None:
        """Emit one row: a tuple, list or Row with a value per output field.

        Raises:
            TypeError: ``row`` is something else.
            ValueError: it has the wrong number of values.
        """

    def emit_arrow(self, data: pa.Table | pa.RecordBatch) -> None:
        """Emit the rows of an Arrow table or record batch with the output fields' names and types."""
        raise TypeError("only a spout's emitter emits Arrow data")

    def emit_dataframe(self, frame: DataFrame, *, fingerprinting: bool = False) -> None:
        """Emit the rows of a DataFrame with the output fields. Spark may evaluate it more than once.

        Args:
            frame: the rows.
            fingerprinting: read the rows only once, in a separate Spark job that counts and hashes them, and keep them.
                When the batch is emitted again, the count and the hash must be the same.
        """
        raise TypeError("only a spout's emitter emits DataFrames")

    def emit_splits(
        self,
        splits: Sequence[Any],
        read: Callable[[Any], Iterator[pa.RecordBatch]],
        *,
        fingerprinting: bool = False,
        on_driver: bool = False,
        verify: Callable[[], None] | None = None,
    ) -> None:
        """Emit rows that Spark tasks read in parallel: one task calls ``read(split)`` for each of ``splits``.

        ``read`` is sent to the tasks, so it must pickle. A split fixes the rows that are read (offsets, a byte range),
        so a task that Spark runs again returns the same rows. Each task reports to the acker when its split is read.

        Args:
            splits: the parts to read, one for each task.
            read: returns the rows of a split.
            fingerprinting: ``read`` returns generators whose return value, after the last row, is a fingerprint of
                these rows: a whole number below 2^64. When a batch is emitted again, the sum of its fingerprints modulo
                2^64 is compared. So the batch may be split differently, and read elsewhere. If False, the tasks that
                read the rows hash them.
            on_driver: read the splits on the driver, during this call: for batches too small to be worth a Spark job.
            verify: called on the driver each time all splits have been read, before any result of them can be
                committed. It compares the source with the definition of the batch. An exception that it raises counts
                as if ``read`` had raised it. It may be called from several threads.
        """
        raise TypeError("only a spout's emitter emits splits")

    def emit_extents(self, splits: Sequence[Any], *args: Any, **options: Any) -> None:
        """Emit splits: the old name of `emit_splits`."""
        self.emit_splits(splits, *args, **options)

    @abstractmethod
    def report_error(self, error: BaseException) -> None:
        """Log ``error``, and show it in the query's progress. The attempt continues; to fail it, raise an exception."""
