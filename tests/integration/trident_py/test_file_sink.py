"""`FileSink` with Spark: what is written comes back, whoever reads it, whenever."""

from __future__ import annotations

import json
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest
from pyspark.sql import SparkSession

from trident_py import (
    FileSink,
    FixedBatchSpout,
    SinkError,
    SinkTransaction,
    StateError,
    TopologyKey,
    TransactionAttempt,
    TransactionKey,
    TridentTopology,
)
from trident_py.sinks.files.compaction import compact, compactable
from trident_py.testing import LocalCoordination, run_batches

pytestmark = pytest.mark.spark

FIELDS = {"word": "string", "n": "int", "day": "date", "at": "timestamp", "tags": "array<string>"}
ROWS = [
    (
        word,
        n,
        date(2026, 11, 20 + n % 2),
        datetime(2026, 11, 22, 9, 30, 0, n),  # noqa: DTZ001 - as Spark gives it
        ["x", None],
    )
    for n, word in enumerate([" a b ", "ü/=%", "", "007", "null", "a b", "{", '"', "c"])
]
PER_BATCH = 2


def schema(names: Collection[str]) -> str:
    return ", ".join(f"{name} {FIELDS[name]}" for name in names)


def rows_of(names: Collection[str]) -> Counter[str]:
    """These fields of all rows, and the transaction of each."""
    places = [list(FIELDS).index(name) for name in names]
    return Counter(repr((*(row[place] for place in places), 1 + n // PER_BATCH)) for n, row in enumerate(ROWS))


@pytest.mark.parametrize(
    ("format", "names", "arguments"),
    [
        ("parquet", list(FIELDS), {"partition_by": ("day", "n")}),
        ("orc", list(FIELDS), {"partition_by": "day"}),
        ("json", list(FIELDS), {"options": {"compression": "gzip"}}),
        ("csv", ["word", "n", "day", "at"], {"options": {"header": True, "sep": "|", "nullValue": "NULL"}}),
        ("text", ["word"], {}),
    ],
)
def test_each_format_gives_back_what_was_written_with_its_transaction(
    spark: SparkSession, tmp_path: Path, format: str, names: list[str], arguments: dict[str, Any]
) -> None:
    path = tmp_path / "rows é"
    topology = TridentTopology("rows")
    rows = topology.new_stream("rows", FixedBatchSpout(schema(FIELDS), PER_BATCH, *ROWS)).project(*names)
    rows.write_to(FileSink(f"file://{path}".replace(" ", "%20"), format=format, **arguments))
    run_batches(topology, spark=spark)
    reader = spark.read.format(format).schema(f"{schema(names)}, txid int").options(**arguments.get("options", {}))
    if format == "csv":
        reader = reader.option("escape", '"')  # as RFC 4180 and all other readers have it
    found = reader.load(str(path)).select(*names, "txid").collect()
    assert Counter(repr(tuple(row)) for row in found) == rows_of(names)
    with_rows = Counter(json.loads(token.read_text())["rows"] for token in path.glob("txid=*/_token"))
    assert with_rows == {2: 4, 1: 1}


def test_every_reader_sees_whole_transactions_only_at_any_time(spark: SparkSession, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "rows"
    topology = TridentTopology("readers")
    rows = [(f"{n % 3}", n) for n in range(24)]
    # The third transaction is empty.
    stream = topology.new_stream("rows", FixedBatchSpout("word string, n int", 6, *rows))
    stream.filter(lambda row: row.n // 6 % 3 != 2).write_to(FileSink(path, partition_by="word"))
    expected = Counter({txid: 6 for txid in range(1, 5) if txid % 3})

    readers: dict[str, Callable[[], Counter[int]]] = {
        "spark": lambda: Counter(row.txid for row in spark.read.parquet(str(path)).collect()),
        "pyarrow": lambda: Counter(pyarrow.dataset.dataset(path, partitioning="hive").to_table()["txid"].to_pylist()),
        "duckdb": lambda: Counter(txid for (txid,) in duckdb.sql(f"FROM '{path}/**/*.parquet' SELECT txid").fetchall()),
    }
    seen: dict[str, list[Counter[int]]] = {name: [] for name in readers}
    over = threading.Event()

    def read(name: str) -> None:
        while not over.is_set():
            if len(list(path.glob("txid=*/*/*"))) > 0:
                seen[name].append(readers[name]())

    with ThreadPoolExecutor() as pool:
        reading = [pool.submit(read, name) for name in readers]
        run_batches(topology, spark=spark)
        over.set()
    for each in reading:
        each.result()
    for name, reader in readers.items():
        assert reader() == expected, name
        for counts in seen[name]:
            assert counts == {txid: 6 for txid in range(1, max(counts) + 1) if txid % 3}, name
    assert sum(map(len, seen.values())) > 0


class Job:
    """One attempt of a transaction that a sink takes, without a topology around it."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self.spark = spark
        self.sink = FileSink(path, format="text")
        self.sink.recover(TopologyKey("words", "9510caa8", 1), 1)

    def prepared(self, attempt: int = 0, fails: bool = False) -> tuple[SinkTransaction, Path]:
        tx = SinkTransaction(TransactionKey("9510caa8", 1, 1), TransactionAttempt(1, attempt), 1)
        rows = self.spark.range(0, 8, 1, 4)
        frame = rows.selectExpr(f"if({fails} and id = 5, raise_error('broken'), cast(id as string)) AS value")
        return tx, self.sink.prepare(tx, frame)


def test_a_job_that_fails_leaves_nothing_that_a_reader_or_another_attempt_sees(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = Job(spark, tmp_path / "words")
    with pytest.raises(Exception, match="broken"):
        job.prepared(fails=True)
    tx, receipt = job.prepared(attempt=1)
    job.sink.commit(tx, receipt)
    assert sorted(row.value for row in spark.read.text(str(tmp_path / "words")).collect()) == list("01234567")
    assert {each.name for each in (tmp_path / "words").iterdir()} == {"txid=1"}


def test_attempts_prepared_at_once_do_not_meet(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path / "words")
    with ThreadPoolExecutor() as pool:
        (first, dropped), (second, kept) = pool.map(job.prepared, (0, 1))
    job.sink.abort(first, dropped)
    job.sink.commit(second, kept)
    assert spark.read.text(str(tmp_path / "words")).count() == 8


def test_a_directory_is_found_again_after_a_restart_and_refused_to_others(spark: SparkSession, tmp_path: Path) -> None:
    path, coordination = tmp_path / "rows", LocalCoordination()
    for rows in (2, 4):
        topology = TridentTopology("rows")
        spout = FixedBatchSpout("n int", 1, *((n,) for n in range(rows)))
        topology.new_stream("rows", spout).write_to(FileSink(path))
        run_batches(topology, coordination, spark)
    assert sorted(tuple(row) for row in spark.read.parquet(str(path)).collect()) == [(n, n + 1) for n in range(4)]
    with pytest.raises(SinkError, match="has transactions of another topology"):
        run_batches(topology, LocalCoordination(), spark)
    shutil.rmtree(path)
    with pytest.raises(StateError, match="'rows-sink' is gone"):
        run_batches(topology, coordination, spark)


@pytest.mark.parametrize(
    ("format", "names", "arguments"),
    [
        ("parquet", list(FIELDS), {"partition_by": ("day", "n")}),
        ("csv", ["word", "n", "day", "at"], {"options": {"header": True, "nullValue": "NULL"}}),
    ],
)
def test_compaction_copies_all_rows_into_few_files_of_a_new_directory(
    spark: SparkSession, tmp_path: Path, format: str, names: list[str], arguments: dict[str, Any]
) -> None:
    path, target = tmp_path / "rows", tmp_path / "below" / "compacted"
    topology = TridentTopology("rows")
    rows = topology.new_stream("rows", FixedBatchSpout(schema(FIELDS), PER_BATCH, *ROWS, ("line\nbreak", *ROWS[0][1:])))
    rows.project(*names).filter(lambda row: row.n % 4 < 2).write_to(FileSink(path, format=format, **arguments))
    run_batches(topology, spark=spark)
    taken = compactable(path, target, 3)
    compact(taken, target, spark)
    reader = spark.read.format(format).schema(schema(names)).options(multiLine=True, **arguments.get("options", {}))
    found = Counter(repr(tuple(row)) for row in reader.load(str(target)).select(*names).collect())
    assert found == Counter(
        repr(tuple(row))
        for row in reader.load([str(path / f"txid={txid}") for txid in (1, 2, 3)], basePath=str(path))
        .select(*names)
        .collect()
    )
    assert found.total() == taken.rows == 4
    facts = json.loads((target / "_compacted").read_text())
    assert (facts["from"], facts["up_to"], facts["rows"]) == (1, 3, 4)
    assert len(list(target.rglob("part-*"))) == (4 if arguments.get("partition_by") else 1)
    assert [each.name for each in target.parent.iterdir()] == ["compacted"]


def test_compaction_that_reads_other_rows_than_were_committed_leaves_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = Job(spark, tmp_path / "words")
    tx, receipt = job.prepared()
    job.sink.commit(tx, receipt)
    next((tmp_path / "words").rglob("part-*")).unlink()
    target = tmp_path / "compacted"
    with pytest.raises(SinkError, match=r"8 rows were committed in .*words' and 6 are read there"):
        compact(compactable(tmp_path / "words", target, None), target, spark)
    assert sorted(each.name for each in tmp_path.iterdir()) == [".words.staging", "words"]
