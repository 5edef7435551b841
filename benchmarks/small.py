"""Small batches: transactions a second, their latency, and what a transaction costs beyond its Spark job.

    python -m benchmarks.small [--sizes full] [--out DIR]

A batch is a few sentences that the driver has; their words are split by a Python function and counted.

- ``bare``        a job for each batch, one at a time: ``createDataFrame``, the same splitting by hand in
                  ``mapInArrow``, the count, its result fetched and dropped
- ``trident_py``  a spout of our own that emits rows, ``flat_map``, ``group_by``, `SQLiteState`; and the same with a
                  resident task in the place of jobs
- ``streaming``   Structured Streaming over files of as many lines, ``foreachBatch`` into SQLite, as in
                  `benchmarks.competitors`

All run with one shuffle partition and without adaptive execution, which is best for small jobs.
A latency is the time from the call of the emitter's ``emit_batch`` to that of its ``success``.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from statistics import median
from typing import Any

import pyarrow as pa
from attrs import define, evolve, field, frozen
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.command import run_part
from benchmarks.competitors import BARE, STREAMING, Course, Laps, with_pending
from benchmarks.feed import Feed, FeedSpout, emit_rows
from benchmarks.machine import zookeeper_seconds
from benchmarks.parts import Cell, Part, Table
from benchmarks.rounds import Measured, quantile, race
from benchmarks.sizes import LINE_WORDS, WORDS, Sizes
from benchmarks.stage import SMALL, Stage
from benchmarks.totals import total
from benchmarks.workloads import PythonWords, split_by_hand, text
from trident_py import Count, SQLiteState, TridentQuery, TridentTopology

SCHEMA = "sentence string"

Sentences = list[tuple[str]]
Beside = Callable[[TridentQuery], AbstractContextManager[object]]


def measure(stage: Stage, sizes: Sizes) -> Part:
    """All competitors in turn."""
    with stage.session(SMALL) as spark:
        course = SmallCourse.of(stage, spark, sizes)
        lines = text(stage.scratch("sentences"), sizes.small_batches, sizes.small_sentences, sizes.warm_up)
        competitors: dict[str, Callable[[], float]] = {BARE: course.bare}
        for number in sizes.small_pending:
            competitors[with_pending(number)] = partial(course.trident, number, resident_tasks=0)
            competitors[resident(number)] = partial(course.trident, number, resident_tasks=1)
        competitors[STREAMING] = Course(stage, spark, PythonWords(lines)).streaming
        results = race(competitors, sizes.rounds, BARE)
    return part(sizes, course, results, 1000 * zookeeper_seconds(stage.zookeeper))


def part(sizes: Sizes, course: SmallCourse, results: Mapping[str, Measured], round_ms: float) -> Part:
    """What the turns come to; one at a time is the first number of pending transactions."""
    rates = {number: sizes.small_batches / results[with_pending(number)].median for number in sizes.small_pending}
    first = with_pending(sizes.small_pending[0])
    turns, jobs = course.steps[first][1:], course.steps[BARE][1:]
    beyond = [1000 * (turn - job) for turn, job in zip(turns, jobs, strict=True)]
    numbers = (
        {f"small_tx_per_s_pending_{number}": rate for number, rate in rates.items()}
        | {
            f"small_resident_tx_per_s_pending_{number}": sizes.small_batches / results[resident(number)].median
            for number in sizes.small_pending
        }
        | {
            "small_tx_per_s": max(rates.values()),
            "small_resident_p50_ms": 1000 * quantile(course.latencies[resident(sizes.small_pending[0])], 0.5),
            "small_resident_p99_ms": 1000 * quantile(course.latencies[resident(sizes.small_pending[0])], 0.99),
            "small_p50_ms": 1000 * quantile(course.latencies[first], 0.5),
            "small_p95_ms": 1000 * quantile(course.latencies[first], 0.95),
            "small_job_ms": 1000 * median(jobs),
            "small_beyond_job_ms": median(beyond),
        }
    )
    return Part(
        tables=[table(sizes, results, course), beyond_table(numbers, round_ms)],
        numbers=numbers,
        spread={
            "small_tx_per_s": results[with_pending(max(rates, key=rates.__getitem__))].spread,
            "small_transaction_ms": max(turns) / min(turns),
            "small_job_ms": max(jobs) / min(jobs),
        },
        notes=[f"one at a time means {first}; a ZooKeeper round was measured right after the rounds"],
    )


def table(sizes: Sizes, results: Mapping[str, Measured], course: SmallCourse) -> Table:
    """Who did how many, and how long each took."""

    def row(name: str, result: Measured) -> dict[str, Cell]:
        known = course.latencies.get(name)
        return {
            "": name,
            "transactions/s": sizes.small_batches / result.median,
            "ms a transaction": 1000 * result.median / sizes.small_batches,
            "latency p50, ms": 1000 * quantile(known, 0.5) if known else None,
            "latency p95, ms": 1000 * quantile(known, 0.95) if known else None,
            "latency p99, ms": 1000 * quantile(known, 0.99) if known else None,
            "× bare": result.ratio,
            "spread": result.spread,
        }

    title = f"word count into SQLite, {sizes.small_sentences} sentences a batch"
    return Table(title, [row(name, result) for name, result in results.items()])


def beyond_table(numbers: Mapping[str, float], round_ms: float) -> Table:
    """What a transaction costs beyond its job, one at a time."""
    beyond = numbers["small_beyond_job_ms"]
    cells = {
        "the bare job": numbers["small_job_ms"],
        "a transaction beyond it": beyond,
        "a ZooKeeper round": round_ms,
        "beyond both": beyond - round_ms,
    }
    rows: list[dict[str, Cell]] = [{"median": name, "ms": cell} for name, cell in cells.items()]
    return Table("The cost of a transaction beyond its Spark job, one at a time", rows)


def resident(number: int) -> str:
    """What trident_py is called with so many pending transactions and a resident task."""
    return f"{with_pending(number)}, resident"


@frozen
class SmallCourse:
    """Where they meet.

    Attributes:
        stage: for directories and ZooKeeper.
        spark: the session.
        sizes: how many batches, and of what.
        batches: as many as anybody needs.
        steps: by competitor, for each turn, also the first, which doesn't count: median seconds from batch to batch.
        latencies: by competitor, those of all transactions of the last turn.
    """

    stage: Stage
    spark: SparkSession
    sizes: Sizes
    batches: list[Sentences]
    steps: dict[str, list[float]] = field(factory=dict)
    latencies: dict[str, list[float]] = field(factory=dict)

    @classmethod
    def of(cls, stage: Stage, spark: SparkSession, sizes: Sizes) -> SmallCourse:
        """With sentences of random words."""
        return cls(stage, spark, sizes, list(sentences(sizes.warm_up + sizes.small_batches * sizes.small_many, sizes)))

    def bare(self) -> float:
        """The jobs alone."""
        clock = Laps(self.sizes.warm_up)
        for batch in self.batches[: self.sizes.warm_up + self.sizes.small_batches]:
            lines = self.spark.createDataFrame(pa.table({"sentence": [line for (line,) in batch]}), SCHEMA)
            words = lines.mapInArrow(split_by_hand, "word string")
            words.groupBy("word").agg(F.count("*").alias("count")).toArrow()
            clock.lap()
        self.steps.setdefault(BARE, []).append(median(clock.steps))
        return clock.seconds

    def trident(self, pending: int, beside: Beside = lambda _: nullcontext(), **settings: Any) -> float:
        """The topology; seconds for as many batches as the others have, also where it was given more.

        Args:
            pending: transactions.
            beside: what goes on while the clock runs.
            settings: of its config, besides.
        """
        many = min(pending, self.sizes.small_many)
        warm_up, batches = self.sizes.warm_up, self.batches[: self.sizes.warm_up + self.sizes.small_batches * many]
        turn, config = Turn.of(self.stage, pending), evolve(self.stage.config(pending), **settings)
        with turn.topology.start(config, spark=self.spark) as query, beside(query):
            while query.status.resident_tasks.get("there", 0) < settings.get("resident_tasks", 0):
                time.sleep(0.01)
            turn.feed.hand_out(batches[:warm_up])
            query.process_all_available()
            started = time.perf_counter()
            turn.feed.hand_out(batches[warm_up:])
            query.process_all_available()
            seconds = time.perf_counter() - started
        assert turn.counted == sum(LINE_WORDS * len(batch) for batch in batches)
        name = resident(pending) if settings.get("resident_tasks") else with_pending(pending)
        self.steps.setdefault(name, []).append(median(turn.feed.steps(warm_up + 2)))
        self.latencies[name] = turn.feed.latencies(warm_up + 1)
        return seconds / many


@define
class Turn:
    """A topology that counts the words of what it is fed."""

    topology: TridentTopology
    feed: Feed
    database: str

    @classmethod
    def of(cls, stage: Stage, number: int) -> Turn:
        """With an empty state."""
        turn = cls(TridentTopology(f"small-{number}"), Feed(), str(stage.scratch("small") / "counts.db"))
        (
            turn.topology.new_stream("sentences", FeedSpout(turn.feed, SCHEMA, emit_rows))
            .flat_map(lambda row: [(word,) for word in row.sentence.split()], "word string")
            .group_by("word")
            .persistent_aggregate(SQLiteState(turn.database, table="counts"), Count(), "count")
        )
        return turn

    @property
    def counted(self) -> int:
        """How many words the state has counted."""
        return total(self.database, "counts", "count")


def sentences(batches: int, sizes: Sizes) -> Iterator[Sentences]:
    """Batches of random sentences."""
    chance = random.Random(1)  # noqa: S311 - the same input each time
    words = [f"word{number:04}" for number in range(WORDS)]
    for _ in range(batches):
        yield [(" ".join(chance.choices(words, k=LINE_WORDS)),) for _ in range(sizes.small_sentences)]


def main(argv: list[str] | None = None) -> int:
    """This part alone."""
    return run_part("small", measure, argv)


if __name__ == "__main__":
    sys.exit(main())
