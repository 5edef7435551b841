"""`SplitRead`: what is known of the rows of a split when they have been read, in a task or on the driver."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

import pyarrow as pa
from attrs import define

from coordinators.values.canonical import NO_ROWS, Fingerprint
from trident_py.errors import SpoutError
from trident_py.rows.schema import shown


def as_declared(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return what a reader gave with the fields of ``schema``: in its order, and of its types."""
    given = rows.select(schema.names)
    return given if given.schema.types == schema.types else given.cast(schema)


@define
class SplitRead:
    """The rows of a split, what they were, and what its generator returned after the last one, if it did."""

    rows: Iterable[pa.RecordBatch] | Generator[pa.RecordBatch, None, str | int]
    seen: Fingerprint = NO_ROWS
    returned: str | int = ""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Give the rows."""
        if isinstance(self.rows, Generator):
            self.returned = yield from self.rows
        else:
            yield from self.rows

    @property
    def hash(self) -> int:
        """What the generator of a fingerprinting spout has returned.

        Raises:
            SpoutError: it is no number.
        """
        if isinstance(self.returned, int):
            return self.returned
        raise SpoutError(
            f"a generator of a fingerprinting spout must return a whole number, not {shown(self.returned)}"
        )
