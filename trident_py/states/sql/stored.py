"""Rows of Arrow data as a table stores them. Runs in Python workers, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from attrs import frozen

from trident_py.rows.row import column_values
from trident_py.states.keys import UNGROUPED, encode_keys
from trident_py.states.sql.columns import TypedColumn


@frozen
class StoredRows:
    """Rows for some columns.

    Attributes:
        columns: of the table.
        data: the values of each.
        keys: the positions of the columns that are the key.
    """

    columns: Sequence[TypedColumn]
    data: pa.RecordBatch | pa.Table
    keys: Sequence[int]

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Return the rows as they are stored.

        Raises:
            StateError: a value doesn't fit its column.
        """
        values = map(column_values, self.data.columns)
        return zip(*(column.stored(its) for column, its in zip(self.columns, values, strict=True)), strict=True)

    def texts(self) -> list[str]:
        """Return the text of each row's key."""
        if not self.keys:
            return [UNGROUPED] * self.data.num_rows
        parts = (column_values(self.data.column(place)) for place in self.keys)
        return encode_keys(list(zip(*parts, strict=True)))
