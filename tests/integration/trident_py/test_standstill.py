"""Why a topology doesn't move, as itself and ``trident status`` tell it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from attrs import define, field
from pyspark.sql import SparkSession

from coordinators.backends.local import LocalCoordination
from tests.servers.postgresql import PASSWORD
from tests.topologies import until
from trident_py import (
    Count,
    FailedException,
    FeederBatchSpout,
    FixedBatchSpout,
    IBatchSpout,
    MapGet,
    MemoryMapState,
    MySQLState,
    PostgresState,
    SQLiteState,
    StandstillEvent,
    TridentConfig,
    TridentListener,
    TridentQuery,
    TridentTopology,
)
from trident_py.cli import main
from trident_py.engine.monitoring import listeners
from trident_py.interfaces.states import StateFactory

PATIENCE_SECONDS = 60


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "QUIET_SECONDS", 1.5)  # the driver takes a turn each second, and is no reason
    monkeypatch.setattr(listeners, "LOOK_SECONDS", 0.2)


def said(query: TridentQuery, wanted: str) -> str:
    """What is waited for, once that is among it."""

    def text() -> str:
        return "\n".join(each.message(time.time()) for each in query.status.waits_for)

    until(lambda: wanted in text())
    return text()


@pytest.fixture
def let_go() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@define
class Blocking(IBatchSpout):
    """Blocks in its second batch."""

    let_go: threading.Event
    output_schema = "value string"

    def emit_batch(self, batch_id: int, collector: Any) -> None:
        if batch_id == 2:
            self.let_go.wait()
        collector.emit((f"a {batch_id}",))

    def ack(self, batch_id: int) -> None:
        """Nothing."""


class Away(IBatchSpout):
    """Its source isn't there."""

    output_schema = "value string"

    def emit_batch(self, batch_id: int, collector: Any) -> None:
        raise FailedException("no route to host")

    def ack(self, batch_id: int) -> None:
        """Nothing."""


@define(eq=False)
class Hearing(TridentListener):
    """Keeps what it hears of standstills."""

    events: list[StandstillEvent] = field(factory=list)

    def on_standstill(self, event: StandstillEvent) -> None:
        self.events.append(event)


def start(topology: TridentTopology, **more: Any) -> TridentQuery:
    return topology.start(TridentConfig(max_spout_pending=1), coordination=LocalCoordination(), **more)


def test_an_emitter_that_blocks_is_named_with_the_line_where_it_stands(let_go: threading.Event) -> None:
    topology, hearing = TridentTopology("blocked"), Hearing()
    topology.new_stream("lines", Blocking(let_go)).peek(print)
    with start(topology, listeners=[hearing]) as query:
        text = said(query, "emits 2:0")
        assert "transaction 2:0 is processing, for " in text
        assert "spout 'lines' emits 2:0, on thread 'trident-lines-emitter' in emit_batch, " in text
        assert "test_standstill.py, line " in text
        let_go.set()
        until(lambda: len(hearing.events) > 1)
        query.stop(drain=False)
    assert "emits 2:0" in str(hearing.events[0].waits_for)
    assert hearing.events[-1].waits_for == ()


@pytest.mark.long
def test_a_source_that_is_away_and_one_without_input_are_named() -> None:
    for spout, wanted in (
        (Away(), "the source of spout 'lines' is unavailable: FailedException: no route to host, for "),
        (FeederBatchSpout("value string"), "spout 'lines' has no input"),
    ):
        topology = TridentTopology("source")
        topology.new_stream("lines", spout).peek(print)
        query = start(topology)
        said(query, wanted)
        query.stop(drain=False)


def test_a_request_without_end_is_named_as_what_commits_wait_for(let_go: threading.Event) -> None:
    class SlowGet(MapGet):
        """Takes its time."""

        def batch_retrieve(self, state: Any, args: Any) -> Any:
            let_go.wait()
            return super().batch_retrieve(state, args)

    topology = TridentTopology("asked")
    words = topology.new_stream("words", FeederBatchSpout("word string")).group_by("word")
    counts = words.persistent_aggregate(MemoryMapState.factory(), Count(), "count")
    topology.new_drpc_stream("count").state_query(counts, "args", SlowGet(), "count bigint")
    with start(topology) as query:
        asking = threading.Thread(target=lambda: query.execute("count", "a"), daemon=True)
        asking.start()
        text = said(query, "asks the states")
        assert "a request or a query asks the states, and commits wait for it, on thread 'trident-asked-commit'" in text
        assert " in batch_retrieve, " in text
        let_go.set()
        asking.join()


@pytest.mark.spark
@pytest.mark.local
def test_a_worker_that_is_stopped_is_named_by_its_stage_and_host(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "pid"

    def stopping(row: Any) -> list[tuple[str]]:
        file.write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)
        return [(row.word,)]

    topology = TridentTopology("stopped")
    stream = topology.new_stream("words", FixedBatchSpout("word string", 1, ("a",))).flat_map(stopping, "same string")
    stream.group_by("same").persistent_aggregate(MemoryMapState.factory(), Count(), "count")
    with start(topology, spark=spark) as query:
        try:
            text = said(query, " tasks done, 1 running on ")
            assert "Spark stage " in text
            assert " is prepared for 1:0, on thread 'trident-stopped-job-" in text
            assert " in Spark, for " in text
        finally:
            os.kill(int(file.read_text()), signal.SIGCONT)
        query.process_all_available(PATIENCE_SECONDS)


@contextmanager
def held_up(state: StateFactory, lock: Callable[[], object]) -> Iterator[TridentQuery]:
    """A topology whose state ``counts`` has committed one transaction, and finds the lock taken at the second."""
    spout, topology = FeederBatchSpout("word string"), TridentTopology("locked")
    words = topology.new_stream("words", spout)
    words.group_by("word").persistent_aggregate(state, Count(), "count")
    with start(topology) as query:
        spout.feed([("a",)])
        query.process_all_available(PATIENCE_SECONDS)
        lock()
        feeding = threading.Thread(target=spout.feed, args=([("a",)],), daemon=True)  # returns when it is taken
        feeding.start()
        assert "transaction 2:" in said(query, "counts commits 2:")
        yield query
        query.process_all_available(PATIENCE_SECONDS)


@pytest.mark.long
@pytest.mark.postgres
def test_who_locks_a_table_in_postgresql_is_named(postgres: str) -> None:
    with psycopg.connect(postgres, application_name="some report") as other:
        state = PostgresState(postgres, table="counts")
        with held_up(state, lambda: other.execute("LOCK TABLE counts IN ACCESS EXCLUSIVE MODE")) as query:
            text = said(query, "counts waits for a lock: ")
            assert f"process {other.info.backend_pid} of 127.0.0.1/" in text
            assert " has it, postgres from 127.0.0.1 by some report, idle in transaction since " in text
            assert PASSWORD not in text
            other.rollback()


@pytest.mark.long
@pytest.mark.mysql
def test_who_locks_a_row_in_mysql_is_named(mysql: str) -> None:
    with closing(MySQLState(mysql, table="counts").database.link()) as link:
        state, taken = MySQLState(mysql, table="counts"), []

        def lock() -> None:
            taken.append(link.begin().execute("SELECT * FROM _trident FOR UPDATE").fetchall())

        with held_up(state, lock) as query:
            text = said(query, "counts waits for a lock: ")
            assert "counts waits for a lock: connection " in text
            assert " has it, " in text
            link.rollback()


@pytest.mark.long
def test_who_has_the_write_lock_of_a_sqlite_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "counts.db"
    program = f"""
import sqlite3
connection = sqlite3.connect({str(path)!r}, isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
input()
"""
    others: list[subprocess.Popen[str]] = []

    def lock() -> None:
        command = [sys.executable, "-c", program]
        others.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        assert others[0].stdout is not None
        assert others[0].stdout.readline() == "locked\n"

    with held_up(SQLiteState(path, table="counts"), lock) as query:
        text = said(query, "counts waits for a lock: ")
        assert f"process {others[0].pid} (" in text
        assert f") has the write lock of {path}" in text
        others[0].communicate("\n")


@pytest.mark.long
@pytest.mark.zookeeper
@pytest.mark.spark
def test_another_process_is_told_too(
    zookeeper: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], spark: SparkSession, let_go: threading.Event
) -> None:
    topology = TridentTopology("told")
    topology.new_stream("lines", Blocking(let_go)).peek(print)
    query = topology.start(TridentConfig(zookeeper=zookeeper, state_dir=tmp_path), spark=spark)
    where = ["--zookeeper", zookeeper]

    def told(*words: str) -> str:
        assert main([*words, *where]) == 0
        return capsys.readouterr().out

    until(lambda: "emits 2:0" in told("status", "told", "--state-dir", str(tmp_path)))
    elsewhere = told("status", "told", "--state-dir", str(tmp_path / "elsewhere"))
    assert "not known here: there is no history in" in elsewhere
    let_go.set()
    query.stop(drain=False)
    assert "waits for" not in told("status", "told", "--state-dir", str(tmp_path))
