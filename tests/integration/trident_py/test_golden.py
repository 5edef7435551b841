"""What the release at 230fe66 left in the middle of its work is taken up, and ends as if one thread had counted."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from tests.golden import topologies
from tests.golden.loading import restore_databases, restore_postgres, restore_zookeeper, restored_files
from tests.golden.topologies import RECORDED_FILES, TOPOLOGIES, expected, file_lines
from tests.integration.trident_py.test_query import PATIENCE_SECONDS
from tests.servers.spark import NEEDS_REPORTS
from trident_py import TridentConfig, TridentTopology

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]

UPTO = 6
"""Two transactions more than were recorded, or were on their way."""


@pytest.fixture
def config(zookeeper: str, tmp_path: Path) -> TridentConfig:
    return TridentConfig(zookeeper=zookeeper, state_dir=tmp_path, session_timeout=5)


def run(topology: TridentTopology, config: TridentConfig, spark: SparkSession) -> None:
    with topology.start(config, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)


def select(at: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(at / "state.db")) as connection:
        return sorted(connection.execute(query).fetchall(), key=repr)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=NEEDS_REPORTS if name.endswith("partitions") else ())
        for name in sorted(TOPOLOGIES.keys() - {"files"})
    ],
)
def test_what_was_in_flight_is_counted_once(
    spark: SparkSession, config: TridentConfig, tmp_path: Path, name: str
) -> None:
    assert config.zookeeper
    restore_zookeeper(name, config.zookeeper)
    restore_databases(name, tmp_path)
    run(TOPOLOGIES[name](tmp_path, UPTO), config, spark)
    for query, rows in expected(name, UPTO).items():
        assert select(tmp_path, query) == sorted(rows, key=repr)


def test_staged_rows_of_a_killed_attempt_are_counted_once_and_removed(
    spark: SparkSession, config: TridentConfig, tmp_path: Path, postgres: str
) -> None:
    assert config.zookeeper
    restore_zookeeper("postgres", config.zookeeper)
    restore_postgres(postgres)
    run(topologies.postgres(postgres, UPTO), config, spark)
    with psycopg.connect(postgres) as connection:
        for query, rows in expected("postgres", UPTO).items():
            assert sorted(connection.execute(query).fetchall(), key=repr) == sorted(rows, key=repr)
        staged = connection.execute("SELECT tablename FROM pg_tables WHERE tablename ~ '^_by_key_[0-9]'").fetchall()
        assert staged == []


def test_files_that_were_read_in_part_are_read_once(spark: SparkSession, config: TridentConfig, tmp_path: Path) -> None:
    assert config.zookeeper
    restore_zookeeper("files", config.zookeeper)
    restore_databases("files", tmp_path)
    written = {**RECORDED_FILES, "e.log": 40, "f.log": 2}
    with restored_files() as files:
        for name in ("e.log", "f.log"):
            (files / name).write_text("".join(f"{line}\n" for line in file_lines(name, written[name])))
        run(topologies.files(tmp_path), config, spark)
    lines = [line for name, count in written.items() for line in file_lines(name, count)]
    assert select(tmp_path, "SELECT count FROM lines") == [(len(lines),)]
    words = Counter(word for line in lines for word in line.split())
    assert select(tmp_path, "SELECT word, count FROM words") == sorted(words.items(), key=repr)
