"""DataFrame expressions that several operations share. Pure: nothing here runs a job."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import StructType

from trident_py.schema import arrow_schema


def column(name: str) -> Column:
    """The column of this very name, dots and all."""
    return F.col(f"`{name.replace('`', '``')}`")


def empty_frame(session: SparkSession, schema: StructType) -> DataFrame:
    """A frame without rows, to let Spark analyse what is built on it."""
    return session.createDataFrame(arrow_schema(schema).empty_table(), schema)
