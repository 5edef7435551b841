"""Windows, joins over time and functions with timers that Spark's tasks change: what they give on the driver, too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.integration.trident_py import time_in_tasks_program
from tests.integration.trident_py.dying import run_over_kills
from tests.integration.trident_py.test_query import PATIENCE_SECONDS
from tests.integration.trident_py.test_windows import select
from tests.integration.trident_py.time_in_tasks_program import declare_both
from trident_py import TridentConfig, TridentTopology

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.zookeeper]


def check(path: Path) -> None:
    """Each table of the tasks has the rows of the driver's."""
    for name, columns in {
        "sessions": "word, numbers, window_start, window_end",
        "late": "n, late_reason",
        "sums": "word, total, window_start",
        "joined": "n, m",
        "counted": "word, rows",
    }.items():
        driver, tasks = (
            sorted(select(path, f"SELECT {columns} FROM {name}_{placement}"))  # noqa: S608 - ours
            for placement in ("driver", "tasks")
        )
        assert len(driver) > 5, name
        assert tasks == driver, name


def test_windows_joins_and_timers_in_tasks_give_what_they_give_on_the_driver(
    spark: SparkSession, config: TridentConfig, postgres: str, tmp_path: Path
) -> None:
    path, topology = tmp_path / "results.db", TridentTopology("time-in-tasks")
    declare_both(topology, postgres, path)
    with topology.start(config, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
    check(path)
    assert set(select(path, "SELECT pid FROM sessions_tasks")) > {(os.getpid(),)}, "only the last batch was small"
    assert set(select(path, "SELECT pid FROM sessions_driver")) == {(os.getpid(),)}


@pytest.mark.slow
def test_time_in_tasks_is_that_of_the_driver_over_kills_in_the_middle_of_commits(
    zookeeper: str, postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(time_in_tasks_program.DSN, postgres)
    run_over_kills(time_in_tasks_program.__file__, zookeeper, tmp_path, (1, 2, 4, 7))
    check(tmp_path / "results.db")
