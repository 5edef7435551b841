"""The rows of an attempt, between processing and commit: in memory, or in a file if they are large."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import IO, Self

import pyarrow as pa
from attrs import define, field

IN_MEMORY_BYTES_MAX = 32 * 1024 * 1024
"""The size in bytes above which rows are kept in a file."""
BATCH_ROWS = 10_000


@define(eq=False)
class StagedRows:
    """The rows of one attempt.

    The file has no name, so it is deleted when this process ends, in any way.

    Attributes:
        count: the number of rows.
    """

    count: int
    _rows: pa.Table | None = field(default=None, repr=False)
    _file: IO[bytes] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, rows: pa.Table, bytes_max: int = IN_MEMORY_BYTES_MAX) -> Self:
        """Keep ``rows``; drop other references to them, so that their memory can be freed."""
        if rows.nbytes <= bytes_max:
            return cls(rows.num_rows, rows)
        file = tempfile.TemporaryFile(prefix="trident-kafka-")  # noqa: SIM115 - it lives on; discard() closes it
        try:
            with pa.ipc.new_stream(file, rows.schema) as writer:
                writer.write_table(rows, max_chunksize=BATCH_ROWS)
        except BaseException:
            file.close()
            raise
        return cls(rows.num_rows, None, file)

    @property
    def is_in_file(self) -> bool:
        """Whether the rows are in a file."""
        return self._file is not None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, each time from the first one; if they are in a file, one batch at a time is in memory."""
        if self._file is not None:
            self._file.seek(0)
            with pa.ipc.open_stream(self._file) as reader:
                yield from reader
        elif self._rows is not None:
            yield from self._rows.to_batches(max_chunksize=BATCH_ROWS)

    def discard(self) -> None:
        """Free the rows."""
        if self._file is not None:
            self._file.close()
        self._rows = self._file = None
