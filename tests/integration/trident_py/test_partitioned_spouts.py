"""Partitioned spouts: emitted by tasks, their metadata with the commit, replayed exactly or from what was committed."""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field, frozen
from pyspark.sql import SparkSession

from tests.integration.trident_py.test_query import PATIENCE_SECONDS
from tests.servers.spark import NEEDS_REPORTS
from trident_py import (
    Count,
    FailedException,
    IOpaquePartitionedTridentSpout,
    IPartitionedTridentSpout,
    ISpoutPartition,
    SpoutError,
    SQLiteState,
    Stream,
    TopologyContext,
    TransactionAttempt,
    TridentCollector,
    TridentConfig,
    TridentTopology,
)

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper, NEEDS_REPORTS]


@frozen
class Shelf(ISpoutPartition):
    """A directory of numbered files is a partition."""

    name: str

    def get_id(self) -> str:
        return self.name


@define
class Shelves:
    """The coordinator: as duck types go, without a base class.

    Attributes:
        batches: how many there are, so that a test comes to an end.
    """

    root: Path
    batches: int

    def is_ready(self, txid: int) -> bool:
        return txid <= self.batches

    def get_partitions_for_batch(self) -> list[str]:
        return sorted(shelf.name for shelf in self.root.iterdir() if shelf.is_dir() and not (shelf / "gone").exists())


@define
class Books:
    """The emitter: two files of each shelf a batch. It writes down what it is asked."""

    root: Path
    log: Path

    def get_ordered_partitions(self, all_partition_info: list[str]) -> list[Shelf]:
        return [Shelf(name) for name in all_partition_info]

    def refresh_partitions(self, partition_responsibilities: Sequence[Shelf]) -> None:
        assert len(set(partition_responsibilities)) == len(partition_responsibilities)

    def emit_batch_new(
        self, tx: TransactionAttempt, collector: TridentCollector, partitions: Any, last: Mapping[Shelf, int]
    ) -> dict[Shelf, int]:
        assert set(last) <= set(partitions)
        return {shelf: self.emit_from(tx, collector, shelf, last.get(shelf, 0), "new") for shelf in partitions}

    def re_emit_partition_batch(
        self, tx: TransactionAttempt, collector: TridentCollector, partition: Shelf, partition_meta: int
    ) -> None:
        self.emit_from(tx, collector, partition, partition_meta - 2, "again")

    def emit_from(self, tx: TransactionAttempt, collector: TridentCollector, shelf: Shelf, start: int, how: str) -> int:
        for number in range(start, start + 2):
            collector.emit((f"{shelf.name}{number}",))
        with self.log.open("a") as log:
            log.write(f"{tx.txid} {how} {shelf.name} {start}\n")
        return start + 2


@define
class Library(IPartitionedTridentSpout[list[str], Shelf, int]):
    """Gives the same again."""

    root: Path
    batches: int
    output_schema: str = field(default="book string", init=False)

    def get_coordinator(self, conf: TridentConfig, context: TopologyContext) -> Any:
        return Shelves(self.root, self.batches)

    def get_emitter(self, conf: TridentConfig, context: TopologyContext) -> Any:
        assert context.spark is None
        return Books(self.root, self.root.parent / "log")


@define
class OpaqueLibrary(IOpaquePartitionedTridentSpout[list[str], Shelf, int]):
    """Says that it may not."""

    root: Path
    batches: int
    output_schema: str = field(default="book string", init=False)

    get_coordinator = Library.get_coordinator
    get_emitter = Library.get_emitter


SPOUTS = pytest.mark.parametrize("spout", [Library, OpaqueLibrary])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in "abc":
        (tmp_path / "shelves" / name).mkdir(parents=True)
    return tmp_path / "shelves"


def counted(database: Path) -> dict[str, int]:
    with closing(sqlite3.connect(database)) as connection:
        return dict(connection.execute("SELECT book, count FROM books"))


def emitted(root: Path) -> list[str]:
    return sorted((root.parent / "log").read_text().splitlines())


def books(root: Path, spout: Any, watch: Callable[[Stream], Stream] = lambda stream: stream) -> TridentTopology:
    topology = TridentTopology("library")
    stream = watch(topology.new_stream("books", spout))
    stream.group_by("book").persistent_aggregate(SQLiteState(root.parent / "books.db", table="books"), Count(), "count")
    return topology


def failing_once(root: Path, book: str) -> Callable[[Stream], Stream]:
    marker = root.parent / "failed"

    def check(row: Any) -> None:
        if row.book == book and not marker.exists():
            marker.touch()
            raise FailedException("once")

    return lambda stream: stream.peek(check)


@SPOUTS
def test_p7_p8_each_partition_goes_on_where_its_last_batch_ended_over_restarts(
    spout: Any, spark: SparkSession, config: TridentConfig, root: Path
) -> None:
    for upto in (2, 3):
        with books(root, spout(root, upto)).start(config, spark=spark) as query:
            query.process_all_available(PATIENCE_SECONDS)
    assert counted(root.parent / "books.db") == {f"{shelf}{number}": 1 for shelf in "abc" for number in range(6)}
    assert emitted(root) == sorted(f"{txid} new {shelf} {2 * txid - 2}" for txid in (1, 2, 3) for shelf in "abc")
    assert query.last_progress
    assert query.last_progress["num_input_rows"] == 6


@pytest.mark.parametrize(("spout", "how"), [(Library, "again"), (OpaqueLibrary, "new")])
def test_b7_8_b8_3_a_replay_is_the_same_batch_or_goes_on_from_the_one_before(
    spout: Any, how: str, spark: SparkSession, config: TridentConfig, root: Path
) -> None:
    with books(root, spout(root, 4), failing_once(root, "b3")).start(config, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
    assert counted(root.parent / "books.db") == {f"{shelf}{number}": 1 for shelf in "abc" for number in range(8)}
    assert f"2 {how} b 2" in emitted(root)


@SPOUTS
def test_b7_2_b7_6_partitions_appear_and_vanish_and_one_that_returns_goes_on_where_it_was(
    spout: Any, spark: SparkSession, config: TridentConfig, root: Path
) -> None:
    changes: list[Callable[[], Any]] = [(root / "d").mkdir, (root / "a" / "gone").touch, (root / "a" / "gone").unlink]
    for upto, change in enumerate(changes, 1):
        with books(root, spout(root, upto)).start(config, spark=spark) as query:
            query.process_all_available(PATIENCE_SECONDS)
        change()
    with books(root, spout(root, 4)).start(config, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
    found = counted(root.parent / "books.db")
    assert set(found.values()) == {1}
    assert {shelf: sum(book[0] == shelf for book in found) for shelf in "abcd"} == {"a": 6, "b": 8, "c": 8, "d": 6}
    assert "4 new a 4" in emitted(root)


def test_s8_a_replay_of_an_exact_batch_with_other_rows_ends_the_topology_and_names_the_spout(
    spark: SparkSession, config: TridentConfig, root: Path
) -> None:
    class Forgetful(Books):
        def re_emit_partition_batch(self, tx: Any, collector: TridentCollector, partition: Any, meta: int) -> None:
            collector.emit(("another book",))

    class Wrong(Library):
        def get_emitter(self, conf: TridentConfig, context: TopologyContext) -> Any:
            return Forgetful(self.root, self.root.parent / "log")

    query = books(root, Wrong(root, 2), failing_once(root, "b1")).start(config, spark=spark)
    with query, pytest.raises(SpoutError, match=r"'library', spout 'books', transaction 1: .*read 3 rows .*had|read 6"):
        query.process_all_available(PATIENCE_SECONDS)
    assert counted(root.parent / "books.db") == {}


@pytest.mark.parametrize(
    ("returned", "complaint"),
    [
        (None, "emit_batch_new returned None; to fix this: return a dict"),
        ({"x": 1}, r"returned metadata of partition 'x'; given were \["),
        ({"a": {1, 2}}, "which would not come back equal from JSON"),
    ],
)
def test_p13_what_an_emitter_returns_wrongly_is_an_error_that_names_the_spout(
    returned: Any, complaint: str, spark: SparkSession, config: TridentConfig, root: Path
) -> None:
    class Careless(Books):
        def get_ordered_partitions(self, all_partition_info: list[str]) -> Any:
            return all_partition_info

        def emit_batch_new(self, tx: Any, collector: TridentCollector, partitions: Any, last: Any) -> Any:
            return returned

    class Wrong(Library):
        def get_emitter(self, conf: TridentConfig, context: TopologyContext) -> Any:
            return Careless(self.root, self.root.parent / "log")

    query = books(root, Wrong(root, 1)).start(config, spark=spark)
    with query, pytest.raises(Exception, match=f"'library', spout 'books', attempt 1:0: .*{complaint}"):
        query.process_all_available(PATIENCE_SECONDS)


def test_the_example_of_a_partitioned_source_sums_each_order_once_over_restarts(
    spark: SparkSession, config: TridentConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    example = importlib.import_module("examples.partitioned")
    (tmp_path / "shards").mkdir()
    for number, amounts in enumerate([range(1, 2500), range(10)]):
        with closing(sqlite3.connect(tmp_path / "shards" / f"{number}.db")) as database:
            database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT, amount INTEGER)")
            database.executemany("INSERT INTO orders (item, amount) VALUES ('book', ?)", [(each,) for each in amounts])
            database.commit()
        with example.topology.start(config, spark=spark) as query:
            query.process_all_available(PATIENCE_SECONDS)
    assert example.rows("sold.db", "SELECT item, amount FROM sold") == [("book", sum(range(2500)) + sum(range(10)))]
