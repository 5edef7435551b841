"""Small batches through tasks that stay: the same results as by jobs, whatever becomes of the tasks."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.integration.trident_py.test_query import PATIENCE_SECONDS
from tests.integration.trident_py.test_sharing import Shown
from tests.topologies import until
from trident_py import (
    ConfigError,
    Count,
    FeederBatchSpout,
    Function,
    LocalCoordination,
    MemoryMapState,
    PoisonBatchError,
    RetryPolicy,
    Stream,
    TridentCollector,
    TridentConfig,
    TridentQuery,
    TridentTopology,
    counter,
)
from trident_py.engine.monitoring import listeners
from trident_py.engine.resident import resident_tasks
from trident_py.engine.resident.server import ResidentServer
from trident_py.spark.jobs import parallelism
from trident_py.worker.resident import ResidentTask

pytestmark = [pytest.mark.spark]

LINES = [f"w{number % 7} w{number % 11} all" for number in range(20)]
CONFIG = TridentConfig(
    max_spout_pending=4,
    resident_tasks=1,
    driver_host="127.0.0.1",  # Spark Connect needs it
    retry=RetryPolicy(attempts=2, backoff=0.01),
)


@contextmanager
def running(
    declare: Callable[[Stream], object], spark: SparkSession, config: TridentConfig = CONFIG
) -> Iterator[tuple[FeederBatchSpout, TridentQuery]]:
    """Start a topology over lines, and wait for its tasks."""
    lines, topology = FeederBatchSpout("line string"), TridentTopology("resident")
    declare(topology.new_stream("lines", lines))
    with topology.start(config, spark=spark, coordination=LocalCoordination()) as query:
        until(lambda: query.status.resident_tasks["there"] == config.resident_tasks)
        yield lines, query


def attempts(query: TridentQuery) -> set[int]:
    return {entry["attempt_id"] for entry in query.recent_progress}


def has_answered(query: TridentQuery, count: int) -> bool:
    return query.status.resident_tasks["answered"] >= count


def split(row: Any) -> list[tuple[str]]:
    counter("lines").add()
    return [(word,) for word in row.line.split()]


def test_words_are_counted_without_any_job(spark: SparkSession) -> None:
    counts = MemoryMapState.factory()
    with running(
        lambda lines: (
            lines.flat_map(split, "word string").group_by("word").persistent_aggregate(counts, Count(), "count")
        ),
        spark,
    ) as (lines, query):
        for line in LINES:
            lines.feed([(line,)], PATIENCE_SECONDS)
        until(lambda: query.status.committed == len(LINES))
        assert query.status.resident_tasks == {"there": 1, "answered": len(LINES), "given_back": 0, "dropped": 0}
        assert query.status.counts == {"lines": len(LINES)}
        assert attempts(query) == {0}
    words = Counter(word for line in LINES for word in line.split())
    assert counts.values() == {(word,): count for word, count in words.items()}


class Numbering(Function):
    """Numbers its calls, and remembers."""

    def prepare(self) -> None:
        self.calls = 0

    def execute(self, row: Any, collector: TridentCollector) -> None:
        self.calls += 1
        collector.emit((f"{row.line}{self.calls}",))


def test_a_function_that_remembers_begins_anew_for_each_transaction(spark: SparkSession) -> None:
    sink = Shown()
    numbered: Callable[[Stream], object] = lambda lines: (  # noqa: E731
        lines.each("line", Numbering(), "word string").project("word").write_to(sink)
    )
    with running(numbered, spark) as (lines, query):
        for batch in (["a", "b"], ["c"], ["d", "e"]):
            lines.feed([(line,) for line in batch], PATIENCE_SECONDS)
        assert query.status.resident_tasks["given_back"] == 0
    assert sink.committed == {1: ["a1", "b2"], 2: ["c1"], 3: ["d1", "e2"]}


def test_the_one_that_fails_fails_alone_and_is_named(spark: SparkSession) -> None:
    def checked(row: Any) -> tuple[str]:
        if row.line == "bad":
            raise ValueError(f"can't read {row.line}")
        return (row.line,)

    sink = Shown()
    complaint = r"transaction 2 failed 2 times.*can't read bad.*in map.*line='bad'"
    with running(lambda lines: lines.map(checked, "word string").write_to(sink), spark) as (lines, query):
        lines.feed([("good",)], PATIENCE_SECONDS)
        with pytest.raises(Exception, match="stopped"):
            lines.feed([("bad",)], PATIENCE_SECONDS)
        assert query.status.resident_tasks["given_back"] == 0
        with pytest.raises(PoisonBatchError, match=complaint):
            query.process_all_available(PATIENCE_SECONDS)
    assert sink.committed == {1: ["good"]}


def only_once(mark: Path, act: Callable[[], object]) -> Callable[[Any], tuple[str]]:
    """Return a function that acts at its first line, which a resident task runs; the job after it passes."""

    def mapped(row: Any) -> tuple[str]:
        if row.line == "act" and not mark.exists():
            mark.touch()
            act()
        return (row.line,)

    return mapped


@pytest.mark.parametrize("act", [lambda: os._exit(3), lambda: os.kill(os.getpid(), 9)], ids=["exits", "is killed"])
def test_a_task_that_dies_hurts_no_attempt_and_comes_back(
    spark: SparkSession, tmp_path: Path, act: Callable[[], object]
) -> None:
    sink, mapped = Shown(), only_once(tmp_path / "mark", act)
    with running(lambda lines: lines.map(mapped, "word string").write_to(sink), spark) as (lines, query):
        lines.feed([("act",)], PATIENCE_SECONDS)
        lines.feed([("b",)], PATIENCE_SECONDS)
        assert query.status.resident_tasks["given_back"] == 1
        until(lambda: query.status.resident_tasks["there"] == 1)
        answered = query.status.resident_tasks["answered"]
        lines.feed([("c",)], PATIENCE_SECONDS)
        until(lambda: query.status.resident_tasks["answered"] == answered + 1)
        assert attempts(query) == {0}
    assert sink.committed == {1: ["act"], 2: ["b"], 3: ["c"]}


@pytest.mark.long
def test_a_task_that_hangs_loses_its_request_to_a_job(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident_tasks, "SLOW_SECONDS", 3600.0)
    sink, mapped = Shown(), only_once(tmp_path / "mark", lambda: time.sleep(4))
    config = TridentConfig(resident_tasks=1, driver_host="127.0.0.1", message_timeout=1)
    with running(lambda lines: lines.map(mapped, "word string").write_to(sink), spark, config) as (lines, query):
        lines.feed([("act",)], PATIENCE_SECONDS)
        assert query.status.resident_tasks["given_back"] == 1
        lines.feed([("b",)], PATIENCE_SECONDS)  # by a job, as the branch may be slow
        until(lambda: query.status.resident_tasks["there"] == 1)  # its late answer found no connection
        assert query.status.resident_tasks["answered"] == 0
        assert attempts(query) == {0}
    assert sink.committed == {1: ["act"], 2: ["b"]}


@pytest.mark.long
def test_the_line_in_which_a_task_takes_long_is_shown(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "QUIET_SECONDS", 1.5)
    sink, go_on = Shown(), tmp_path / "go on"

    def slow(row: Any) -> tuple[str]:
        while not go_on.exists():
            time.sleep(0.05)
        return (row.line,)

    with running(lambda lines: lines.map(slow, "word string").write_to(sink), spark) as (lines, query):
        feeding = threading.Thread(target=lines.feed, args=([("a",)], PATIENCE_SECONDS))
        feeding.start()
        until(lambda: [each.task for each in query.status.busy_tasks if each.place.startswith("in slow, ")] == [0])
        waits = "resident task 0 processes a batch in slow, "
        until(lambda: any(each.what.startswith(waits) for each in query.status.waits_for))
        go_on.touch()
        feeding.join(PATIENCE_SECONDS)
        until(lambda: not query.status.busy_tasks)
        assert query.status.resident_tasks["given_back"] == 0
    assert sink.committed == {1: ["a"]}


@pytest.mark.long
def test_tasks_come_with_small_batches_and_leave_after_the_last(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident_tasks, "IDLE_SECONDS_MAX", 1.0)
    sink, lines, topology = Shown(), FeederBatchSpout("word string"), TridentTopology("auto")
    topology.new_stream("lines", lines).write_to(sink)
    config = TridentConfig(resident_tasks="auto", driver_host="127.0.0.1")
    with topology.start(config, spark=spark, coordination=LocalCoordination()) as query:
        for number in (1, 2):
            lines.feed([("a",)], PATIENCE_SECONDS)  # by a job, and the tasks come
            until(lambda: query.status.resident_tasks["there"] == parallelism(spark) // 2)
            lines.feed([("b",)], PATIENCE_SECONDS)
            until(partial(has_answered, query, number))
            until(lambda: query.status.resident_tasks["there"] == 0)
        assert query.status.resident_tasks["given_back"] == 0
    assert sink.committed == {1: ["a"], 2: ["b"], 3: ["a"], 4: ["b"]}


@pytest.mark.local
def test_the_port_is_not_given_back_before_the_tasks_have_ended(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a task that is still starting connects to the next owner: Spark gave it the rows of a job, and hung."""
    ending, happened = threading.Event(), list[str]()
    end_all, close = ResidentServer.end_all, ResidentServer.close

    def ends_all(server: ResidentServer) -> None:
        end_all(server)
        ending.set()

    def closes(server: ResidentServer) -> None:
        happened.append("the port is given back")
        close(server)

    def starting(session: SparkSession, count: int, task: ResidentTask) -> None:
        assert ending.wait(PATIENCE_SECONDS)
        with socket.create_connection(task.address):
            happened.append("a task has connected")

    monkeypatch.setattr(ResidentServer, "end_all", ends_all)
    monkeypatch.setattr(ResidentServer, "close", closes)
    monkeypatch.setattr(resident_tasks, "run_in_tasks", starting)
    lines, topology = FeederBatchSpout("line string"), TridentTopology("resident")
    topology.new_stream("lines", lines).write_to(Shown())
    topology.start(CONFIG, spark=spark, coordination=LocalCoordination()).stop()
    assert happened == ["a task has connected", "the port is given back"]


@pytest.mark.local  # a cluster may grow, so it isn't refused there
def test_tasks_that_would_take_all_slots_are_refused(spark: SparkSession) -> None:
    slots = parallelism(spark)
    topology = TridentTopology("greedy")
    topology.new_stream("lines", FeederBatchSpout("line string")).write_to(Shown())
    with pytest.raises(ConfigError, match=rf"resident_tasks={slots} leaves no slot.*local\[{slots + 1}\]"):
        topology.start(TridentConfig(resident_tasks=slots), spark=spark, coordination=LocalCoordination())
