"""What the soak runs: a topology with every kind of transaction, and an input that never ends but stays as large."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import define, field, frozen
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from coordinators.record.wishes import Rate
from trident_py import (
    BatchCoordinator,
    Count,
    Emitter,
    FailedException,
    FileSpout,
    ITridentSpout,
    MapGet,
    State,
    StateFactory,
    StateUpdater,
    Sum,
    TopologyContext,
    TransactionAttempt,
    TridentCollector,
    TridentConfig,
    TridentQuery,
    TridentTopology,
    TumblingCount,
)
from trident_py.states import MemoryMapState

TOPOLOGY = "soak"
SLOW_PENDING = 4
KEYS = 500
SMALL_ROWS = 20
LARGE_ROWS = 20_000
LARGE_EVERY = 8
"""Of so many batches of updates one is large."""

BURST = 16
"""So many batches at the beginning are all large: then there are as many threads as will ever be needed at once."""

FAILS_EVERY = 12
"""Of so many transactions one fails when it first commits, and comes again with all after it."""

SMALL_LINES = 20
LARGE_LINES = 5_000
"""More than is read on the driver."""

ROTATE_BYTES = 1 << 20
PATIENCE_SECONDS = 300.0


@define(eq=False)
class Updates(ITridentSpout[int]):
    """Rows of a key and an amount; a batch is defined by the txid, and there are as many as were allowed.

    Attributes:
        large: whether some batches are large.
        allowed: up to which transaction there is something.
        defined: the last one.
    """

    output_schema = "key bigint, amount bigint"
    large: bool = True
    allowed: int = 0
    defined: int = 0

    def allow(self, batches: int) -> None:
        """Have so many more."""
        self.allowed = self.defined + batches

    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> BatchCoordinator[int]:
        return UpdatesCoordinator(self)

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> Emitter[int]:
        assert context.spark is not None
        return UpdatesEmitter(context.spark, self.large)


@frozen
class UpdatesCoordinator(BatchCoordinator[int]):
    """Defines a batch by its number."""

    spout: Updates

    def is_ready(self, txid: int) -> bool:
        return txid <= self.spout.allowed

    def initialize_transaction(self, txid: int, prev_metadata: int | None, curr_metadata: int | None) -> int:
        self.spout.defined = txid
        return txid


@frozen
class UpdatesEmitter(Emitter[int]):
    """Gives a few rows one by one, or many as a frame."""

    spark: SparkSession
    large: bool

    def emit_batch(self, attempt: TransactionAttempt, metadata: int, collector: TridentCollector) -> None:
        if self.large and (metadata <= BURST or metadata % LARGE_EVERY == 0):
            key = F.pmod(F.col("id"), F.lit(KEYS)).alias("key")
            collector.emit_dataframe(self.spark.range(LARGE_ROWS).select(key, F.lit(1).cast("bigint").alias("amount")))
            return
        for row in range(SMALL_ROWS):
            collector.emit(((metadata * SMALL_ROWS + row) % KEYS, 1))


@define(eq=False)
class FailsAtTimes(State, StateUpdater[State], StateFactory):
    """Keeps nothing, and fails the first commit of some transactions."""

    failed: int = 0

    def make_state(self, *_: Any) -> State:
        return self

    def update_state(self, state: State, tuples: Sequence[Any], collector: TridentCollector) -> None:
        """Take the rows for granted."""

    def begin_commit(self, txid: int) -> None:
        """Nothing depends on it."""

    def commit(self, txid: int) -> None:
        if txid % FAILS_EVERY == 0 and txid != self.failed:
            self.failed = txid
            raise FailedException("once")


@define(eq=False)
class Lines:
    """A log that grows and is rotated, so that there are two files, the older one of a mebibyte or so."""

    directory: Path
    _written: int = field(default=0, init=False)

    @property
    def pattern(self) -> Path:
        """Of the files."""
        return self.directory / "input.log*"

    def write(self, lines: int) -> None:
        """Append lines."""
        log = self.directory / "input.log"
        if log.exists() and log.stat().st_size > ROTATE_BYTES:
            log.replace(log.with_name("input.log.1"))
        with log.open("a") as file:
            for _ in range(lines):
                self._written += 1
                file.write(f"word{self._written % KEYS} number {self._written}\n")


@define(eq=False)
class Load:
    """A topology and its input.

    Attributes:
        directory: where the files are that it reads.
        words: the state in which the words of the files are counted.
        sums: the one in which updates are summed.
        totals: the one for windows of them.
        slow: the rate of its slow rounds.
    """

    slow = Rate(batches_per_second=20.0, pending=SLOW_PENDING)
    directory: Path
    words: StateFactory
    sums: StateFactory
    totals: StateFactory
    _updates: Updates = field(factory=Updates, init=False)
    _lines: Lines = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.directory.mkdir()
        self._lines = Lines(self.directory)
        self._lines.write(1)

    def topology(self) -> TridentTopology:
        """Two spouts, four states, a window, what has changed of a state, and requests."""
        topology, failing = TridentTopology(TOPOLOGY), FailsAtTimes()
        lines = topology.new_stream("lines", FileSpout(self._lines.pattern))
        words = lines.flat_map(lambda line: [(line.value.partition(" ")[0],)], "word string")
        words.group_by("word").persistent_aggregate(self.words, Count(), "count")
        updates = topology.new_stream("updates", self._updates)
        sums = updates.group_by("key").persistent_aggregate(self.sums, Sum("amount"), "sum")
        changed = sums.new_values_stream()
        changed.partition_persist(failing, failing, ["key", "sum"])
        changed.aggregate(Count(), "n").persistent_aggregate(MemoryMapState.factory(), Sum("n"), "changes")
        windows = updates.window(TumblingCount(1_000), "amount", Sum("amount"), "total")
        windows.group_by("total").persistent_aggregate(self.totals, Count(), "windows")
        asked = topology.new_drpc_stream("sum").map(lambda row: (int(row.args),), "key bigint").group_by("key")
        asked.state_query(sums, "key", MapGet(), "sum bigint")
        return topology

    def burst(self, query: TridentQuery) -> None:
        """Have many large batches processed at once; to be called first."""
        self._updates.allow(BURST)
        query.process_all_available(PATIENCE_SECONDS)

    def round(self, query: TridentQuery) -> None:
        """Hand out small and large batches, ask something, and return when all is committed."""
        self._lines.write(SMALL_LINES)
        self._updates.allow(LARGE_EVERY)
        query.process_all_available(PATIENCE_SECONDS)
        self._lines.write(LARGE_LINES)
        query.process_all_available(PATIENCE_SECONDS)
        query.execute("sum", "1", PATIENCE_SECONDS)
