"""A session in a forked process: it uses the JVM of the parent process, over its own connections."""

from __future__ import annotations

import gc
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen
from py4j.finalizer import ThreadSafeFinalizer
from py4j.java_gateway import GatewayClient
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from trident_py.rows.schema import arrow_table
from trident_py.spark.frames import frame_of_rows


def forget_connections() -> None:
    """Leave the connections to the JVM, and the JVM objects, to the parent process.

    New connections are opened when needed. Two processes that share sockets mix up answers. And garbage collection in
    this process would release the parent's JVM objects.
    """
    ThreadSafeFinalizer.clear_finalizers(clear_all=True)
    for client in [each for each in gc.get_objects() if isinstance(each, GatewayClient)]:
        client.deque = deque()
        if hasattr(client, "thread_connection"):
            client.thread_connection = threading.local()


def jvm_process(session: SparkSession) -> int:
    """Return the process id of a session's JVM, on this machine."""
    return int(session.sql("SELECT java_method('java.lang.ProcessHandle', 'current')").head()[0])  # type: ignore[index]


@frozen
class Batches:
    """Frames of known rows, made by two or three calls to the JVM instead of thirty.

    Attributes:
        session: the session of the frames.
        schema: their fields.
        rows: the rows by name of the batch.
    """

    session: SparkSession
    schema: StructType
    rows: Mapping[str, Sequence[Sequence[Any]]]

    def __attrs_post_init__(self) -> None:
        named = StructType([*self.schema.fields, StructField(_NAME, StringType())])
        rows = [(*row, name) for name, rows in self.rows.items() for row in rows]
        frame_of_rows(self.session, arrow_table(rows, named), named).createOrReplaceTempView(_VIEW)
        frame = self.frame(next(iter(self.rows)), ())
        frame.collect()
        frame.toPandas()
        list(frame.toLocalIterator())

    def frame(self, name: str, rows: Sequence[Sequence[Any]], *, fails: bool = False) -> DataFrame:
        """Make a batch by its name; if the name is unknown, from ``rows``.

        A failing batch raises when it is read, as a user function may.
        """
        if rows and name not in self.rows:
            return frame_of_rows(self.session, arrow_table(rows, self.schema), self.schema)
        fields = ", ".join(f"`{field.replace('`', '``')}`" for field in self.schema.names)
        fault = " AND raise_error('the batch can not be read') IS NULL" if fails else ""
        return self.session.sql(f"SELECT {fields} FROM {_VIEW} WHERE {_NAME} = '{name}'{fault}")  # noqa: S608 - ours


def rows_of_frame(frame: DataFrame) -> list[Any]:
    """Return the rows of a batch that a spout emitted as a frame."""
    return frame.collect()


_VIEW, _NAME = "_conformance_batches", "_conformance_batch"
