"""Lines that pass through into Parquet files, one directory a batch, the four ways.

- ``bare``        ``spark.read.text`` and ``write.parquet`` for each file
- ``loop``        the same into a staging directory, which is then renamed to the number of its batch, and made durable
- ``trident_py``  a topology with a sink of our own that does just that: `prepare` stages, `commit` renames
- ``streaming``   the file sink of Structured Streaming, exactly once by the log in its output directory; its seconds
                  are those that it reports for its triggers
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from attrs import define, frozen
from pyspark.sql import DataFrame, SparkSession

from benchmarks.competitors import STREAMING, Laps, line_up
from benchmarks.feed import FeedSpout
from benchmarks.stage import Stage
from benchmarks.workloads import FeedHand, Inputs, NativeWords
from trident_py import TridentTopology
from trident_py.sinks import CommitToken, SinkTransaction, TopologyKey, TransactionalSink


@frozen
class Passing:
    """The competitors.

    Attributes:
        stage: for directories and ZooKeeper.
        spark: the session of all of them.
        inputs: files of lines.
    """

    stage: Stage
    spark: SparkSession
    inputs: Inputs

    def competitors(self, pending: tuple[int, ...]) -> dict[str, Callable[[], float]]:
        """By name."""
        return line_up(self.bare, self.loop, self.trident, pending) | {STREAMING: self.streaming}

    def bare(self) -> float:
        """The jobs alone."""
        clock, out = Laps(self.inputs.warm_up), self.stage.scratch("bare")
        for number, path in enumerate(self.inputs.files):
            self.spark.read.text(str(path)).write.parquet(str(out / str(number)))
            clock.lap()
        return clock.seconds

    def loop(self) -> float:
        """Stage, then rename."""
        clock, out = Laps(self.inputs.warm_up), self.stage.scratch("loop")
        for number, path in enumerate(self.inputs.files):
            self.spark.read.text(str(path)).write.parquet(str(out / "staged"))
            publish(out / "staged", out / str(number))
            clock.lap()
        return clock.seconds

    def trident(self, pending: int | None = None) -> float:
        """A topology that writes to a sink."""
        out = self.stage.scratch("trident")
        hand, work = FeedHand.of_files(self.inputs), NativeWords(self.inputs)
        topology = TridentTopology("benchmark")
        topology.new_stream("lines", FeedSpout(hand.feed, "value string", work.emit)).write_to(Directories(out))
        with topology.start(self.stage.config(pending), spark=self.spark) as query:
            seconds = hand.seconds(query)
        assert len(list((out / "data").iterdir())) == len(self.inputs.files)
        return seconds

    def streaming(self) -> float:
        """The file sink."""
        out = self.stage.scratch("streaming")
        reader = self.spark.readStream.option("maxFilesPerTrigger", 1)
        writer = reader.schema("value string").text(str(self.inputs.directory)).writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(out / "checkpoint")).option("path", str(out / "data"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        millis = [entry.durationMs["triggerExecution"] for entry in query.recentProgress if entry.numInputRows]
        return sum(millis[self.inputs.warm_up :]) / 1000


def publish(staged: Path, place: Path) -> None:
    """Make what is staged visible, durably and in one step."""
    for file in staged.iterdir():
        sync(file)
    sync(staged)
    staged.rename(place)
    sync(place.parent)


def sync(path: Path) -> None:
    """Make a file or directory durable."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


@define(eq=False)
class Directories(TransactionalSink[Path]):
    """A directory of Parquet files for each transaction, whose name is the commit token: data and token in one rename.

    One leader only, as a benchmark has it: it raises no fence.
    """

    out: Path

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        """Sweep what was staged, and look at the last name."""
        shutil.rmtree(self.out / "staged", ignore_errors=True)
        for name in ("staged", "data"):
            (self.out / name).mkdir(exist_ok=True)
        tokens = [CommitToken(*map(int, path.name.split("-"))) for path in (self.out / "data").iterdir()]
        return max(tokens, default=None)

    def prepare(self, tx: SinkTransaction, frame: DataFrame) -> Path:
        """Write it aside."""
        place = self.out / "staged" / named(tx.token)
        frame.write.parquet(str(place))
        return place

    def commit(self, tx: SinkTransaction, receipt: Path) -> None:
        """Rename it, unless that was done."""
        if receipt.exists():
            publish(receipt, self.out / "data" / named(tx.token))

    def abort(self, tx: SinkTransaction, receipt: Path | None) -> None:
        """Remove it."""
        shutil.rmtree(self.out / "staged" / named(tx.token), ignore_errors=True)


def named(token: CommitToken) -> str:
    """The directory of a token."""
    return f"{token.txid}-{token.epoch}-{token.attempt_id}"
