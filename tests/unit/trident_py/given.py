"""Rows as a state's new values come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from attrs import field, frozen
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from trident_py.participants.participant import CommitRows
from trident_py.rows.schema import arrow_table, schema_of


@frozen
class Given(CommitRows):
    """These rows, for what needs no Spark."""

    rows: Sequence[Sequence[Any]]
    schema: StructType = field(converter=schema_of)

    def table(self) -> pa.Table:
        return arrow_table(self.rows, self.schema)

    def frame(self) -> DataFrame:
        raise AssertionError("there is no Spark here")
