"""Kills under a topology that writes to PostgreSQL, Delta, Iceberg and files at once: all of them agree with the input.

    python -m tests.faults.stores --minutes 10 [--seed N] [--keep]

In PostgreSQL there are two states and a sink, which commit in one transaction; somebody looks at them all the time, and
never sees them disagree. Libraries that aren't ours read each store meanwhile (`tests.faults.looking`), and never see a
part of a transaction. Leader and standby are killed with SIGKILL, again and again. In the end each row of the input is
in each of the sinks once, and was counted once.
"""

from __future__ import annotations

import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any, TypeAlias

import psycopg
import pyarrow.dataset as ds
from attrs import define, field
from deltalake import DeltaTable

from tests.faults.case import Feeder
from tests.faults.killing import Killing
from tests.faults.looking import measures
from tests.faults.program import url_of
from tests.faults.readers import Readers, counted, torn
from tests.faults.together import LOOKS_MIN, Reader
from tests.faults.world import World, options, say
from tests.unit.trident_py.sinks.iceberg.tables import NAME, catalog_at, table_at
from trident_py import Count, DeltaSink, FileSink, IcebergSink, PostgresState, SQLSink, TridentTopology
from trident_py.spouts import FileSpout

BATCH_BYTES = 4096
ROWS_A_TURN = 5
WORDS = 5000
SEEN_MIN = 5
"""How often each library has to have read each store, so that it has seen anything."""

Row: TypeAlias = tuple[Any, ...]


def declared(name: str, input: str, dsn: str, directory: str) -> TridentTopology:
    """The topology: rows are counted in two tables and written to a third one, to a Delta table and to files."""
    topology = TridentTopology(name)
    rows = topology.new_stream("lines", FileSpout(input, max_bytes_per_batch=BATCH_BYTES)).map(
        lambda line: line.value.split(), "id string, word string"
    )
    rows.group_by("word").persistent_aggregate(PostgresState(dsn, table="counts"), Count(), "count")
    rows.persistent_aggregate(PostgresState(dsn, table="totals"), Count(), "n")
    rows.name("words").write_to(SQLSink(url_of(dsn), "words"))
    rows.name("delta").write_to(DeltaSink(f"{directory}/delta", compact_every=5))
    catalog = catalog_at(Path(directory) / "iceberg")
    rows.name("iceberg").write_to(IcebergSink(NAME, catalog=catalog, expire_after=timedelta(seconds=30)))
    rows.name("files").write_to(FileSink(f"{directory}/files"))
    return topology


@define(eq=False)
class Numbered(Feeder):
    """Appends lines of a number, never the same, and a word."""

    _numbers: Iterator[int] = field(factory=count, init=False)

    def _feed(self, turn: int) -> None:
        with (self.directory / f"{turn // 100:04}-{turn % 3}.txt").open("a") as file:
            for number in (next(self._numbers) for _ in range(ROWS_A_TURN)):
                file.write(f"{number} word{int(self.chance.paretovariate(0.7)) % WORDS}\n")


def differences(rows: list[tuple[str, ...]], dsn: str, directory: Path) -> list[str]:
    """Where what was written is not what was read: nothing if each row is everywhere once."""
    with psycopg.connect(dsn) as connection:
        words = connection.execute("SELECT id, word FROM words").fetchall()
        counts: dict[str, int] = dict(connection.execute("SELECT word, count FROM counts").fetchall())
        totals = connection.execute("SELECT n FROM totals").fetchall()
    written = {
        "the table": words,
        "Delta": _pairs(DeltaTable(str(directory / "delta")).to_pyarrow_table().to_pylist()),
        "Iceberg": _pairs(table_at(directory / "iceberg").scan().to_arrow().to_pylist()),
        "files": _pairs(ds.dataset(directory / "files", format="parquet").to_table().to_pylist()),
    }
    found = [text for name, there in written.items() for text in unlike(name, Counter(rows), there)]
    if counts != Counter(word for _, word in rows):
        found.append("counts are not those of the input")
    if totals != [(len(rows),)]:
        found.append(f"the total is {totals}, there are {len(rows)} rows")
    return found


def unwhole(readers: Readers, directory: Path) -> list[str]:
    """What readers saw that they should not have, or that they hardly looked."""
    table = ds.dataset(directory / "files", format="parquet", partitioning="hive").to_table(columns=["txid", "id"])
    ids: dict[int, list[int]] = defaultdict(list)
    for row in table.to_pylist():
        ids[int(row["txid"])].append(int(row["id"]))
    looks = [*readers.looks()]
    times = counted(looks)
    say("\n".join(f"{library} has read {store} {n} times" for (library, store), n in times.items()))
    rare = [f"{library} has read {store} {n} times only" for (library, store), n in times.items() if n < SEEN_MIN]
    return [*rare, *torn(looks, {txid: measures(there) for txid, there in ids.items()})]


def _pairs(rows: Iterable[dict[str, Any]]) -> list[tuple[str, ...]]:
    return [(row["id"], row["word"]) for row in rows]


def unlike(name: str, expected: Counter[Row], there: Iterable[Row]) -> Iterator[str]:
    """Say what ``name`` lacks, and what it has too often."""
    found = Counter(there)
    if lost := expected - found:
        yield f"{name}: {lost.total()} rows were lost, as {[*lost][:3]}"
    if more := found - expected:
        yield f"{name}: {more.total()} rows too many, as {[*more][:3]}"


def main(argv: list[str] | None = None) -> int:
    """Kill for so many minutes, then compare."""
    parser = options("Kills, and whether four kinds of stores agree with the input.")
    parser.add_argument("--minutes", type=float, default=10)
    arguments = parser.parse_args(argv)
    say(f"seed {arguments.seed}")
    with World.running(keep=arguments.keep) as world:
        broken = harmed(world, arguments.minutes, arguments.seed)
    say("\n".join(broken) or "each row is once in a table, in Delta, in Iceberg and in files, and was counted once")
    return 1 if broken else 0


def harmed(world: World, minutes: float, seed: int) -> list[str]:
    """Feed, kill, and say where what was written is not what was read."""
    dsn, directory = world.new_database("stores"), world.directory / "stores"
    feeder = Numbered(directory / "input", random.Random(seed))
    what = {"name": "stores", "input": f"{feeder.directory}/*.txt", "dsn": dsn, "directory": str(directory)}
    killing = Killing(world, "tests.faults.stores", what, random.Random(seed))
    where = {"table": dsn, **{store: str(directory / store) for store in ("delta", "iceberg", "files")}}
    reader, began = Reader(dsn), monotonic()
    try:
        with reader.looking(), Readers.looking(world.directory / "readers", where) as readers:
            killing.rage(seconds=minutes * 60)
            feeder.stop()
            killing.drain()
    finally:
        feeder.stop()
    killing.report(monotonic() - began)
    rows = [tuple(line.split()) for path in feeder.files for line in path.read_text().splitlines()]
    say(f"{len(rows)} rows; a reader looked {reader.looks} times, and saw {len(reader.torn)} tables that disagree")
    broken = [*differences(rows, dsn, directory), *unwhole(readers, directory), *killing.troubles()]
    if reader.torn:
        broken.append(f"{len(reader.torn)} times a reader saw tables disagree, as {reader.torn[:3]}")
    if reader.looks < LOOKS_MIN:
        broken.append(f"a reader looked {reader.looks} times only")
    return broken


if __name__ == "__main__":
    sys.exit(main())
