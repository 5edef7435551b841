"""States that tasks change in the commit phase: the same values as on the driver, over failures and replays."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, frozen
from pyspark import TaskContext
from pyspark.sql import SparkSession

from tests.integration.trident_py import tasked_program
from tests.integration.trident_py.dying import run_over_kills
from tests.integration.trident_py.forgetful import ForgetfulState
from tests.integration.trident_py.tasked_program import Joining
from tests.integration.trident_py.test_query import PATIENCE_SECONDS
from tests.unit.trident_py.states.sql.postgres_rows import select, tables
from trident_py import FileSink, FixedBatchSpout, PostgresState, SQLSink, TridentConfig, TridentTopology
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.states import QueryFunction, ReadOnlyMapState, RemovableMapState, StateUpdater
from trident_py.rows.schema import schema_of
from trident_py.states.shards import shard_numbers

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.zookeeper]

BOOKS = ["_counts_removed", "_trident", "counts"]
LARGE = 5_000  # rows: more than a shared job takes
ROWS = [(f"w{number % 97}", number) for number in range(3 * LARGE + 10)]  # the last batch is small
EXPECTED = {word: ",".join(str(n) for w, n in ROWS if w == word) for word in {word for word, _ in ROWS}}


def in_tasks(dsn: str) -> PostgresState:
    return PostgresState(dsn, table="counts", placement="tasks")


def joined(name: str, state: PostgresState, told: Path | None = None) -> TridentTopology:
    """The numbers of each word; their new values go to a table in the directory ``told``."""
    topology = TridentTopology(name)
    numbers = topology.new_stream("numbers", FixedBatchSpout("word string, n bigint", LARGE, *ROWS))
    words = numbers.group_by("word").persistent_aggregate(state, Joining(), "numbers string")
    if told:
        sink = SQLSink(f"sqlite:///{told / 'told.db'}", "told", mode="upsert", keys="word")
        words.new_values_stream().write_to(sink)
    return topology


def test_a_reducer_in_tasks_gets_each_row_once_in_order(
    spark: SparkSession, config: TridentConfig, postgres: str
) -> None:
    topology = joined("reduced", in_tasks(postgres))
    assert "in Spark's tasks if a batch is large" in topology.explain()
    with topology.start(config, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
    assert dict(select(postgres, "SELECT word, numbers FROM counts")) == EXPECTED
    assert tables(postgres) == BOOKS


def test_a_commit_by_tasks_that_happened_and_is_replayed_counts_once(
    spark: SparkSession, config: TridentConfig, postgres: str, tmp_path: Path
) -> None:
    factory = ForgetfulState(postgres, table="counts", placement="tasks")
    with joined("redone", factory, tmp_path).start(config, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
    with closing(sqlite3.connect(tmp_path / "told.db")) as told:
        assert dict(told.execute("SELECT word, numbers FROM told").fetchall()) == EXPECTED
    assert factory.commits[:3] == ["1:0", "2:0", "2:1"]
    assert dict(select(postgres, "SELECT word, numbers FROM counts")) == EXPECTED
    assert tables(postgres) == BOOKS


@frozen
class Counting(StateUpdater[RemovableMapState[int]]):
    """Counts words, and notes each call; it fails or hangs where a file of that name is missing."""

    calls: Path
    fails: str = ""

    def update_state(self, state: RemovableMapState[int], tuples: Sequence[Any], collector: TridentCollector) -> None:
        (self.calls / f"{os.getpid()}-{os.urandom(4).hex()}").write_text("\n".join(row.word for row in tuples))
        if self.fails and not (marker := self.calls.parent / self.fails).exists():
            marker.touch()
            if self.fails == "raises":
                raise ValueError("only the first time")
            threading.Event().wait()
        added = Counter(row.word for row in tuples)
        old = state.multi_get([[word] for word in added])
        new = [(before or 0) + count for before, count in zip(old, added.values(), strict=True)]
        state.multi_put([[word] for word in added], new)


def counted(spark: SparkSession, config: TridentConfig, postgres: str, updater: Counting) -> list[str]:
    """Count the words of two large batches in three partitions; return the topology's failures."""
    topology, rows = TridentTopology("updated"), ROWS[: 2 * LARGE]
    factory = in_tasks(postgres).for_fields(schema_of("word string"), schema_of("count bigint").fields[0])
    updater.calls.mkdir()
    numbers = topology.new_stream("numbers", FixedBatchSpout("word string, n bigint", LARGE, *rows))
    numbers.partition_by("word").parallelism_hint(3).partition_persist(factory, updater, ["word"])
    with topology.start(config, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
    assert dict(select(postgres, "SELECT word, count FROM counts")) == Counter(word for word, _ in rows)
    return [path.read_text() for path in updater.calls.iterdir()]


def test_an_updater_in_tasks_is_called_for_each_partition_with_the_keys_that_the_driver_would_give_it(
    spark: SparkSession, config: TridentConfig, postgres: str, tmp_path: Path
) -> None:
    calls = counted(spark, config, postgres, Counting(tmp_path / "calls"))
    assert len(calls) == 6
    for called in calls:
        assert len(set(shard_numbers([[word] for word in called.split()], 3))) == 1


@pytest.mark.parametrize("fails", ["raises", pytest.param("hangs", marks=pytest.mark.slow)])
def test_an_updater_that_raises_or_hangs_in_a_task_fails_only_its_attempt(
    fails: str, spark: SparkSession, config: TridentConfig, postgres: str, tmp_path: Path
) -> None:
    calls = counted(spark, evolve(config, message_timeout=6.0), postgres, Counting(tmp_path / "calls", fails))
    assert len(calls) > 6
    assert tables(postgres) == BOOKS


@frozen
class Located(QueryFunction[ReadOnlyMapState[Any], str]):
    """The value of a word, and whether a task has looked it up."""

    def batch_retrieve(self, state: ReadOnlyMapState[Any], args: Sequence[Any]) -> Sequence[str]:
        where = "task" if TaskContext.get() else "driver"
        return [f"{value} by {where}" for value in state.multi_get([[row.word] for row in args])]

    def execute(self, row: Any, result: str, collector: TridentCollector) -> None:
        collector.emit((result,))


@pytest.mark.parametrize("is_static", [True, False])
def test_a_query_of_a_large_batch_reads_the_state_in_tasks(
    is_static: bool, spark: SparkSession, config: TridentConfig, postgres: str, tmp_path: Path
) -> None:
    if is_static:
        with joined("filling", in_tasks(postgres)).start(config, spark=spark) as query:
            query.process_all_available(PATIENCE_SECONDS)
    topology, asked = TridentTopology("asking"), [("w1", 1)] * LARGE + [("w2", 2), ("new", 3)]
    state: Any
    if is_static:
        state = topology.new_static_state(in_tasks(postgres))
    else:
        numbers = topology.new_stream("numbers", FixedBatchSpout("word string, n bigint", 3, ("w1", 7)))
        state = numbers.group_by("word").persistent_aggregate(in_tasks(postgres), Joining(), "numbers string")
    words = topology.new_stream("words", FixedBatchSpout("word string, n bigint", LARGE, *asked))
    words.state_query(state, ["word"], Located(), "found string").write_to(FileSink(tmp_path / "found", format="json"))
    with topology.start(evolve(config, max_spout_pending=1), spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
    rows = spark.read.json(str(tmp_path / "found")).select("word", "found").distinct().collect()
    by = {row.word: row.found.rpartition(" by ") for row in rows}
    assert {word: where for word, (_, _, where) in by.items()} == {"w1": "task", "w2": "driver", "new": "driver"}
    assert by["new"][0] == "None"
    if is_static:
        assert (by["w1"][0], by["w2"][0]) == (EXPECTED["w1"], EXPECTED["w2"])


@pytest.mark.slow
def test_states_that_tasks_change_count_each_row_once_over_kills_in_the_middle_of_commits(
    zookeeper: str, postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(tasked_program.DSN, postgres)
    run_over_kills(tasked_program.__file__, zookeeper, tmp_path, (1, 2, 3, 5, 6))
    by_word: dict[str, list[int]] = {}
    for word, n in tasked_program.ROWS:
        by_word.setdefault(word, []).append(n)
    joined = {word: ",".join(map(str, numbers)) for word, numbers in by_word.items()}
    assert dict(select(postgres, "SELECT word, numbers FROM joined")) == joined
    summed = dict(select(postgres, "SELECT word, total FROM summed"))
    for word, numbers in by_word.items():
        last = max((place for place, n in enumerate(numbers) if n % 1000 == 7), default=0)
        assert summed[word] == sum(numbers[last:])
    with closing(sqlite3.connect(tmp_path / "here.db")) as here:
        assert dict(here.execute("SELECT word, total FROM here").fetchall()) == summed
