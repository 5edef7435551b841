"""The collector of a spout's rows, in the driver or in a task; it checks rows and Arrow data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from attrs import define, field
from pyspark.sql.types import StructType

from trident_py.errors import SpoutError
from trident_py.interfaces.collector import TridentCollector
from trident_py.rows.casting import cast_as_declared
from trident_py.rows.schema import arrow_schema, arrow_table

SHOWN_CHARS_MAX = 300


def shortened(value: object) -> str:
    """Return ``value`` as a text for a message, of limited length."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}…"


@define
class ArrowCollector(TridentCollector):
    """Converts emitted rows into Arrow tables of the declared fields.

    Attributes:
        where: names the topology, spout and attempt in errors.
        schema: the declared fields.
    """

    where: str
    schema: StructType
    _rows: list[Sequence[Any]] = field(factory=list, init=False)
    _parts: list[Any] = field(factory=list, init=False)

    def emit(self, row: Sequence[Any]) -> None:
        names = self.schema.names
        if not isinstance(row, tuple | list):
            raise SpoutError(
                f"{self.where}: emitted {row!r}; to fix this: emit a tuple, list or Row with a value for each of "
                f"{names}"
            )
        if len(row) != len(names):
            raise SpoutError(f"{self.where}: emitted {len(row)} values, {row!r}, for the {len(names)} fields {names}")
        self._rows.append(row)

    def emit_arrow(self, data: pa.Table | pa.RecordBatch) -> None:
        """Emit the rows of Arrow data; cast its columns if that changes no value, except that doubles become floats."""
        table = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
        expected = arrow_schema(self.schema)
        if sorted(table.column_names) != sorted(expected.names):
            raise SpoutError(
                f"{self.where}: emitted Arrow data with the fields {table.column_names}, declared are {expected.names}"
            )
        given = table.select(expected.names)
        try:
            is_same = given.schema.types == expected.types
            table = given.cast(expected) if is_same else cast_as_declared(given, expected)
        except ValueError as error:
            raise SpoutError(f"{self.where}: emitted Arrow data that is not of the declared types: {error}") from error
        self._flush()
        self._parts.append(table)

    def _flush(self) -> None:
        if not self._rows:
            return
        try:
            self._parts.append(arrow_table(self._rows, self.schema))
        except (TypeError, ValueError) as error:
            raise SpoutError(
                f"{self.where}{self._culprit()}: emitted a value that is not of its field's type: {error}"
            ) from error
        self._rows = []

    def _culprit(self) -> str:
        """Return the text that names the invalid row, by its number among all emitted rows."""
        before = sum(part.num_rows for part in self._parts if isinstance(part, pa.Table))
        for number, row in enumerate(self._rows, before + 1):
            try:
                arrow_table([row], self.schema)
            except (TypeError, ValueError):
                return f", row {number} of the batch, {shortened(tuple(row))}"
        return ""
