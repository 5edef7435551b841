"""Rows that an emitter or a function gives, on their way through Arrow: what Spark is given, and what tasks see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.values.odd import ODD
from tests.values.store import Store, check_type
from trident_py.rows.row import column_values
from trident_py.rows.schema import arrow_table, schema_of


class DriverRows(Store):
    """Rows of the driver as an Arrow table, read back as Python values."""

    def __init__(self) -> None:
        self._values: list[Any] = []

    def write(self, ddl: str, values: Sequence[Any]) -> None:
        table = arrow_table(list(enumerate(values)), schema_of(f"n int, v {ddl}"))
        self._values = column_values(table.column("v").combine_chunks())

    def read(self) -> list[Any]:
        return self._values


@pytest.mark.parametrize("ddl", ODD)
def test_rows_of_the_driver_stay_as_they_are(ddl: str) -> None:
    check_type(DriverRows(), "rows of the driver", ddl)
