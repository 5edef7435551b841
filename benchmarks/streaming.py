"""Spark's own Kafka source, batch and streaming, in a Python of its own: see `benchmarks.other_spark`, which starts it.

Each line of its standard input is a JSON object: what to ``do``, and with what. A line of JSON answers. It imports
nothing but PySpark, PyArrow and attrs, as there is nothing else there.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from attrs import define, field
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.totals import Totals

SOURCE = "kafka"


@define
class Peer:
    """One session, and one streaming query at a time."""

    spark: SparkSession
    _query: StreamingQuery | None = field(default=None, init=False)
    _held: ExitStack = field(factory=ExitStack, init=False)

    def read(self, topic: str, starts: Mapping[str, int], ends: Mapping[str, int], **options: str) -> dict[str, Any]:
        """Count the records of some ranges, and their bytes: a batch."""
        given = {**options, "subscribe": topic}
        ranges = {"startingOffsets": json.dumps({topic: starts}), "endingOffsets": json.dumps({topic: ends})}
        found = self.spark.read.format(SOURCE).options(**given, **ranges).load()
        records, size = found.selectExpr("count(1)", "sum(length(value))").collect()[0]
        return {"records": records, "bytes": size}

    def start(
        self, what: str, topic: str, directory: str, out: str, batch: int, trigger: str | None, **options: str
    ) -> dict[str, Any]:
        """Start a query: word counts into SQLite or into a topic, or values in capitals from topic to topic."""
        reader = self.spark.readStream.format(SOURCE).options(**options).option("subscribe", topic)
        reader = reader.option("startingOffsets", "earliest")
        records = (reader.option("maxOffsetsPerTrigger", batch) if batch else reader).load()
        words = records.selectExpr("explode(split(CAST(value AS string), ' ')) AS word").groupBy("word")
        match what:
            case "sqlite":
                totals = self._held.enter_context(Totals.opened(Path(directory) / "totals.db"))

                def upsert(frame: DataFrame, number: int) -> None:
                    counts = frame.selectExpr("explode(split(CAST(value AS string), ' ')) AS word")
                    totals.add(number, counts.groupBy("word").count().toArrow())

                writer = records.writeStream.foreachBatch(upsert)
            case "kafka":
                counts = words.count().selectExpr("word AS key", "CAST(count AS string) AS value")
                writer = counts.writeStream.outputMode("update").format(SOURCE).options(**options).option("topic", out)
            case _:
                capitals = records.selectExpr("upper(CAST(value AS string)) AS value")
                writer = capitals.writeStream.format(SOURCE).options(**options).option("topic", out)
        if trigger is not None:
            writer = writer.outputMode("update").trigger(realTime=trigger)  # type: ignore[call-overload]
        self._query = writer.option("checkpointLocation", f"{directory}/checkpoint").start()
        return {}

    def drain(self) -> dict[str, Any]:
        """Wait until all that is there now is processed."""
        assert self._query is not None
        self._query.processAllAvailable()
        return {}

    def stop(self) -> dict[str, Any]:
        """Stop the query."""
        if self._query is not None:
            self._query.stop()
        self._held.close()
        self._query = None
        return {}


def main() -> None:
    """Answer until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed, by the JVM too
    builder = SparkSession.Builder().appName("peer")
    for name, value in json.loads(sys.argv[1]).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("FATAL")
    peer = Peer(spark)
    print(json.dumps({"version": spark.version}), file=answers, flush=True)
    for line in sys.stdin:
        asked: dict[str, Any] = json.loads(line)
        does: Callable[..., dict[str, Any]] = getattr(peer, asked.pop("do"))
        print(json.dumps(does(**asked)), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
