"""Arrow rows in the form in which a table stores them. Runs in Python workers, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from attrs import frozen

from trident_py.rows.row import column_values
from trident_py.states.keys import UNGROUPED, encode_keys
from trident_py.states.sql.columns import TypedColumn, UnfitError


@frozen
class StoredRows:
    """Rows for some columns.

    Attributes:
        columns: the columns of the table.
        data: the values of each column.
        keys: the positions of the key columns.
    """

    columns: Sequence[TypedColumn]
    data: pa.RecordBatch | pa.Table
    keys: Sequence[int]

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Return the rows in their stored form.

        Raises:
            UnfitError: a value doesn't fit its column.
        """
        self.check()
        values = map(column_values, self.data.columns)
        stored = (self.stored(column, its) for column, its in zip(self.columns, values, strict=True))
        return zip(*stored, strict=True)

    def check(self) -> None:
        """Check that all values are within the limits of their columns.

        Raises:
            UnfitError: one isn't.
        """
        for column, data in zip(self.columns, self.data.columns, strict=True):
            found = column.limits.first_beyond(data) if column.limits else None
            if found is not None:
                raise self.unfit(column, *found)

    def stored(self, column: TypedColumn, values: Sequence[Any]) -> Iterable[Any]:
        """Return the stored values of ``column`` for all rows.

        Raises:
            UnfitError: a value doesn't fit; the error names the row.
        """
        try:
            return column.stored(values)
        except UnfitError as error:
            number = next(number for number, value in enumerate(values) if value is error.value)
            raise self._in_row(error, number) from error.__cause__

    def unfit(self, column: TypedColumn, number: int, reason: str) -> UnfitError:
        """Return the error for the value that ``column`` has in the row ``number``."""
        data = self.data.columns[list(self.columns).index(column)]
        (value,) = column_values(data.slice(number, 1))
        return self._in_row(column.unfit(value, f": {reason}"), number)

    def _in_row(self, error: UnfitError, number: int) -> UnfitError:
        parts = (column_values(data.slice(number, 1))[0] for data in self.data.columns)
        return error.in_row(self.columns, parts)

    def texts(self) -> list[str]:
        """Return the text of each row's key."""
        if not self.keys:
            return [UNGROUPED] * self.data.num_rows
        parts = (column_values(self.data.column(place)) for place in self.keys)
        return encode_keys(list(zip(*parts, strict=True)))
