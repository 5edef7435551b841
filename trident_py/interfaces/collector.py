"""What user code emits into."""

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
        """Emit the rows of a DataFrame with the output fields; it is evaluated by Spark, perhaps more than once.

        Args:
            frame: the rows.
            fingerprinting: they are read once instead, by a job of their own that counts and hashes them, and kept;
                when the batch is emitted again, number and hash have to be the same.
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

        ``read`` travels to the tasks, so it must pickle; a split fixes what is read (offsets, a byte range), so that
        a task which Spark runs again gives the same rows. Each task reports to the acker when its split is read.

        Args:
            splits: what is read, one for each task.
            read: gives the rows of a split.
            fingerprinting: ``read`` gives generators that return a whole number below 2^64 after the last row, which
                tells these rows from others. Their sum, modulo 2^64, is compared when a batch is emitted again, however
                it is cut then, and wherever it is read. Else the tasks that read hash the rows.
            on_driver: they are read here and now, by this call: so little that it isn't worth a Spark job of its own.
            verify: called on the driver each time all splits were read, before anything that was made of them can be
                committed: it compares the source with what the batch was defined for. What it raises counts as if
                ``read`` had raised it. It may be called from several threads.
        """
        raise TypeError("only a spout's emitter emits splits")

    def emit_extents(self, splits: Sequence[Any], *args: Any, **options: Any) -> None:
        """Emit splits, by the name that `emit_splits` had before."""
        self.emit_splits(splits, *args, **options)

    @abstractmethod
    def report_error(self, error: BaseException) -> None:
        """Log ``error``, and show it in the query's progress. The attempt goes on; raise to fail it."""
