"""The topologies whose data is kept in ``tests/golden/data``: what recorded it runs them, and what reads it does.

Everything here is declared through what both releases have in common, and must stay as it was recorded: names, fields,
types, tables, and what the spouts give. A spout's batch is a function of its transaction, so what a state must have
after so many transactions is known without running anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from attrs import define, field, frozen

from trident_py import TopologyContext, TransactionAttempt, TridentCollector, TridentConfig, TridentTopology
from trident_py.operations import Count, ReducerAggregator, Sum
from trident_py.spouts import (
    BatchCoordinator,
    Emitter,
    FileSpout,
    IOpaquePartitionedTridentSpout,
    IPartitionedTridentSpout,
    ISpoutPartition,
    ITridentSpout,
)
from trident_py.states import PostgresState, SQLiteState
from trident_py.windows import SlidingCount, SlidingDuration, TumblingCount, TumblingDuration

FILES = Path("/tmp/trident-golden")
"""Where the files of `files` must be, on any machine: it is in cursors, and in the fingerprints of rows."""

FILE_BATCH_BYTES = 200

# --- spouts -----------------------------------------------------------------------------------------------------------


@define
class Transactions(ITridentSpout[dict[str, Any]]):
    """Transaction t gives ``rows`` rows (t, number).

    Attributes:
        upto: how many transactions there are.
        padding: characters in each transaction's metadata; more than 4 Ki make it a blob of the record.
    """

    upto: int
    rows: int
    padding: int = 0
    output_schema: str = field(default="batch bigint, number bigint", init=False)

    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> Any:
        return TransactionsCoordinator(self.upto, self.padding)

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> Any:
        return TransactionsEmitter(self.rows)


@define
class TransactionsCoordinator(BatchCoordinator[dict[str, Any]]):
    upto: int
    padding: int

    def is_ready(self, txid: int) -> bool:
        return txid <= self.upto

    def initialize_transaction(
        self, txid: int, prev_metadata: dict[str, Any] | None, curr_metadata: dict[str, Any] | None
    ) -> dict[str, Any]:
        return curr_metadata or {"batch": txid, "padding": "x" * self.padding}


@define
class TransactionsEmitter(Emitter[dict[str, Any]]):
    rows: int

    def emit_batch(self, attempt: TransactionAttempt, metadata: dict[str, Any], collector: TridentCollector) -> None:
        batches = pa.array([metadata["batch"]] * self.rows, pa.int64())
        collector.emit_arrow(pa.table({"batch": batches, "number": pa.array(range(self.rows), pa.int64())}))


@frozen
class Shelf(ISpoutPartition):
    """A partition: an endless row of numbers."""

    name: str

    def get_id(self) -> str:
        return self.name


@define
class Shelves:
    """The coordinator of the partitioned spouts: the same two partitions in each batch."""

    upto: int

    def is_ready(self, txid: int) -> bool:
        return txid <= self.upto

    def get_partitions_for_batch(self) -> list[str]:
        return ["left", "right"]


@define
class Books:
    """The emitter of the partitioned spouts: two more numbers of each partition a batch."""

    def get_ordered_partitions(self, all_partition_info: list[str]) -> list[Shelf]:
        return [Shelf(name) for name in all_partition_info]

    def refresh_partitions(self, partition_responsibilities: Sequence[Shelf]) -> None:
        """Nothing is connected."""

    def emit_batch_new(
        self, tx: TransactionAttempt, collector: TridentCollector, partitions: Any, last: Mapping[Shelf, Any]
    ) -> dict[Shelf, Any]:
        return {
            shelf: self._emit(collector, shelf, last[shelf]["next"] if shelf in last else 0) for shelf in partitions
        }

    def re_emit_partition_batch(
        self, tx: TransactionAttempt, collector: TridentCollector, partition: Shelf, partition_meta: Any
    ) -> None:
        self._emit(collector, partition, partition_meta["next"] - 2)

    def _emit(self, collector: TridentCollector, shelf: Shelf, start: int) -> dict[str, int]:
        for number in (start, start + 1):
            collector.emit((shelf.name, number))
        return {"next": start + 2}


@define
class ExactShelves(IPartitionedTridentSpout[list[str], Shelf, Any]):
    upto: int
    output_schema: str = field(default="shelf string, number bigint", init=False)

    def get_coordinator(self, conf: TridentConfig, context: TopologyContext) -> Any:
        return Shelves(self.upto)

    def get_emitter(self, conf: TridentConfig, context: TopologyContext) -> Any:
        return Books()


@define
class OpaqueShelves(IOpaquePartitionedTridentSpout[list[str], Shelf, Any]):
    upto: int
    output_schema: str = field(default="shelf string, number bigint", init=False)

    get_coordinator = ExactShelves.get_coordinator
    get_emitter = ExactShelves.get_emitter


# --- topologies, by the name of the directory that has their data -----------------------------------------------------

Declared = Callable[[Path, int], TridentTopology]
"""Declares a topology: where its databases are, and how many transactions there are."""


def keyed(row: Any) -> list[tuple[Any, ...]]:
    """A key of several types for each of seven numbers."""
    digit = row.number % 7
    return [
        (
            None if digit == 0 else f"wörd '{digit}'",
            digit % 2 == 0,
            date(2020, 2, 28 + digit % 2),
            Decimal(digit) / 4,
            digit / 3,
            row.batch,
            Decimal(row.number) / 100,
        )
    ]


class Joined(ReducerAggregator[str]):
    """The batches that gave rows, as text: order shows in it, and so does whatever comes twice."""

    def init(self) -> str:
        return ""

    def reduce(self, current: str, row: Any) -> str:
        return current if current.endswith(f"{row.batch};") else f"{current}{row.batch};"


class Numbers(ReducerAggregator[int]):
    """The sum of the numbers of rows that it sees whole."""

    def init(self) -> int:
        return 0

    def reduce(self, current: int, row: Any) -> int:
        return current + int(row.number) * (len(row.text) > 0)


def torn_group(at: Path, upto: int) -> TridentTopology:
    """Three states, of which the first two have a group commit and the last one hasn't."""
    topology = TridentTopology("golden-torn-group")
    rows = topology.new_stream("numbers", Transactions(upto, 20)).flat_map(
        keyed,
        "word string, even boolean, day date, price decimal(10,2), ratio double, batch bigint, amount decimal(9,2)",
    )
    database = at / "state.db"
    rows.group_by("word", "even", "day", "price", "ratio").persistent_aggregate(
        SQLiteState(database, table="by_key"), Sum("amount"), "amount"
    )
    rows.group_by("even").persistent_aggregate(SQLiteState(database, table="batches"), Joined(), "batches string")
    rows.persistent_aggregate(SQLiteState(database, table="rows"), Count(), "count")
    return topology


def split_group(at: Path, upto: int) -> TridentTopology:
    """Large batches, each committed by itself: the state is three ahead, and forgot where the group began (R1.1)."""
    topology = TridentTopology("golden-split-group")
    stream = topology.new_stream("numbers", Transactions(upto, 5000))
    counted = stream.map(lambda row: (row.number % 10,), "digit bigint").group_by("digit")
    counted.persistent_aggregate(SQLiteState(at / "state.db", table="counts"), Count(), "count")
    return topology


def owed_success(at: Path, upto: int) -> TridentTopology:
    """Metadata that are blobs, and a transaction that is committed, its success not delivered."""
    topology = TridentTopology("golden-owed-success")
    stream = topology.new_stream("numbers", Transactions(upto, 3, padding=5000))
    stream.group_by("batch").persistent_aggregate(SQLiteState(at / "state.db", table="counts"), Count(), "count")
    return topology


def exact_partitions(at: Path, upto: int) -> TridentTopology:
    """A pinned transaction that no state has, and splits of those behind it."""
    return _shelves("golden-exact-partitions", ExactShelves(upto), at)


def opaque_partitions(at: Path, upto: int) -> TridentTopology:
    """A pinned transaction that the state has."""
    return _shelves("golden-opaque-partitions", OpaqueShelves(upto), at)


def _shelves(name: str, spout: Any, at: Path) -> TridentTopology:
    topology = TridentTopology(name)
    sums = topology.new_stream("shelves", spout).group_by("shelf")
    sums.persistent_aggregate(SQLiteState(at / "state.db", table="sums"), Sum("number"), "sum")
    return topology


def windows(at: Path, upto: int) -> TridentTopology:
    """All four kinds of windows; the results of one of them are not committed, though its window is."""
    topology = TridentTopology("golden-windows")
    database = at / "state.db"
    for spout, by_rows, by_time in (
        ("tumbling", TumblingCount(5), TumblingDuration(3600)),
        ("sliding", SlidingCount(6, 4), SlidingDuration(7200, 3600)),
    ):
        rows = topology.new_stream(spout, Transactions(upto, 7))
        for kind, window in (("rows", by_rows), ("time", by_time)):
            name = f"{spout}-{kind}"
            results = rows.name(name).window(window, ["batch", "number"], Sum("number"), "total")
            results.persistent_aggregate(SQLiteState(database, table=f"{spout}_{kind}"), Sum("total"), "total")
    return topology


def long_window(at: Path, upto: int) -> TridentTopology:
    """A window whose rows are more than 64 KiB, so that they are kept in a slot beside its head."""
    topology = TridentTopology("golden-long-window")
    rows = topology.new_stream("numbers", Transactions(upto, 60)).map(
        lambda row: (row.number, "x" * 1500), "number bigint, text string"
    )
    fired = rows.name("long").window(SlidingCount(100, 50), ["number", "text"], Numbers(), "total bigint")
    fired.persistent_aggregate(SQLiteState(at / "state.db", table="totals"), Sum("total"), "total")
    return topology


def files(at: Path, upto: int = 0) -> TridentTopology:
    """Files in `FILES`: plain, compressed, read to the end and deleted, partly read; and rows with fingerprints."""
    topology = TridentTopology("golden-files")
    lines = topology.new_stream("lines", FileSpout(FILES / "*.log*", FILE_BATCH_BYTES))
    words = lines.flat_map(lambda row: [(word,) for word in row.value.split()], "word string")
    words.group_by("word").persistent_aggregate(SQLiteState(at / "state.db", table="words"), Count(), "count")
    lines.persistent_aggregate(SQLiteState(at / "state.db", table="lines"), Count(), "count")
    return topology


def postgres(dsn: str, upto: int) -> TridentTopology:
    """Staged rows of a killed attempt, a group commit behind it, and an ungrouped value with a reducer."""
    topology = TridentTopology("golden-postgres")
    rows = topology.new_stream("numbers", Transactions(upto, 5000)).flat_map(
        keyed,
        "word string, even boolean, day date, price decimal(10,2), ratio double, batch bigint, amount decimal(9,2)",
    )
    rows.group_by("word", "even", "day", "price", "ratio").persistent_aggregate(
        PostgresState(dsn, table="by_key"), Sum("amount"), "amount"
    )
    rows.persistent_aggregate(PostgresState(dsn, table="batches"), Joined(), "batches string")
    return topology


TOPOLOGIES: dict[str, Declared] = {
    each.__name__.replace("_", "-"): each
    for each in (
        torn_group,
        split_group,
        owed_success,
        exact_partitions,
        opaque_partitions,
        windows,
        long_window,
        files,
    )
}


# --- input, and what must come of it ----------------------------------------------------------------------------------

RECORDED_FILES = {"a.log": 4, "b.log.gz": 5, "c.log": 12, "d.log.gz": 6, "e.log": 30}
"""All that were there at some time, with the number of lines. The first two were committed by a first leadership, then
``a.log`` was deleted."""

Rows = list[tuple[Any, ...]]


def file_lines(name: str, count: int) -> list[str]:
    """The lines of a file, without what compresses it."""
    return [f"line {number:02} of {name} says wörd{number % 3}" for number in range(count)]


def expected(name: str, upto: int) -> dict[str, Rows]:
    """What the states of a scenario have after so many transactions, by the query that asks; in one thread, by hand."""
    numbers = list(range(7)) * upto
    match name:
        case "torn-group":
            return {
                **keyed_rows(20, upto),
                "SELECT even, batches FROM batches": [(even, _joined(upto)) for even in (False, True)],
                "SELECT count FROM rows": [(20 * upto,)],
            }
        case "split-group":
            return {"SELECT digit, count FROM counts": [(digit, 500 * upto) for digit in range(10)]}
        case "owed-success":
            return {"SELECT batch, count FROM counts": [(batch, 3) for batch in range(1, upto + 1)]}
        case "exact-partitions" | "opaque-partitions":
            return {"SELECT shelf, sum FROM sums": [(shelf, sum(range(2 * upto))) for shelf in ("left", "right")]}
        case "windows":
            return {
                "SELECT total FROM tumbling_rows": [(_windows(numbers, 5, 5),)],
                "SELECT total FROM sliding_rows": [(_windows(numbers, 6, 4),)],
            }
        case "long-window":
            return {"SELECT total FROM totals": [(_windows(list(range(60)) * upto, 100, 50),)]}
        case "postgres":
            return {**keyed_rows(5000, upto), "SELECT batches FROM batches": [(_joined(upto),)]}
    raise ValueError(name)


def keyed_rows(rows: int, upto: int) -> dict[str, Rows]:
    """The sums of `keyed` by key, as any client of the database sees them."""
    found: dict[tuple[Any, ...], Decimal] = {}
    for number in range(rows):
        digit = number % 7
        word = f"wörd '{digit}'" if digit else None
        key = (word, digit % 2 == 0, f"2020-02-{28 + digit % 2}", f"{digit / 4:.2f}", digit / 3)
        found[key] = found.get(key, Decimal(0)) + upto * Decimal(number) / 100
    return {
        "SELECT word, even, CAST(day AS text), CAST(price AS text), ratio, CAST(amount AS text) FROM by_key": [
            (*key, f"{amount:.2f}") for key, amount in found.items()
        ]
    }


def _joined(upto: int) -> str:
    return "".join(f"{batch};" for batch in range(1, upto + 1))


def _windows(numbers: Sequence[int], length: int, slide: int) -> int:
    """The sum of the sums of all windows that have fired."""
    return sum(sum(numbers[max(0, end - length) : end]) for end in range(slide, len(numbers) + 1, slide))
