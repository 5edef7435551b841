"""``Stream.sql`` as Spark runs it: over one transaction at a time, whatever else is under way."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from trident_py import Count, FileSpout, FixedBatchSpout, SQLiteState, Sum, TopologyError, TridentConfig
from trident_py.planner.plan import check, plan
from trident_py.rows.row import rows_of
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.testing import LocalCoordination
from trident_py.topology import TridentTopology

pytestmark = pytest.mark.spark

PATIENCE_SECONDS = 120
WORDS = schema_of("word string")
ROWS = [("a",), ("bb",), ("ccc",), ("a",)]


def found(spark: SparkSession, query: str, rows: Sequence[Any] = ROWS, schema: str | None = None) -> list[Any]:
    """What a query makes of a batch."""
    topology = TridentTopology("queries")
    topology.new_stream("s", FixedBatchSpout(WORDS, 1)).sql(query, schema)
    (branch,) = check(plan(topology._graph), spark).branches
    frame = spark.createDataFrame(arrow_table(rows, WORDS), WORDS)
    return sorted(map(tuple, rows_of(branch.build({"s": frame}).toArrow())))


def test_a_query_computes_aggregates_and_joins_the_batch_with_itself(spark: SparkSession) -> None:
    lengths = found(
        spark, "SELECT word, length(word) AS n FROM stream WHERE length(word) > 1", schema="word string, n int"
    )
    assert lengths == [("bb", 2), ("ccc", 3)]
    assert found(spark, "SELECT word, count(*) AS n FROM stream GROUP BY word") == [("a", 2), ("bb", 1), ("ccc", 1)]
    assert found(spark, "SELECT count(*) AS n FROM stream a JOIN stream b USING (word);") == [(6,)]
    assert found(spark, "WITH x AS (SELECT word FROM stream) SELECT upper(word) AS w FROM x -- all", ROWS[:1]) == [
        ("A",)
    ]
    assert found(spark, "SELECT '{}' AS braces, 'stream' AS name FROM stream", ROWS[:1]) == [("{}", "stream")]


def test_nothing_is_left_in_the_session(spark: SparkSession) -> None:
    before = len(spark.catalog.listTables())
    found(spark, "SELECT word FROM stream")
    assert len(spark.catalog.listTables()) == before


@pytest.mark.parametrize(
    ("query", "schema", "reason"),
    [
        ("SELEC word FROM stream", None, "PARSE_SYNTAX_ERROR"),
        ("SELECT wrod FROM stream", None, "UNRESOLVED_COLUMN"),
        ("SELECT word FROM streams", None, "TABLE_OR_VIEW_NOT_FOUND"),
        ("DROP TABLE IF EXISTS words", None, "PARSE_SYNTAX_ERROR"),
        ("SELECT word FROM stream", "word int", "the declared fields are"),
        ("SELECT word, word FROM stream", None, "'word'"),
    ],
)
def test_what_is_wrong_is_said_at_the_start_before_anything_is_emitted(
    spark: SparkSession, query: str, schema: str | None, reason: str
) -> None:
    topology = TridentTopology("queries")
    topology.new_stream("s", FixedBatchSpout("word string", 1, ("never emitted",))).sql(query, schema)
    with pytest.raises(TopologyError, match=rf"(?s)topology 'queries', sql\(.*{reason}"):
        topology.start(TridentConfig(), spark=spark, coordination=LocalCoordination())


def test_each_of_many_transactions_under_way_is_seen_apart(spark: SparkSession, tmp_path: Path) -> None:
    batches = [[(f"w{number}",)] * 3 for number in range(8)]
    topology = TridentTopology("queries")
    words = topology.new_stream("s", FixedBatchSpout("word string", 3, *(row for batch in batches for row in batch)))
    counted = words.filter(bool).sql("SELECT word, count(*) AS n FROM stream GROUP BY word", "word string, n bigint")
    counted.group_by("n").persistent_aggregate(SQLiteState(tmp_path / "c.db", table="sizes"), Count(), "batches")
    config = TridentConfig(max_spout_pending=8)
    with topology.start(config, spark=spark, coordination=LocalCoordination()) as query:
        query.process_all_available(PATIENCE_SECONDS)
    with closing(sqlite3.connect(tmp_path / "c.db")) as database:
        assert database.execute("SELECT n, batches FROM sizes").fetchall() == [(3, 8)]


def test_a_large_batch_that_is_joined_with_itself_is_reported_once(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("".join(f"w{number}\n" for number in range(200_000)))
    topology = TridentTopology("queries")
    lines = topology.new_stream("s", FileSpout(str(tmp_path / "*.txt"), max_bytes_per_batch=8 << 20))
    joined = lines.sql("SELECT count(*) AS n FROM stream a JOIN stream b ON a.position = b.position")
    joined.persistent_aggregate(SQLiteState(tmp_path / "c.db", table="sizes"), Sum("n"), "n")
    with topology.start(TridentConfig(), spark=spark, coordination=LocalCoordination()) as query:
        query.process_all_available(PATIENCE_SECONDS)
    with closing(sqlite3.connect(tmp_path / "c.db")) as database:
        assert database.execute("SELECT n FROM sizes").fetchall() == [(200_000,)]
