"""`migrate` on real Spark and ZooKeeper, killed at its steps: each row counts once, in values of the new type."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.integration.trident_py import migrating_program
from tests.integration.trident_py.migrating_program import WORDS
from tests.integration.trident_py.test_windows import PATIENCE_SECONDS
from tests.unit.trident_py.states.sql.everywhere import as_url, select
from trident_py import Count, FixedBatchSpout, SQLiteState, SQLSink, TridentTopology
from trident_py.testing import LocalCoordination, run_batches

pytestmark = pytest.mark.spark

PASS = 2 * WORDS
"""The calls of the function for one state: its values and previous values are checked, and later stored."""

MOMENTS = (
    PASS // 2,  # the first state is checked
    2 * PASS + PASS // 2,  # the first one is in the middle of its migration
    3 * PASS + PASS // 2,  # it is migrated, and the second one is in the middle
    "state 'sums' is migrated",  # both are, and the record is not written
)


def labelled(directory: Path, name: str, words: int) -> TridentTopology:
    """A state and a sink with names of their own, not of their tables."""
    topology = TridentTopology("labelled")
    stream = topology.new_stream("lines", FixedBatchSpout("word string", 2, *[(word,) for word in "abacab"[:words]]))
    state = SQLiteState(directory / "counts.db", table="counts")
    stream.name(f"{name}-state").group_by("word").persistent_aggregate(state, Count(), "count")
    stream.name(f"{name}-sink").write_to(SQLSink(f"sqlite:///{directory / 'rows.db'}", "rows"))
    return topology


def test_a_state_and_a_sink_that_are_not_named_after_their_tables_keep_their_tables(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    coordination = LocalCoordination()
    run_batches(labelled(tmp_path, "first", 2), coordination, spark)
    topology = labelled(tmp_path, "second", 6)
    topology.migrate("first-state", rename="second-state")
    topology.migrate("first-sink", rename="second-sink")
    with caplog.at_level(logging.WARNING):
        assert [each["txid"] for each in run_batches(topology, coordination, spark)] == [2, 3]
    counts = select(f"sqlite:///{tmp_path / 'counts.db'}", "SELECT word, count FROM counts")
    assert counts == [("a", 3), ("b", 2), ("c", 1)]
    assert select(f"sqlite:///{tmp_path / 'rows.db'}", "SELECT word FROM rows") == sorted((word,) for word in "abacab")
    assert "is new" not in caplog.text


@pytest.mark.zookeeper
@pytest.mark.slow
@pytest.mark.parametrize("over", ["sqlite", "postgres"])  # the unit tests kill MySQL's before any statement
def test_a_start_that_is_killed_while_it_migrates_is_finished_by_the_next(
    over: str, request: pytest.FixtureRequest, zookeeper: str, tmp_path: Path
) -> None:
    dsn = "" if over == "sqlite" else request.getfixturevalue(over)

    def run(moment: str) -> int:
        done = subprocess.run(
            [sys.executable, migrating_program.__file__, zookeeper, str(tmp_path), dsn, moment],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode in (0, -9), done.stderr[-2000:]
        return done.returncode

    assert run("first") == 0
    for moment in MOMENTS:
        assert run(str(moment)) == -9
    assert run("") == 0
    for table in ("chars", "sums"):
        url = {"sqlite": f"sqlite:///{tmp_path / f'{table[0]}.db'}", "mysql": dsn}.get(over) or as_url(dsn)
        found = [tuple(row) for row in select(url, f"SELECT word, n, _prev FROM {table}")]  # noqa: S608 - ours
        assert found == sorted((f"w{number}", "4", "3") for number in range(WORDS))
