"""Rows that make a function raise: left out of a branch, and kept in the same transaction, with real outputs."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from attrs import define
from pyspark.sql import SparkSession

from tests.integration.trident_py.test_parking import PATIENCE_SECONDS, select
from trident_py import (
    Count,
    FileSpout,
    FixedBatchSpout,
    MemoryMapState,
    PoisonBatchError,
    RetryPolicy,
    SQLiteState,
    SQLSink,
    StateUpdater,
    Stream,
    Sum,
    TridentConfig,
    TridentError,
    TridentQuery,
    TridentTopology,
    counter,
)
from trident_py.cli import main
from trident_py.testing import LocalCoordination


def positive(row: Any) -> tuple[int]:
    counter("tried").add(1)
    if row.n < 0:
        raise ValueError(f"{row.n} is negative")
    return (row.n,)


def inverse(row: Any) -> tuple[int]:
    return (100 // row.n,)


def numbers(topology: TridentTopology, *values: int, size: int = 3) -> Stream:
    return topology.new_stream("numbers", FixedBatchSpout("n bigint", size, *[(n,) for n in values]))


def run(
    topology: TridentTopology,
    tmp_path: Path,
    coordination: LocalCoordination | None = None,
    spark: SparkSession | None = None,
    **settings: Any,
) -> TridentQuery:
    retry = RetryPolicy(attempts=3, backoff=0.01)
    config = TridentConfig(retry=retry, state_dir=tmp_path, max_spout_pending=3, **settings)
    query = topology.start(config, coordination=coordination or LocalCoordination(), spark=spark)
    with query:
        query.process_all_available(PATIENCE_SECONDS)
    return query


def log(tmp_path: Path, table: str) -> SQLSink:
    return SQLSink(f"sqlite:///{tmp_path / 'log.db'}", table)


def logged(tmp_path: Path, columns: str, table: str) -> list[tuple[Any, ...]]:
    return select(tmp_path / "log.db", f"SELECT {columns} FROM {table}")  # noqa: S608 - of this file


def count(stream: Stream, tmp_path: Path, table: str = "good") -> None:
    """Count the rows in a state, which needs no Spark."""
    state = SQLiteState(tmp_path / f"{table}.db", table=table)
    stream.name(table).group_by("n").persistent_aggregate(state, Count(), "count")


def counted(tmp_path: Path, table: str = "good", file: str = "") -> dict[int, int]:
    return dict(select(tmp_path / (file or f"{table}.db"), f"SELECT n, count FROM {table}"))  # noqa: S608 - of this file


def test_a_bad_row_is_left_out_of_each_branch_that_raises_and_of_no_other(tmp_path: Path) -> None:
    topology = TridentTopology("branches")
    stream = numbers(topology, 5, -1, 0, -1, 7, 20)
    checked = stream.map(positive, "n bigint")
    bad = stream.on_error(to=SQLiteState(tmp_path / "bad.db", table="bad"))
    count(checked, tmp_path)
    state = SQLiteState(tmp_path / "sum.db", table="sum")
    checked.map(inverse, "i bigint").persistent_aggregate(state, Sum("i"), "sum")
    stream.persistent_aggregate(SQLiteState(tmp_path / "all.db", table="all_rows"), Sum("n"), "sum")
    assert bad.schema is not None
    assert bad.schema.names == ["n", "_error", "_operation", "_txid"]
    query = run(topology, tmp_path)
    assert counted(tmp_path) == {0: 1, 5: 1, 7: 1, 20: 1}
    assert select(tmp_path / "sum.db", "SELECT sum FROM sum") == [(20 + 14 + 5,)]
    assert select(tmp_path / "all.db", "SELECT sum FROM all_rows") == [(30,)]
    # The first function refuses -1 for both branches, and that is one bad row; the second refuses 0 for one branch.
    found = select(tmp_path / "bad.db", "SELECT n, txid, operation, error, count FROM bad")
    assert [(n, txid, operation.partition(" at ")[0], times) for n, txid, operation, _, times in found] == [
        (-1, 1, "map(positive", 1),
        (-1, 2, "map(positive", 1),
        (0, 1, "map(inverse", 1),
    ]
    assert "ValueError: -1 is negative" in found[0][3]
    counts = [each.counts for each in query.recent_progress]
    assert counts == [{"tried": 2, "bad rows": 3}, {"tried": 2, "bad rows": 2}]  # what raised counted nothing


def test_equal_bad_rows_count_as_often_as_they_come(tmp_path: Path) -> None:
    topology = TridentTopology("equal")
    stream = numbers(topology, -1, -1, 1, 1, -1, 2)
    stream.on_error(to=SQLiteState(tmp_path / "bad.db", table="bad"))
    count(stream.map(positive, "n bigint"), tmp_path)
    run(topology, tmp_path)
    assert counted(tmp_path) == {1: 2, 2: 1}
    assert select(tmp_path / "bad.db", "SELECT n, txid, count FROM bad") == [(-1, 1, 2), (-1, 2, 1)]


def test_bad_rows_that_nothing_reads_are_in_a_table_of_the_topology(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topology = TridentTopology("letters")
    stream = numbers(topology, 5, -1, 0)
    count(stream.map(positive, "n bigint").map(inverse, "n bigint"), tmp_path)
    run(topology, tmp_path, on_bad_row="quarantine")
    place = tmp_path / "letters-dead-letters.db"
    found = select(place, "SELECT txid, branch, spout, row, count FROM numbers_dead_letters")
    assert found == [(1, "good", "numbers", '{"n": -1}', 1), (1, "good", "numbers", '{"n": 0}', 1)]
    assert counted(tmp_path) == {20: 1}
    words = ["dead-letters", "letters", "list", "--state-dir", str(tmp_path)]
    assert main([*words, "--json", "--last", "1"]) == 0
    (letter,) = json.loads(capsys.readouterr().out)
    assert (letter["row"], letter["branch"]) == ({"n": 0}, "good")
    assert main(["dead-letters", "other", "list", "--state-dir", str(tmp_path)]) == 1
    assert "topology 'other' has no dead letters here" in capsys.readouterr().err


@pytest.mark.parametrize("options", [{}, {"multiLine": True}])
def test_records_that_can_not_be_decoded_are_dead_letters(tmp_path: Path, options: dict[str, Any]) -> None:
    (tmp_path / "n=1").mkdir()
    (tmp_path / "n=1" / "a.csv").write_text('1\n"b\nad"\n2\n' if options else "1\nbad\n2\n")
    files = FileSpout(
        tmp_path / "n=*" / "*.csv",
        format="csv",
        schema="n int, amount int",
        options=options,
        on_decode_error="quarantine",
        partition_by="n",
        settled=timedelta(0),
    )
    topology = TridentTopology("letters")
    count(topology.new_stream("files", files).map(lambda row: (row.n * 10 + row.amount,), "n int"), tmp_path)
    run(topology, tmp_path)
    assert counted(tmp_path) == {11: 1, 12: 1}
    ((row, error),) = select(tmp_path / "letters-dead-letters.db", "SELECT row, error FROM files_dead_letters")
    assert json.loads(row)["_undecoded"]
    assert "is not csv of" in error


@define
class Mended:
    """Raises over negative numbers until a file is there, and then only over some."""

    file: Path

    def __call__(self, row: Any) -> tuple[int]:
        if row.n < (-5 if self.file.exists() else 0):
            raise ValueError("too low")
        return (abs(row.n),)


def lettered(tmp_path: Path) -> TridentTopology:
    """Two branches raise over -1, -1, -3 and -9, and another one over none; all states share a database."""
    topology = TridentTopology("mended")
    stream = numbers(topology, 5, -1, -1, 7, -9, -3)
    for name in ("good", "twin"):
        checked = stream.map(Mended(tmp_path / "mended"), "n bigint").name(name)
        checked.group_by("n").persistent_aggregate(SQLiteState(tmp_path / "db", table=name), Count(), "count")
    sizes = stream.aggregate(Count(), "size").group_by("size")
    sizes.persistent_aggregate(SQLiteState(tmp_path / "db", table="batches"), Count(), "batches")
    return topology


def letters_in(tmp_path: Path) -> list[tuple[Any, ...]]:
    found = select(
        tmp_path / "mended-dead-letters.db",
        "SELECT branch, txid, row, count FROM numbers_dead_letters WHERE count > 0 ORDER BY branch, txid, row",
    )
    return [(branch, txid, json.loads(row)["n"], count) for branch, txid, row, count in found]


def test_released_letters_count_once_in_their_branch_and_one_that_is_still_bad_stays(tmp_path: Path) -> None:
    coordination = LocalCoordination()
    run(lettered(tmp_path), tmp_path, coordination, on_bad_row="quarantine")
    kept = [
        (branch, txid, n, count)
        for branch in ("good", "twin")
        for txid, n, count in ((1, -1, 2), (2, -3, 1), (2, -9, 1))
    ]
    assert letters_in(tmp_path) == kept
    with lettered(tmp_path).start(
        TridentConfig(state_dir=tmp_path, on_bad_row="quarantine"), coordination=coordination
    ) as query:
        query.release_letters(1)
        query.process_all_available(PATIENCE_SECONDS)
        assert letters_in(tmp_path) == kept, "the function has not changed"
        (tmp_path / "mended").touch()
        query.release_letters(branch="good")
        query.process_all_available(PATIENCE_SECONDS)
        assert counted(tmp_path, "good", "db") == {1: 2, 3: 1, 5: 1, 7: 1}
        assert counted(tmp_path, "twin", "db") == {5: 1, 7: 1}
        assert letters_in(tmp_path) == [("good", 2, -9, 1), *kept[3:]]
        with pytest.raises(TridentError, match="there are no such letters; nothing was changed"):
            query.release_letters(1, branch="good")
    assert select(tmp_path / "db", "SELECT size, batches FROM batches") == [(3, 2)]


def test_more_bad_rows_than_allowed_are_a_poisoned_batch(tmp_path: Path) -> None:
    for name, most, values in (("count", 2, (1, -1, -2, -3)), ("share", 0.5, (1, -1, -2))):
        topology = TridentTopology("many")
        stream = numbers(topology, *values, size=4)
        stream.on_error()
        count(stream.map(positive, "n bigint"), tmp_path, name)
        with pytest.raises(PoisonBatchError, match="bad_rows_max") as error:
            run(topology, tmp_path / name, bad_rows_max=most)
        assert "is negative" in str(error.value)
        assert counted(tmp_path, name) == {}


@define
class Passing(StateUpdater[Any]):
    """Refuses a transaction until there is a file; makes another file when it does."""

    open: Path
    refused: Path

    def update_state(self, state: Any, tuples: Any, collector: Any) -> None:
        if not self.open.exists():
            self.refused.touch()
            raise OSError("not yet")


@define
class RaisesOnce:
    """Raises over 2: as long as there is no file, or only then, and once."""

    file: Path
    until: bool

    def __call__(self, row: Any) -> tuple[int]:
        if row.n == 2 and self.file.exists() != self.until:
            if not self.until:
                self.file.rename(self.file.with_name("open"))
            raise ValueError("2 is bad")
        return (row.n,)


def torn(tmp_path: Path, *, until: bool) -> TridentTopology:
    """Of a batch 1, 2, 3 one state has an attempt, and the last output refuses it."""
    topology = TridentTopology("torn")
    stream = numbers(topology, 1, 2, 3)
    checked = stream.map(RaisesOnce(tmp_path / "refused", until), "n bigint")
    count(checked, tmp_path)
    stream.on_error(to=SQLiteState(tmp_path / "bad.db", table="bad"))
    passing = Passing(tmp_path / "open", tmp_path / "refused")
    checked.name("z").partition_persist(MemoryMapState.factory(), passing, "n")
    return topology


def test_a_row_stays_left_out_once_an_output_has_the_others(tmp_path: Path) -> None:
    coordination = LocalCoordination()
    with pytest.raises(PoisonBatchError, match="not yet"):
        run(torn(tmp_path, until=True), tmp_path, coordination)
    assert counted(tmp_path) == {1: 1, 3: 1}
    (tmp_path / "open").touch()
    run(torn(tmp_path, until=True), tmp_path, coordination)  # the next leader, and now the function takes 2
    assert counted(tmp_path) == {1: 1, 3: 1}
    found = select(tmp_path / "bad.db", "SELECT n, txid, error, count FROM bad")
    assert [(n, txid, error.partition("\n")[0], count) for n, txid, error, count in found] == [
        (2, 1, "ValueError: 2 is bad", 1)
    ]


def test_a_row_that_an_output_has_is_not_left_out_any_more(tmp_path: Path) -> None:
    query = run(torn(tmp_path, until=False), tmp_path)
    assert counted(tmp_path) == {1: 1, 2: 1, 3: 1}
    assert select(tmp_path / "bad.db", "SELECT n FROM bad") == []
    assert query.last_progress is not None
    assert query.last_progress["attempt_id"] == 2  # one was refused by the last output, in one the function raised


def parsed(row: Any) -> tuple[int, str]:
    number = int(row.value)
    return number, "odd" if number % 2 else "even"


@pytest.mark.spark
def test_tasks_leave_bad_lines_out_of_large_batches_and_of_small_ones(spark: SparkSession, tmp_path: Path) -> None:
    lines = [f"{n}" if n % 2_500 else f"bad {n}" for n in range(10_000)]
    (tmp_path / "a.txt").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "b.txt").write_text("10001\nbad 7\n")
    topology = TridentTopology("lines")
    spout = FileSpout(str(tmp_path / "*.txt"), max_bytes_per_batch=(tmp_path / "a.txt").stat().st_size)
    stream = topology.new_stream("lines", spout)
    numbers = stream.map(parsed, "n bigint, kind string")
    stream.on_error(to=log(tmp_path, "bad"))
    counts = SQLiteState(tmp_path / "counts.db", table="counts")
    numbers.group_by("kind").persistent_aggregate(counts, Count(), "n")
    numbers.project("n").name("log").write_to(log(tmp_path, "good"))
    query = run(topology, tmp_path, spark=spark)
    assert [each.num_input_rows for each in query.recent_progress] == [10_000, 2]
    assert logged(tmp_path, "n", "good") == [(n,) for n in (*range(10_000), 10_001) if n % 2_500]
    assert select(tmp_path / "counts.db", "SELECT kind, n FROM counts") == [("even", 4_996), ("odd", 5_001)]
    positions = [sum(len(line) + 1 for line in lines[:n]) for n in range(0, 10_000, 2_500)]
    bad = [(f"bad {n}", position) for n, position in zip(range(0, 10_000, 2_500), positions, strict=True)]
    assert logged(tmp_path, "value, position", "bad") == sorted([*bad, ("bad 7", len("10001\n"))])
