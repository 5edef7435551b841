"""What a spout emitted for one attempt, before Spark sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from attrs import frozen
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType


@frozen
class Extents:
    """Input that Spark tasks read: one task calls ``read`` for each of ``extents``."""

    extents: tuple[Any, ...]
    read: Callable[[Any], Iterator[pa.RecordBatch]]


@frozen
class EmittedBatch:
    """All that a spout emitted for one attempt, in the order it did.

    Attributes:
        parts: Arrow tables, DataFrames and `Extents`.
    """

    schema: StructType
    parts: tuple[pa.Table | DataFrame | Extents, ...] = ()

    @property
    def is_settled(self) -> bool:
        """Whether reading it again gives the same rows, whatever the spout promises: they are in memory."""
        return all(isinstance(part, pa.Table) for part in self.parts)

    @property
    def driver_rows(self) -> int:
        """How many rows were emitted in the driver's process."""
        return sum(part.num_rows for part in self.parts if isinstance(part, pa.Table))

    @property
    def tasks(self) -> int:
        """How many reports its reading tasks make."""
        return sum(len(part.extents) for part in self.parts if isinstance(part, Extents))
