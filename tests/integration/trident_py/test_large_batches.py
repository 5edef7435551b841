"""Batches on the short road: read and worked on in one stage, or carried to the tasks; the same rows and reports."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Generator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Fingerprint
from trident_py.engine.plane.emitted import EmittedBatch, Splits
from trident_py.engine.spark.input_frames import TABLE_BYTES_MAX, frame_of, input_of
from trident_py.engine.spark.task_reports import Reports
from trident_py.operations.builtin import Count
from trident_py.planner.plan import plan
from trident_py.rows.row import rows_of
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.spouts.files.files import FileSpout
from trident_py.spouts.files.formats import TextLines
from trident_py.spouts.files.lines import LineReader, Piece
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.streams.stream import Stream
from trident_py.topology import TridentTopology

pytestmark = pytest.mark.spark

LINES = TextLines.fields
TEXT = "one two\nthree\n\ntwo two\r\nfünf\n"
WORDS = Counter(TEXT.split())


def pieces(path: Path, *cuts: int) -> list[list[Piece]]:
    size = path.stat().st_size
    ends = [0, *cuts, size]
    return [[Piece(str(path), 0, size, a, b)] for a, b in itertools.pairwise(ends)]


class Attempt:
    """One attempt of a batch of splits: what comes of it, and what is heard of it."""

    def __init__(self, spark: SparkSession, declare: Callable[[Stream], object], fuse: bool = True) -> None:
        topology = TridentTopology("large")
        declare(topology.new_stream("lines", FileSpout("*.txt")))
        (self.branch,) = plan(topology._graph).branches
        self.spark, self.start = spark, input_of if fuse else frame_of
        self.reports = Reports()

    def __call__(self, *splits: Any, read: Any = None) -> list[Any]:
        reader, edges = read or LineReader(TextLines("utf-8", "strict")), [101 + each for each in range(len(splits))]
        batch = EmittedBatch(LINES, (Splits(splits, reader, fingerprinting=True),))
        self.reports = Reports(edges, hashing=True)
        frame = self.branch.build({"lines": self.start(self.spark, batch, self.reports)}, TransactionAttempt(1, 0))
        return rows_of(frame.toArrow())


def split(line: Any) -> list[tuple[str]]:
    return [(word,) for word in line.value.split()]


def words(stream: Stream) -> Stream:
    return stream.flat_map(split, "word string")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_bytes(TEXT.encode())
    return path


@pytest.mark.parametrize("fuse", [True, False], ids=["in the tasks that read", "behind them"])
@pytest.mark.parametrize(
    ("declare", "expected"),
    [
        (words, [(word,) for word in TEXT.split()]),
        (lambda s: words(s).group_by("word").aggregate(Count(), "count"), list(WORDS.items())),
        (lambda s: words(s).aggregate(Count(), "count"), [(6,)]),
        (lambda s: s.project("position"), [(position,) for position in (0, 8, 14, 15, 24)]),
        (lambda s: s.filter(lambda line: line.position > 20).project("value"), [("fünf",)]),
    ],
    ids=["rows", "counted", "counted in all", "native", "filtered"],
)
def test_rows_and_reports_are_the_same_in_one_stage_and_in_two(
    spark: SparkSession, file: Path, fuse: bool, declare: Callable[[Stream], object], expected: list[Any]
) -> None:
    attempt = Attempt(spark, declare, fuse)
    assert sorted(attempt(*pieces(file, 9))) == sorted(expected)
    assert (attempt.reports.heard(), attempt.reports.rows) == ([101, 102], 5)
    whole = Attempt(spark, lambda s: s, fuse=False)
    whole(*pieces(file))
    assert attempt.reports.fingerprint() == whole.reports.fingerprint()


def test_a_changed_byte_changes_the_fingerprint(spark: SparkSession, file: Path) -> None:
    attempt = Attempt(spark, words)
    attempt(*pieces(file))
    before = attempt.reports.fingerprint()
    file.write_bytes(TEXT.encode().replace(b"three", b"throe"))
    attempt(*pieces(file))
    now = attempt.reports.fingerprint()
    assert before
    assert now
    assert before.rows == now.rows
    assert before != now


def test_a_piece_without_lines_reports_too(spark: SparkSession, file: Path) -> None:
    attempt = Attempt(spark, words)
    assert Counter(word for (word,) in attempt(*pieces(file, 2, 4, 6))) == WORDS
    assert (attempt.reports.heard(), attempt.reports.rows) == ([101, 102, 103, 104], 5)


def test_an_error_of_a_row_function_names_operation_and_row(spark: SparkSession, file: Path) -> None:
    divided = lambda line: [(1 // len(line.value),)]  # noqa: E731
    attempt = Attempt(spark, lambda s: s.project("value", "position").flat_map(divided, "n int"))
    with pytest.raises(PythonException, match=r"flat_map.*, at Row\(value='', position=14\)"):
        attempt(*pieces(file))


def test_an_error_of_the_file_names_file_and_byte(spark: SparkSession, file: Path) -> None:
    file.write_bytes(b"one\n\xff\n")
    with pytest.raises(PythonException, match=r"a\.txt' is not utf-8 at byte 4"):
        Attempt(spark, words)(*pieces(file))


def test_a_fingerprinting_spout_must_give_one(spark: SparkSession) -> None:
    with pytest.raises(PythonException, match="must return a whole number, not ''"):
        Attempt(spark, words)("a", read=Unfinished())


class Unfinished:
    """Forgets to return a number, and gives integers that are narrower than declared."""

    def __call__(self, split: str) -> Any:
        return [pa.record_batch({"position": pa.array([1], pa.int32()), "path": [split], "value": ["x"]})]


class Narrow(Unfinished):
    """The same rows, and a number."""

    def __call__(self, split: str) -> Generator[pa.RecordBatch, None, int]:
        yield from super().__call__(split)
        return 7


def test_what_is_read_has_the_declared_types_in_order(spark: SparkSession) -> None:
    attempt = Attempt(spark, lambda s: s.map(lambda line: (repr(tuple(line)),), "shown string"))
    assert attempt("a", read=Narrow()) == [("('x', 'a', 1)",)]
    assert attempt.reports.fingerprint() == Fingerprint(1, 7, "read")


def test_a_large_table_arrives_as_a_small_one_does(spark: SparkSession) -> None:
    schema = schema_of("n bigint, at timestamp, price decimal(5, 2), parts array<string>, word string")
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    rows = [(n, noon, Decimal("1.50"), ["a", None], None if n % 7 == 0 else "x" * 20) for n in range(10_000)]
    table = arrow_table(rows, schema)
    assert table.nbytes > TABLE_BYTES_MAX > table.slice(0, 1000).nbytes
    parts = [table.slice(first, 1000) for first in range(0, table.num_rows, 1000)]
    for batch in (EmittedBatch(schema, (table,)), EmittedBatch(schema, tuple(parts))):
        assert rows_of(frame_of(spark, batch, None).toArrow()) == rows


def test_a_spout_that_is_read_twice_is_read_as_it_is(spark: SparkSession, file: Path) -> None:
    topology = TridentTopology("large")
    lines = topology.new_stream("lines", FileSpout("*.txt"))
    topology.merge(words(lines), words(lines))
    (branch,) = plan(topology._graph).branches
    batch = EmittedBatch(
        LINES, (Splits(tuple(pieces(file, 9)), LineReader(TextLines("utf-8", "strict")), fingerprinting=True),)
    )
    reports = Reports([1, 2])
    made = rows_of(branch.build({"lines": input_of(spark, batch, reports)}, TransactionAttempt(1, 0)).toArrow())
    assert Counter(word for (word,) in made) == WORDS + WORDS
    assert (reports.heard(), reports.rows) == ([1, 2], 5)


def test_fixed_rows_are_counted_where_python_made_them(spark: SparkSession) -> None:
    topology = TridentTopology("large")
    stream = topology.new_stream("lines", FixedBatchSpout("value string", 1))
    words(stream).group_by("word").aggregate(Count(), "count")
    (branch,) = plan(topology._graph).branches
    lines = spark.createDataFrame([("a b",), ("a",)], "value string")
    frame = branch.build({"lines": lines}, TransactionAttempt(1, 0))
    assert sorted(rows_of(frame.toArrow())) == [("a", 2), ("b", 1)]
    assert [each.simpleString() for each in frame.schema] == ["word:string", "count:bigint"]
