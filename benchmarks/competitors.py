"""Four ways to keep totals by key of a workload's files; each turn starts from nothing and returns its timed seconds.

- ``bare``        the Spark job of each file in a loop; its result is fetched as Arrow data and dropped. Nothing is
                  kept, nothing is exactly once: the limit that Spark sets
- ``loop``        exactly once by hand: the same jobs in the same loop, and after each one SQLite transaction that
                  upserts the totals and notes the number of the batch (WAL, ``synchronous=FULL``)
- ``trident_py``  a topology into `SQLiteState`, which is as durable; everything of it is public
- ``streaming``   Structured Streaming, ``maxFilesPerTrigger=1``, ``availableNow``, and in ``foreachBatch`` the same job
                  and the same SQLite transaction as in the loop: the deduplication that its manual asks users to write

Those that keep totals are checked: the sum of all of them must be right.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from attrs import evolve, frozen
from pyspark.sql import DataFrame, SparkSession

from benchmarks.stage import Stage
from benchmarks.totals import Totals, total
from benchmarks.workloads import Workload
from trident_py import SQLiteState, TridentTopology

BARE, LOOP, OURS, STREAMING = "bare", "loop", "trident_py", "streaming"


def line_up(
    bare: Callable[[], float], loop: Callable[[], float], trident: Callable[..., float], pending: Sequence[int]
) -> dict[str, Callable[[], float]]:
    """By name: those of every course; trident_py with the default of pending transactions, and with each of these."""
    found: dict[str, Callable[[], float]] = {BARE: bare, LOOP: loop, OURS: trident}
    return found | {with_pending(number): partial(trident, number) for number in pending}


@frozen
class Course:
    """Where the competitors meet: one workload, one session.

    Attributes:
        stage: for directories and ZooKeeper.
        spark: the session of all of them.
        work: what is done.
        shards: into how many files trident_py writes.
    """

    stage: Stage
    spark: SparkSession
    work: Workload
    shards: int = 1

    def competitors(self, pending: tuple[int, ...]) -> dict[str, Callable[[], float]]:
        """By name: trident_py with the default of pending transactions, and with each of ``pending``."""
        found = line_up(self.bare, self.loop, self.trident, pending)
        return found | {STREAMING: self.streaming} if self.work.streams else found

    def bare(self) -> float:
        """The jobs alone."""
        clock = Laps(self.work.inputs.warm_up)
        for path in self.work.inputs.files:
            self.work.reduced(self.work.read(self.spark, path)).toArrow()
            clock.lap()
        return clock.seconds

    def loop(self) -> float:
        """Jobs and commits in turn."""
        clock, database = Laps(self.work.inputs.warm_up), self.stage.scratch("loop") / "totals.db"
        with Totals.opened(database) as totals:
            for number, path in enumerate(self.work.inputs.files):
                totals.add(number, self.work.reduced(self.work.read(self.spark, path)).toArrow())
                clock.lap()
        self._check(total(database, "totals", "total"))
        return clock.seconds

    def trident(self, pending: int | None = None, **settings: Any) -> float:
        """The topology; ``settings`` are of its config."""
        database = self.stage.scratch("trident") / "totals.db"
        topology = TridentTopology("benchmark")
        hand = self.work.declare(topology, SQLiteState(database, table="totals", shards=self.shards))
        with topology.start(evolve(self.stage.config(pending), **settings), spark=self.spark) as query:
            seconds = hand.seconds(query)
            committed = (query.last_progress or {})["txid"]
        assert committed == len(self.work.inputs.files), f"{committed} transactions"
        self._check(total(database, "totals", self.work.column))
        return seconds

    def streaming(self) -> float:
        """The streaming query."""
        clock, scratch = Laps(self.work.inputs.warm_up), self.stage.scratch("streaming")
        with Totals.opened(scratch / "totals.db") as totals:

            def upsert(batch: DataFrame, number: int) -> None:
                totals.add(number, self.work.reduced(batch).toArrow())
                clock.lap()

            reader = self.spark.readStream.option("maxFilesPerTrigger", 1)
            writer = self.work.source(reader, self.work.inputs.directory).writeStream.foreachBatch(upsert)
            writer = writer.option("checkpointLocation", str(scratch / "checkpoint"))
            writer.trigger(availableNow=True).start().awaitTermination()
        self._check(total(scratch / "totals.db", "totals", "total"))
        return clock.seconds

    def _check(self, found: int) -> None:
        assert found == self.work.inputs.total, f"{found} instead of {self.work.inputs.total}"


class Laps:
    """A clock that starts when the warm-up has ended.

    Args:
        warm_up: laps before that.
    """

    def __init__(self, warm_up: int) -> None:
        self.warm_up = warm_up
        self.times: list[float] = []

    def lap(self) -> None:
        """A batch is done."""
        self.times.append(time.perf_counter())

    @property
    def seconds(self) -> float:
        """From the end of the warm-up to the last lap."""
        return self.times[-1] - self.times[self.warm_up - 1]

    @property
    def steps(self) -> list[float]:
        """The seconds of each lap after the warm-up."""
        times = self.times[self.warm_up - 1 :]
        return [after - before for before, after in pairwise(times)]


def with_pending(number: int) -> str:
    """What trident_py is called with so many pending transactions."""
    return f"{OURS}, {number} pending"
