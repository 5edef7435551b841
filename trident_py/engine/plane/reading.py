"""`SplitRead`: reads a split, in a task or on the driver, and keeps the fingerprint of its rows."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

import pyarrow as pa
from attrs import define

from coordinators.values.canonical import NO_ROWS, Fingerprint
from trident_py.errors import SpoutError
from trident_py.rows.casting import cast_as_declared
from trident_py.rows.schema import shown


def as_declared(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows of a reader with the fields of ``schema``: in its order, and with its types.

    Raises:
        SpoutError: a value would change.
    """
    given = rows.select(schema.names)
    if given.schema.types == schema.types:
        return given
    try:
        return cast_as_declared(given, schema)
    except ValueError as error:
        raise SpoutError(f"a reader returned rows that are not of the declared types: {error}") from error


@define
class SplitRead:
    """The rows of a split, their fingerprint, and the value that its generator returned after the last row, if any."""

    rows: Iterable[pa.RecordBatch] | Generator[pa.RecordBatch, None, str | int]
    seen: Fingerprint = NO_ROWS
    returned: str | int = ""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        if isinstance(self.rows, Generator):
            self.returned = yield from self.rows
        else:
            yield from self.rows

    @property
    def hash(self) -> int:
        """The hash that the generator of a fingerprinting spout has returned.

        Raises:
            SpoutError: it is no number.
        """
        if isinstance(self.returned, int):
            return self.returned
        raise SpoutError(
            f"a generator of a fingerprinting spout must return a whole number, not {shown(self.returned)}"
        )
