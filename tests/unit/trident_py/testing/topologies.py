"""Topologies in which nothing needs Spark, each with what it leaves behind. Spark must leave the same."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

from attrs import define, field, frozen

from trident_py.interfaces.context import TopologyContext
from trident_py.interfaces.operations import Aggregator, Filter, Function, ReducerAggregator
from trident_py.interfaces.partitioned import IPartitionedTridentSpout, ISpoutPartition
from trident_py.interfaces.states import StateUpdater
from trident_py.operations.builtin import Count, FilterNull, Max, Sum
from trident_py.operations.last import Last
from trident_py.operations.queries import MapGet
from trident_py.spouts.files.files import FileSpout
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.memory import MemoryMapState
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.topology import TridentTopology
from trident_py.windows.windows import SlidingCount, TumblingCount

Declared: TypeAlias = tuple[TridentTopology, Callable[[], Any]]
"""A topology, and what can be read afterwards."""

ORDERS = "category string, price double, quantity int"
ROWS: Sequence[tuple[Any, ...]] = [
    ("books", 10.5, 1),
    ("games", 20.0, 2),
    (None, 1.0, 7),
    ("books", 5.25, 3),
    ("", -0.0, 0),
    ("games", None, 4),
    ("ü", float("inf"), -1),
]


def orders() -> FixedBatchSpout:
    return FixedBatchSpout(ORDERS, 2, *ROWS)


class Parts(Function):
    """Each category as many times as it was bought."""

    def execute(self, tuple: Any, collector: Any) -> None:
        for number in range(max(0, tuple.quantity)):
            collector.emit((number,))


class Bought(Filter):
    def is_keep(self, tuple: Any) -> bool:
        return bool(tuple.quantity)


class Longest(ReducerAggregator[str]):
    def init(self) -> str:
        return ""

    def reduce(self, curr: str, tuple: Any) -> str:
        return max(curr, tuple.category or "", key=lambda text: (len(text), text))


class Ends(Aggregator[list[Any]]):
    """The first and the last value of a batch."""

    def init(self, batch_id: Any, collector: Any) -> list[Any]:
        return []

    def aggregate(self, value: list[Any], tuple: Any, collector: Any) -> None:
        value.append(tuple.quantity)

    def complete(self, value: list[Any], collector: Any) -> None:
        collector.emit((value[0], value[-1]) if value else (None, None))


class Remembering(StateUpdater[Any]):
    """Keeps the rows of each batch, and gives their number."""

    def update_state(self, state: Any, tuples: Any, collector: Any) -> None:
        state.rows.extend(map(tuple, tuples))
        collector.emit((len(tuples),))


def row_operations(_: Path) -> Declared:
    table = MemoryMapState.factory()
    topology = TridentTopology("rows")
    (
        topology.new_stream("orders", orders())
        .filter(Bought())
        .filter(FilterNull("price"))
        .each("quantity", Parts(), "part int")
        .map(lambda row: (row.category, row.price * 2, row.part), "category string, twice double, part int")
        .flat_map(lambda row: [(row.category, row.twice)] * 2, "category string, twice double")
        .filter(lambda row: row.twice != 0)
        .project("category", "twice")
        .parallelism_hint(3)
        .partition_by("category")
        .group_by("category")
        .persistent_aggregate(table, Sum("twice"), "sum")
    )
    return topology, table.values


def several_states(_: Path) -> Declared:
    longest, counts, sizes = (MemoryMapState.factory() for _ in range(3))
    topology = TridentTopology("several")
    stream = topology.new_stream("orders", orders())
    stream.persistent_aggregate(longest, Longest(), "longest string", "category")
    state = stream.group_by("category").persistent_aggregate(counts, Count(), "count")
    state.new_values_stream().group_by("count").persistent_aggregate(sizes, Count(), "n")
    return topology, lambda: (longest.values(), counts.values(), sizes.values())


def aggregated(_: Path) -> Declared:
    totals, ends = MemoryMapState.factory(), MemoryMapState.factory()
    topology = TridentTopology("aggregated")
    stream = topology.new_stream("orders", orders())
    summed = stream.group_by("category").aggregate(Sum("quantity"), "sum")
    summed.aggregate(Max("sum"), "greatest").group_by("greatest").persistent_aggregate(totals, Count(), "n")
    both = stream.aggregate(Ends(), "first int, last int", "quantity")
    both.group_by("first", "last").persistent_aggregate(ends, Count(), "n")
    return topology, lambda: (totals.values(), ends.values())


def sampled(_: Path) -> Declared:
    table, last, some = (MemoryMapState.factory() for _ in range(3))
    topology = TridentTopology("sampled")
    stream = topology.new_stream("orders", orders())
    kept = stream.map(lambda row: (row.category, row.quantity), "category string, quantity int").sample(0.5, 3)
    kept.group_by("category").persistent_aggregate(table, Count(), "count")
    stream.group_by("category").persistent_aggregate(last, Last("quantity"), "last")
    never_null = topology.new_stream("numbers", FixedBatchSpout("n int not null", 2, (1,), (2,), (3,)))
    never_null.sample(0.5, 1).persistent_aggregate(some, Sum("n"), "sum")
    return topology, lambda: (table.values(), last.values(), some.values())


def merged(_: Path) -> Declared:
    counts = MemoryMapState.factory()
    topology = TridentTopology("merged")
    words = topology.new_stream("words", FixedBatchSpout("word string", 1, ("a",), ("b",), ("a",)))
    more = topology.new_stream("more", FixedBatchSpout("text string", 3, ("b",), ("c",)))
    topology.merge(words, more.map(lambda row: (row.text * 2,), "text string"), words).group_by(
        "word"
    ).persistent_aggregate(counts, Count(), "count")
    return topology, counts.values


def windows(path: Path) -> Declared:
    table, sliding = SQLiteState(path / "windows.db", table="sums"), MemoryMapState.factory()
    topology = TridentTopology("windows")
    stream = topology.new_stream("orders", orders())
    tumbling = stream.window(TumblingCount(3), "quantity", Sum("quantity"), "sum")
    tumbling.group_by("sum").persistent_aggregate(table, Count(), "n")
    by_category = (
        stream.name("by-category")
        .group_by("category")
        .window(SlidingCount(2, 1), "quantity", Max("quantity"), "greatest")
    )
    by_category.group_by("category", "greatest").persistent_aggregate(sliding, Count(), "n")

    def read() -> Any:
        with closing(sqlite3.connect(path / "windows.db")) as database:
            return sorted(database.execute("SELECT sum, n FROM sums")), sliding.values()

    return topology, read


def queried(_: Path) -> Declared:
    prices, found = MemoryMapState.factory(), MemoryMapState.factory()
    topology = TridentTopology("queried")
    state = (
        topology.new_stream("prices", FixedBatchSpout("category string, price bigint", 9, ("books", 3), ("games", 4)))
        .group_by("category")
        .persistent_aggregate(prices, Sum("price"), "price")
    )
    asked = topology.new_stream("asked", FixedBatchSpout("category string", 1, ("games",), ("books",), ("toys",)))
    asked.state_query(state, "category", MapGet(), "price bigint").group_by("category").persistent_aggregate(
        found, Count(), "n"
    )
    return topology, lambda: (prices.values(), found.values())


def files(path: Path) -> Declared:
    (path / "logs").mkdir()
    for number in range(3):
        (path / "logs" / f"{number}.txt").write_text("".join(f"line {n % 7} of {number}\n" for n in range(200)))
    counts = MemoryMapState.factory()
    topology = TridentTopology("files")
    (
        topology.new_stream("lines", FileSpout(path / "logs/*.txt", max_bytes_per_batch=2_000))
        .flat_map(lambda line: [(word,) for word in line.value.split()], "word string")
        .group_by("word")
        .persistent_aggregate(counts, Count(), "count")
    )
    return topology, counts.values


@frozen
class Shelf(ISpoutPartition):
    name: str

    def get_id(self) -> str:
        return self.name


class Shelves:
    def is_ready(self, txid: int) -> bool:
        return txid <= 3

    def get_partitions_for_batch(self) -> list[str]:
        return ["a", "b"]


class Books:
    """Two books of each shelf a batch, in tasks; where the next batch begins is known only then."""

    def get_ordered_partitions(self, all_partition_info: list[str]) -> list[Shelf]:
        return [Shelf(name) for name in all_partition_info]

    def refresh_partitions(self, partition_responsibilities: Sequence[Shelf]) -> None:
        pass

    def emit_batch_new(self, tx: Any, collector: Any, partitions: Any, last: Mapping[Shelf, int]) -> dict[Shelf, int]:
        return {shelf: self._emitted(collector, shelf, last.get(shelf, 0)) for shelf in partitions}

    def re_emit_partition_batch(self, tx: Any, collector: Any, partition: Shelf, partition_meta: int) -> None:
        self._emitted(collector, partition, partition_meta - 2)

    def _emitted(self, collector: Any, shelf: Shelf, start: int) -> int:
        for number in range(start, start + 2):
            collector.emit((shelf.name, number))
        return start + 2


@define
class Library(IPartitionedTridentSpout[list[str], Shelf, int]):
    output_schema: str = field(default="shelf string, number int", init=False)

    def get_coordinator(self, conf: Any, context: TopologyContext) -> Any:
        return Shelves()

    def get_emitter(self, conf: Any, context: TopologyContext) -> Any:
        return Books()


def partitioned(_: Path) -> Declared:
    sums, counts = MemoryMapState.factory(), MemoryMapState.factory()
    topology = TridentTopology("partitioned")
    books = topology.new_stream("books", Library())
    books.group_by("shelf").persistent_aggregate(sums, Sum("number"), "sum")
    books.persistent_aggregate(counts, Count(), "count")
    return topology, lambda: (sums.values(), counts.values())


ALL = [row_operations, several_states, aggregated, sampled, merged, windows, queried, files, partitioned]
