"""How cost grows: with rows, keys, partitions, pending transactions, topologies and history; and where it first bends.

    python -m benchmarks.growth [--sizes full] [--out DIR]

Each line starts with one point and makes one thing larger. Points are medians of a few transactions, after others that
don't count. A bend is found on logarithmic axes (`benchmarks.bends`), and is a ring in the plot.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from statistics import median
from uuid import uuid4

from attrs import evolve, frozen
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.bends import Point, described
from benchmarks.command import run_part
from benchmarks.competitors import with_pending
from benchmarks.feed import UPDATES, Feed, FeedSpout, Scattered, emit_rows
from benchmarks.machine import tree_bytes
from benchmarks.memory import summing
from benchmarks.partitions import ManyPartitions
from benchmarks.parts import Part, Plot, Table
from benchmarks.rounds import quantile
from benchmarks.sizes import Sizes
from benchmarks.small import SmallCourse
from benchmarks.stage import LARGE, SMALL, Stage
from trident_py import SQLiteState, Sum, TridentConfig, TridentTopology

KEYS = 1_000
FEW_ROWS = 10
HISTORY_PENDING = 16
ALONE = 1
"""Pending transactions where one's own cost is looked at: of several, some end at the same moment."""

RESTARTS = 3
MILLIS = 1000

log = logging.getLogger("benchmarks")


@frozen
class Growth:
    """Makes the lines.

    Attributes:
        stage: for directories and ZooKeeper.
        spark: the session.
        sizes: the points, and how often each is measured.
    """

    stage: Stage
    spark: SparkSession
    sizes: Sizes

    def rows(self) -> Plot:
        """Rows in a batch: of a few keys, of as many keys as rows; and the bare job of the former."""
        few, many, bare = f"transaction, {KEYS:,} keys", "transaction, a key each row", f"bare job, {KEYS:,} keys"
        lines: dict[str, list[Point]] = {few: [], many: [], bare: []}
        self._transaction_millis(KEYS, KEYS)  # doesn't count
        for rows in self.sizes.growth_rows:
            lines[few].append((rows, self._transaction_millis(rows, KEYS)))
            lines[many].append((rows, self._transaction_millis(rows, rows)))
            lines[bare].append((rows, self._job_millis(rows, KEYS)))
        return Plot("growth-rows", "Rows in a batch", "rows", "ms a transaction", lines)

    def keys(self) -> Plot:
        """Keys in the state, met by batches of always as many rows."""
        batch = self.sizes.growth_batch
        points = [(keys, self._transaction_millis(batch, keys)) for keys in self.sizes.growth_keys]
        title = f"Keys in the state, {batch:,} rows a batch"
        return Plot("growth-keys", title, "keys", "ms a transaction", {"transaction": points})

    def partitions(self) -> Plot:
        """Partitions of a source that Spark tasks read."""
        points = []
        for number in self.sizes.growth_partitions:
            spout = ManyPartitions(number, FEW_ROWS)
            topology = TridentTopology("partitions")
            state = SQLiteState(self.stage.scratch("partitions") / "sums.db", table="sums")
            rows = topology.new_stream("updates", spout)
            rows.group_by("key").persistent_aggregate(state, Sum("amount"), "amount")
            with topology.start(self.stage.config(), spark=self.spark) as query:
                spout.allow(self.sizes.warm_up)
                query.process_all_available()
                started = time.perf_counter()
                spout.allow(self.sizes.warm_up + self.sizes.growth_repeats)
                query.process_all_available()
                took = time.perf_counter() - started
            points.append((number, MILLIS * took / self.sizes.growth_repeats))
        title = f"Partitions of the source, {FEW_ROWS} rows each"
        return Plot("growth-partitions", title, "partitions", "ms a transaction", {"transaction": points})

    def topologies(self) -> Plot:
        """Topologies in one driver, on one session."""
        points = [(number, MILLIS * self._side_by_side(number)) for number in self.sizes.growth_topologies]
        title = f"Topologies in one driver, {FEW_ROWS} rows a batch"
        lines = {"each topology": points, "all together": [(number, millis / number) for number, millis in points]}
        return Plot("growth-topologies", title, "topologies", "ms a transaction", lines)

    def _transaction_millis(self, rows: int, keys: int) -> float:
        feed, filling = Feed(), Scattered.filling(keys)
        with summing(self.stage, feed).start(self.stage.config(ALONE), spark=self.spark) as query:
            feed.hand_out(filling)
            query.process_all_available()
            feed.hand_out(Scattered.batches(self.sizes.warm_up + self.sizes.growth_repeats, rows, keys))
            query.process_all_available()
        return MILLIS * median(feed.steps(len(filling) + self.sizes.warm_up + 1))

    def _job_millis(self, rows: int, keys: int) -> float:
        took = []
        for batch in Scattered.batches(self.sizes.warm_up + self.sizes.growth_repeats, rows, keys):
            started = time.perf_counter()
            batch.frame(self.spark).groupBy("key").agg(F.sum("amount")).toArrow()
            took.append(time.perf_counter() - started)
        return MILLIS * median(took[self.sizes.warm_up :])

    def _side_by_side(self, number: int) -> float:
        """Seconds from one transaction of a topology to its next, while all of them are busy."""
        feeds = [Feed() for _ in range(number)]
        with ExitStack() as queries:
            config = self.stage.config()
            running = [
                queries.enter_context(summing(self.stage, feed, f"beside-{place}").start(config, spark=self.spark))
                for place, feed in enumerate(feeds)
            ]
            for batches in (self.sizes.warm_up, self.sizes.growth_repeats):
                started = time.perf_counter()
                for feed in feeds:
                    feed.hand_out(Scattered.batches(batches, FEW_ROWS, KEYS))
                for query in running:
                    query.process_all_available()
                took = time.perf_counter() - started
        return took / self.sizes.growth_repeats


@frozen
class SmallGrowth(Growth):
    """Makes those lines whose transactions are small."""

    def pending(self) -> Plot:
        """Transactions at once."""
        course = SmallCourse.of(self.stage, self.spark, self.sizes)
        lines: dict[str, list[Point]] = {"wall time a transaction": [], "latency, p50": []}
        course.trident(self.sizes.growth_pending[0])  # doesn't count
        for number in self.sizes.growth_pending:
            took = course.trident(number)
            latency = quantile(course.latencies[with_pending(number)], 0.5)
            lines["wall time a transaction"].append((number, MILLIS * took / self.sizes.small_batches))
            lines["latency, p50"].append((number, MILLIS * latency))
        title = f"Pending transactions, {self.sizes.small_sentences} sentences a batch"
        return Plot("growth-pending", title, "max_spout_pending", "ms", lines)

    def history(self) -> tuple[Plot, Plot]:
        """Committed transactions before a restart: how long that takes, and what ZooKeeper holds."""
        hosts = f"{self.stage.zookeeper}/{uuid4()}"
        config = evolve(self.stage.config(HISTORY_PENDING), zookeeper=hosts)
        feed = Feed()
        topology = TridentTopology("history")
        state = SQLiteState(self.stage.scratch("history") / "sums.db", table="sums")
        rows = topology.new_stream("updates", FeedSpout(feed, UPDATES, emit_rows))
        rows.group_by("key").persistent_aggregate(state, Sum("amount"), "amount")
        seconds, stored = [], []
        for length in self.sizes.growth_history:
            with topology.start(config, spark=self.spark) as query:
                feed.hand_out([[(key, 1) for key in range(FEW_ROWS)]] * (length - len(feed.batches)))
                query.process_all_available()
            stored.append((length, float(tree_bytes(hosts, f"{config.root}/{topology.name}"))))
            seconds.append((length, median(self._restart(topology, feed, config) for _ in range(RESTARTS))))
        restart = Plot(
            "growth-history",
            "From start to the first new success, by committed transactions",
            "transactions",
            "seconds",
            {"restart": seconds},
        )
        what = "What ZooKeeper holds of a topology, by committed transactions"
        return restart, Plot("growth-zookeeper", what, "transactions", "bytes", {"znodes": stored})

    def _restart(self, topology: TridentTopology, feed: Feed, config: TridentConfig) -> float:
        started = time.perf_counter()
        feed.hand_out([[(key, 1) for key in range(FEW_ROWS)]])
        with topology.start(config, spark=self.spark) as query:
            query.process_all_available()
        return feed.succeeded[len(feed.batches)] - started


def measure(stage: Stage, sizes: Sizes) -> Part:
    """All lines."""
    plots: list[Plot] = []
    with stage.session(LARGE) as spark:
        growth = Growth(stage, spark, sizes)
        for line in (growth.rows, growth.keys, growth.partitions, growth.topologies):
            log.info("growth: %s …", line.__name__)
            plots.append(line())
    with stage.session(SMALL) as spark:
        growth = SmallGrowth(stage, spark, sizes)
        log.info("growth: pending, history …")
        plots += [growth.pending(), *growth.history()]
    bends = [f"{plot.title}: {name} is {described(line)}" for plot in plots for name, line in plot.lines.items()]
    return Part(tables=[table(plot) for plot in plots], plots=plots, numbers=dict(numbers(plots)), notes=bends)


def table(plot: Plot) -> Table:
    """The points of a plot."""
    places = [x for x, _ in next(iter(plot.lines.values()))]
    values = {name: [y for _, y in line] for name, line in plot.lines.items()}
    rows = [
        {plot.x: f"{x:,.0f}"} | {f"{name}, {plot.y}": line[at] for name, line in values.items()}
        for at, x in enumerate(places)
    ]
    return Table(plot.title, rows)


def numbers(plots: Sequence[Plot]) -> Iterator[tuple[str, float]]:
    """Of each line, how many times as high its last point is as its first."""
    for plot in plots:
        line = next(iter(plot.lines.values()))
        yield f"{plot.name.replace('-', '_')}_last_to_first", line[-1][1] / line[0][1]


def main(argv: list[str] | None = None) -> int:
    """This part alone."""
    return run_part("growth", measure, argv)


if __name__ == "__main__":
    sys.exit(main())
