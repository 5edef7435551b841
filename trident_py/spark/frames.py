"""DataFrame expressions that several operations share. Pure: nothing here runs a job."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import StructType

from trident_py.rows.schema import arrow_schema
from trident_py.spark.counting import mapped
from trident_py.spark.resources import StageResources
from trident_py.worker.failures import Classify, Stage, by_user_code


class DeferredScan(ABC):
    """Rows that Spark's tasks will read once: unchanged, or transformed in the same stage."""

    @abstractmethod
    def frame(self) -> DataFrame:
        """Return the rows."""

    @abstractmethod
    def staged(self, stage: Stage, target: StructType, resources: StageResources | None = None) -> DataFrame:
        """Return the rows transformed by ``stage`` where they are read, in tasks with ``resources``."""


_ANSI: WeakKeyDictionary[SparkSession, bool] = WeakKeyDictionary()


def has_ansi(frame: DataFrame) -> bool:
    """Return whether the session of ``frame`` raises if numbers overflow; read once for each session."""
    session = frame.sparkSession
    if session not in _ANSI:
        _ANSI[session] = session.conf.get("spark.sql.ansi.enabled") == "true"
    return _ANSI[session]


_PLAIN = re.compile(r"[^.`]+")

PLACE = "_place"
"""The hidden column for the place of a row in its batch, while Spark moves rows."""


def place() -> Column:
    """Return the place of each row of a frame: later rows have greater places; partitions follow one another."""
    return F.monotonically_increasing_id()


def column(name: str) -> Column:
    """Return the column with exactly this name, including dots."""
    return F.col(f"`{name.replace('`', '``')}`")


def map_batches(
    frame: DataFrame,
    names: Sequence[str],
    stage: Stage,
    target: StructType,
    resources: StageResources | None = None,
    *,
    classify: Classify = by_user_code,
) -> DataFrame:
    """Apply ``frame.mapInArrow``, even if its columns, ``names``, have dots or backquotes.

    ``classify`` decides the meaning of an exception of the stage.

    PySpark 4.3 looks up columns by unquoted name there; a stage reads them by position.
    """
    plain = [name if _PLAIN.fullmatch(name) else f"_column_{position}" for position, name in enumerate(names)]
    given = frame if plain == list(names) else frame.toDF(*plain)
    profile = resources.profile(frame.sparkSession) if resources else None
    return mapped(given, stage, target, classify, profile)


def run_in_tasks(session: SparkSession, count: int, stage: Stage) -> None:
    """Run ``stage``, which yields no rows, in ``count`` tasks of one job; return when all of them have ended."""
    session.range(0, count, 1, count).mapInArrow(stage, "id bigint").collect()


def frame_of_rows(session: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """Return rows on the driver as a frame.

    PySpark 4.3 takes an empty chunk of a table as its end, and silently drops all later chunks; this avoids it.
    """
    if any(batch.num_rows == 0 for batch in rows.to_batches()):
        rows = pa.Table.from_batches([batch for batch in rows.to_batches() if batch.num_rows], rows.schema)
    return session.createDataFrame(rows, schema)


def empty_frame(session: SparkSession, schema: StructType) -> DataFrame:
    """Make a frame without rows, for Spark's analysis of the operations on it."""
    return session.createDataFrame(arrow_schema(schema).empty_table(), schema)


def withheld_row(session: SparkSession, schema: StructType) -> DataFrame:
    """Return a frame of one partition, without rows; Spark's optimiser can't tell that, so a job over it has a task."""
    nothing = session.range(0, 1, 1, 1).where(F.col("id") < 0)
    nulls = [F.lit(None).cast(each.dataType).alias(each.name) for each in schema]
    return empty_frame(session, schema).union(nothing.select(*nulls))


def rows_of_frame(frame: DataFrame) -> pa.Table:
    """Return the rows of ``frame``, by one job."""
    return frame.toArrow()


def kept(frame: DataFrame) -> DataFrame:
    """Return the rows of ``frame``, which one job reads once and the executors keep for as long as it is used."""
    return frame.localCheckpoint(eager=True)


def in_order(frame: DataFrame, shuffle: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """Apply ``shuffle`` to ``frame``, and keep the rows of each partition in their order in ``frame``.

    Spark reads the blocks of a shuffle as they arrive, in another order in each attempt.
    """
    return shuffle(frame.withColumn(PLACE, place())).sortWithinPartitions(PLACE).drop(PLACE)
