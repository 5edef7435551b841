"""Queries of Nexmark: events a second, compared with Structured Streaming and RocksDB on the same disk.

    python -m benchmarks nexmark [--sizes full] [--out DIR]

The events are those of `examples.nexmark`, one in a millisecond, in Parquet files. A file is one batch, and the
watermark is five seconds behind. Both write the results to SQLite: a topology by a `SQLSink`, Structured Streaming by
``foreachBatch`` in one transaction with the number of the batch. Both read and filter events by expressions of Spark.

- ``5, hot items``      the auctions with the most bids in ten seconds, every two seconds
- ``7, highest bid``    the highest price in each ten seconds
- ``8, new users``      people and the auctions that they have opened in the ten seconds in which they registered
- ``11, sessions``      the number of bids in a session of a person, which ends after ten seconds without a bid
"""

from __future__ import annotations

import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from attrs import frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.command import run_part
from benchmarks.competitors import OURS, STREAMING, Laps
from benchmarks.event_time import ROCKSDB
from benchmarks.feed import FeedSpout
from benchmarks.parts import Part, Table
from benchmarks.rates import rates
from benchmarks.rounds import race
from benchmarks.sizes import Sizes
from benchmarks.stage import LARGE, Stage
from benchmarks.workloads import FeedHand, Inputs
from examples.nexmark import SCHEMA, TEN_SECONDS, Greatest, events
from trident_py import Count, Max, SQLiteState, SQLSink, TridentCollector, TridentTopology
from trident_py.streams.stream import Stream
from trident_py.windows import SessionWindow, SlidingDuration, TumblingDuration

LATE = timedelta(seconds=5)
DELAY = f"{LATE.seconds} seconds"
BIDS = "auction bigint, bidder bigint, price bigint, at timestamp"
PERSON, AUCTION = (f"person bigint, span bigint, {at} timestamp" for at in ("registered", "opened"))
SPAN = "unix_seconds(at) DIV 10 AS span"


@frozen
class Query:
    """One query, for both.

    Attributes:
        name: its number and what it finds.
        declared: declares it over a stream of events, with a store for its rows; returns the results.
        streaming: makes it of a streaming DataFrame of events; its results are numbers.
        closed: changes the results of one batch into those that are stored.
    """

    name: str
    declared: Callable[[TridentTopology, Stream, SQLiteState], Stream]
    streaming: Callable[[DataFrame], DataFrame]
    closed: Callable[[DataFrame], DataFrame] = lambda frame: frame


def measure(stage: Stage, sizes: Sizes) -> Part:
    """Each query, both in turn."""
    if not sizes.nexmark_rows:
        return Part()
    inputs, tables, numbers, spread = _files(stage.scratch("events"), sizes), list[Table](), {}, {}
    with stage.session({**LARGE, **ROCKSDB}) as spark:
        for query in QUERIES:
            course = Course(stage, spark, inputs, query)
            results = race({STREAMING: course.streaming, OURS: course.trident}, sizes.rounds, STREAMING)
            title = f"Nexmark {query.name}, {inputs.rows:,} events a batch"
            tables.append(rates(title, inputs, results, STREAMING))
            name = f"nexmark_{query.name.partition(',')[0]}_vs_streaming"
            numbers[name], spread[name] = results[OURS].ratio, results[OURS].ratio_spread
    return Part(tables=tables, numbers=numbers, spread=spread)


def _files(directory: Path, sizes: Sizes) -> Inputs:
    rows, files = sizes.nexmark_rows, sizes.files + sizes.warm_up
    source = events(rows * files, every=timedelta(milliseconds=1))
    paths = [directory / f"{number:05}.parquet" for number in range(files)]
    for path in paths:
        columns = zip(*islice(source, rows), strict=True)
        pq.write_table(pa.table([pa.array(each) for each in columns], [each.split()[0] for each in FIELDS]), path)
    return Inputs(tuple(paths), sizes.warm_up, rows, 0)


FIELDS = SCHEMA.split(", ")


# --- the queries ------------------------------------------------------------------------------------------------------


def bids(given: DataFrame) -> DataFrame:
    """The bids of events."""
    return given.where("kind = 'bid'").selectExpr("id AS auction", "bidder", "price", "at")


def people(given: DataFrame) -> DataFrame:
    """The people of events."""
    return given.where("kind = 'person'").selectExpr("id AS person", SPAN, "at AS registered")


def auctions(given: DataFrame) -> DataFrame:
    """The auctions of events."""
    return given.where("kind = 'auction'").selectExpr("seller AS person", SPAN, "at AS opened")


def _hot_items(_: TridentTopology, stream: Stream, store: SQLiteState) -> Stream:
    grouped = stream.transform(bids, BIDS).group_by("auction")
    found = grouped.window(SlidingDuration(10, 2), [], Count(), "bids", timestamp="at", watermark=LATE, store=store)
    spans = found.group_by("window_start", "window_end")
    return spans.aggregate(Greatest(), "auction bigint, bids bigint", ["auction", "bids"]).project("auction", "bids")


def _counted(given: DataFrame) -> DataFrame:
    spans = bids(given).withWatermark("at", DELAY).groupBy(F.window("at", "10 seconds", "2 seconds"), "auction")
    return spans.agg(F.count("*").alias("bids"))


def _hottest(counted: DataFrame) -> DataFrame:
    """The hot items of the windows that a batch has closed: each of them is closed in one batch."""
    most = counted.groupBy("window").agg(F.max("bids").alias("bids"))
    return counted.join(most, ["window", "bids"]).select("auction", "bids")


def _highest(_: TridentTopology, stream: Stream, store: SQLiteState) -> Stream:
    found = stream.transform(bids, BIDS).window(
        TumblingDuration(10), ["price"], Max("price"), "price", timestamp="at", watermark=LATE, store=store
    )
    return found.project("price")


def _highest_streaming(given: DataFrame) -> DataFrame:
    spans = bids(given).withWatermark("at", DELAY).groupBy(F.window("at", "10 seconds"))
    return spans.agg(F.max("price").alias("price")).select("price")


def _new_users(topology: TridentTopology, stream: Stream, store: SQLiteState) -> Stream:
    keys = ["person", "span"]
    found = topology.join(
        *(stream.transform(people, PERSON), keys),
        *(stream.transform(auctions, AUCTION), keys),
        [*keys, "registered", "opened"],
        within=TEN_SECONDS,
        timestamps=("registered", "opened"),
        watermark=LATE,
        store=store,
    )
    return found.project("person", "span")


def _new_users_streaming(given: DataFrame) -> DataFrame:
    left = people(given).withWatermark("registered", DELAY).alias("p")
    right = auctions(given).withWatermark("opened", DELAY).alias("a")
    near = "opened BETWEEN registered - INTERVAL 10 SECONDS AND registered + INTERVAL 10 SECONDS"
    return left.join(right, F.expr(f"p.person = a.person AND p.span = a.span AND {near}")).select("p.person", "p.span")


def _sessions(_: TridentTopology, stream: Stream, store: SQLiteState) -> Stream:
    grouped = stream.transform(bids, BIDS).group_by("bidder")
    found = grouped.window(SessionWindow(10), [], Count(), "bids", timestamp="at", watermark=LATE, store=store)
    return found.project("bidder", "bids")


def _sessions_streaming(given: DataFrame) -> DataFrame:
    spans = bids(given).withWatermark("at", DELAY).groupBy(F.session_window("at", "10 seconds"), "bidder")
    return spans.agg(F.count("*").alias("bids")).select("bidder", "bids")


QUERIES = (
    Query("5, hot items", _hot_items, _counted, _hottest),
    Query("7, highest bid", _highest, _highest_streaming),
    Query("8, new users", _new_users, _new_users_streaming),
    Query("11, sessions", _sessions, _sessions_streaming),
)


# --- the race ---------------------------------------------------------------------------------------------------------


@frozen
class Course:
    """Both competitors in one query.

    Attributes:
        stage: for directories and ZooKeeper.
        spark: the session of both.
        inputs: files of events.
        query: the query that both run.
    """

    stage: Stage
    spark: SparkSession
    inputs: Inputs
    query: Query

    def trident(self) -> float:
        """A topology; its results have those of Structured Streaming, whose watermark is a batch behind."""
        scratch = self.stage.scratch("trident")
        hand, topology = FeedHand.of_files(self.inputs), TridentTopology("benchmark")
        stream = topology.new_stream("events", FeedSpout(hand.feed, SCHEMA, self._emit))
        found = self.query.declared(topology, stream, SQLiteState(scratch / "rows.db", table="kept"))
        found.write_to(SQLSink(f"sqlite:///{scratch / 'found.db'}", "found"))
        with topology.start(self.stage.config(None), spark=self.spark) as query:
            seconds = hand.seconds(query)
        earlier = [*self.stage.directory.glob("streaming-*/found.db")]
        missing = _rows(max(earlier, key=lambda path: path.stat().st_mtime)) - _rows(scratch / "found.db")
        assert not missing, f"{self.query.name}: {missing}"
        return seconds

    def streaming(self) -> float:
        """The streaming query."""
        clock, scratch = Laps(self.inputs.warm_up), self.stage.scratch("streaming")
        with _database(scratch / "found.db") as database:

            def store(batch: DataFrame, number: int) -> None:
                _insert(database, number, self.query.closed(batch).toArrow())
                clock.lap()

            files = self.spark.readStream.option("maxFilesPerTrigger", 1).schema(SCHEMA)
            given = self.query.streaming(files.parquet(str(self.inputs.directory)))
            writer = given.writeStream.outputMode("append").foreachBatch(store)
            writer = writer.option("checkpointLocation", str(scratch / "checkpoint"))
            writer.trigger(availableNow=True).start().awaitTermination()
        return clock.seconds

    def _emit(self, spark: SparkSession, txid: int, path: Path, collector: TridentCollector) -> None:
        collector.emit_dataframe(spark.read.schema(SCHEMA).parquet(str(path)))


@contextmanager
def _database(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as database:
        for pragma in ("journal_mode=WAL", "synchronous=FULL"):
            database.execute(f"PRAGMA {pragma}")
        database.execute("CREATE TABLE found (one INTEGER, other INTEGER)")
        database.execute("CREATE TABLE done (batch INTEGER PRIMARY KEY)")
        yield database


def _insert(database: sqlite3.Connection, number: int, rows: pa.Table) -> None:
    """Insert the rows of a batch, unless they are there already."""
    names = ", ".join(("one", "other")[: rows.num_columns])
    marks = ", ".join("?" * rows.num_columns)
    database.execute("BEGIN IMMEDIATE")
    if database.execute("INSERT OR IGNORE INTO done VALUES (?)", (number,)).rowcount:
        columns = [column.to_pylist() for column in rows.columns]
        database.executemany(f"INSERT INTO found ({names}) VALUES ({marks})", zip(*columns, strict=True))  # noqa: S608
    database.execute("COMMIT")


def _rows(path: Path) -> Counter[tuple[Any, ...]]:
    """The values of the rows that are there."""
    with closing(sqlite3.connect(path)) as database:
        cursor = database.execute("SELECT * FROM found")
        names = [name for name, *_ in cursor.description]
        kept = [place for place, name in enumerate(names) if not name.startswith("_")]
        return Counter(tuple(value for place in kept if (value := row[place]) is not None) for row in cursor)


def main(argv: list[str] | None = None) -> int:
    """This part alone."""
    return run_part("nexmark", measure, argv)


if __name__ == "__main__":
    sys.exit(main())
