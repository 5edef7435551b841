"""Two drivers of one topology, as users run them: one leads, the other stands by and says so."""

from __future__ import annotations

import logging
import os
import signal
import sqlite3
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from pyspark.sql import DataFrame, SparkSession

from coordinators.backends.zookeeper.embedded import EmbeddedZooKeeper
from tests.topologies import until
from trident_py import (
    CommitToken,
    Count,
    FeederBatchSpout,
    FixedBatchSpout,
    Function,
    SinkTransaction,
    SQLiteState,
    StoreBusyException,
    TopologyKey,
    TransactionalSink,
    TridentCollector,
    TridentConfig,
    TridentError,
    TridentTopology,
)
from trident_py.testing import LocalCoordination

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]

PATIENCE_SECONDS = 180


def word_count(spout: Any, path: Path) -> TridentTopology:
    topology = TridentTopology("words")
    words = topology.new_stream("words", spout)
    words.group_by("word").persistent_aggregate(SQLiteState(path, table="counts"), Count(), "count")
    return topology


def test_a_standby_goes_on_where_the_leader_ended(spark: SparkSession, zookeeper: str, tmp_path: Path) -> None:
    config = TridentConfig(zookeeper=zookeeper, session_timeout=5)
    spouts = [FeederBatchSpout("word string") for _ in range(2)]
    first = word_count(spouts[0], tmp_path / "counts.db").start(config, spark=spark)
    second = word_count(spouts[1], tmp_path / "counts.db").start(config, spark=spark, standby=True)
    spouts[0].feed([("one",), ("two",)])
    assert first.status["is_leading"]
    assert not second.status["is_leading"]
    assert second.status["is_active"]
    assert second.transactions() == []
    assert second.last_progress is None
    first.stop()
    assert not first.status["is_leading"]
    spouts[1].feed([("two",)])
    assert second.status["is_leading"]
    assert second.status["leader"] is None
    assert second.status["epoch"] == 2
    assert second.last_progress is not None
    assert second.last_progress["txid"] == 2
    second.stop()
    with closing(sqlite3.connect(tmp_path / "counts.db")) as database:
        assert dict(database.execute("SELECT word, count FROM counts")) == Counter(["one", "two", "two"])


class Marking(Function):
    """Leaves a mark in each process into which it is loaded, and when it sees a row."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        (self.directory / f"loaded by {os.getpid()}").touch()

    def execute(self, row: Any, collector: TridentCollector) -> None:
        (self.directory / "saw a row").touch()
        collector.emit((row.word,))


def test_a_standby_loads_the_code_of_its_branches_again_and_again_and_writes_nothing(
    spark: SparkSession, zookeeper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trident_py.runtime.WARM_SECONDS", 0.01)
    config = TridentConfig(zookeeper=zookeeper, session_timeout=5)
    with word_count(FeederBatchSpout("word string"), tmp_path / "counts.db").start(config, spark=spark):
        topology, path = TridentTopology("words"), tmp_path / "standby.db"
        words = topology.new_stream("words", FeederBatchSpout("word string"))
        marked = words.each("word", Marking(tmp_path), "marked string").group_by("marked")
        marked.persistent_aggregate(SQLiteState(path, table="counts"), Count(), "count")

        def by_workers() -> list[Path]:
            return [file for file in tmp_path.glob("loaded by *") if file.name != f"loaded by {os.getpid()}"]

        with topology.start(config, spark=spark, standby=True) as standby:
            for _ in range(2):
                until(lambda: any(by_workers()))
                for mark in by_workers():
                    mark.unlink()
            assert not (tmp_path / "saw a row").exists()
            assert not path.exists()
            assert not standby.status["is_leading"]


def test_a_standby_has_its_resident_tasks_before_it_leads(
    spark: SparkSession, zookeeper: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "trident_py.engine.resident.resident_tasks")
    config = TridentConfig(zookeeper=zookeeper, session_timeout=5, resident_tasks=1, driver_host="127.0.0.1")
    spout = FeederBatchSpout("word string")
    leader = word_count(FeederBatchSpout("word string"), tmp_path / "counts.db").start(
        evolve(config, resident_tasks=0), spark=spark
    )
    standby = word_count(spout, tmp_path / "counts.db").start(config, spark=spark, standby=True)
    until(lambda: "resident task 0 is there" in caplog.text)
    assert not standby.status["is_leading"]
    leader.stop()
    spout.feed([("one",)], PATIENCE_SECONDS)
    assert standby.status["epoch"] == 2
    assert standby.status.resident_tasks == {"there": 1, "answered": 1, "given_back": 0, "dropped": 0}
    standby.stop()


def test_a_standby_waits_for_a_store_that_is_locked(
    spark: SparkSession,
    zookeeper: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trident_py.states.sql.sqlite_database.BUSY_SECONDS", 0.1)
    path, spout, tried = tmp_path / "counts.db", FeederBatchSpout("word string"), threading.Event()
    handler = Announcing(tried)
    logging.getLogger("trident_py.runtime").addHandler(handler)
    with closing(sqlite3.connect(path, isolation_level=None)) as zombie:
        zombie.execute("PRAGMA journal_mode = WAL")
        zombie.execute("BEGIN IMMEDIATE")
        query = word_count(spout, path).start(
            TridentConfig(zookeeper=zookeeper, session_timeout=5), spark=spark, standby=True
        )
        assert tried.wait(PATIENCE_SECONDS)
        assert query.status["message"] == "taking over"
        zombie.execute("ROLLBACK")
    logging.getLogger("trident_py.runtime").removeHandler(handler)
    spout.feed([("one",)])
    assert query.status["is_leading"]
    query.stop()


class BusyAtFirst(TransactionalSink[list[Any]]):
    """A sink whose store is locked when it is asked first."""

    def __init__(self) -> None:
        self.tries, self.rows = 0, list[Any]()

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        self.tries += 1
        if self.tries == 1:
            raise StoreBusyException("another process holds the lock")
        return None

    def prepare(self, tx: SinkTransaction, frame: DataFrame) -> list[Any]:
        return frame.collect()

    def commit(self, tx: SinkTransaction, receipt: list[Any]) -> None:
        self.rows += [tuple(row) for row in receipt]

    def abort(self, tx: SinkTransaction, receipt: list[Any] | None) -> None: ...


def test_a_standby_waits_for_a_sink_whose_store_is_locked(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trident_py.runtime.RECOVER_AGAIN_SECONDS", 0.01)
    topology, sink = TridentTopology("words"), BusyAtFirst()
    topology.new_stream("words", FixedBatchSpout("word string", 1, ("one",))).write_to(sink)
    with topology.start(spark=spark, coordination=LocalCoordination(), standby=True) as query:
        query.process_all_available()
    assert (sink.tries, sink.rows) == (2, [("one",)])


def test_a_standby_that_loses_zookeeper_while_it_takes_over_stands_by_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trident_py.states.sql.sqlite_database.BUSY_SECONDS", 0.1)
    path, spout, tried, lost = tmp_path / "counts.db", Counted("word string"), threading.Event(), threading.Event()
    handlers = {"trident_py.runtime": Announcing(tried), "coordinators.backends.zookeeper.leadership": Announcing(lost)}
    for name, handler in handlers.items():
        logging.getLogger(name).addHandler(handler)
    with closing(sqlite3.connect(path, isolation_level=None)) as zombie:
        zombie.execute("PRAGMA journal_mode = WAL")
        zombie.execute("BEGIN IMMEDIATE")
        query = word_count(spout, path).start(
            TridentConfig(state_dir=tmp_path, session_timeout=2), spark=spark, standby=True
        )
        assert tried.wait(PATIENCE_SECONDS)
        with EmbeddedZooKeeper.running(tmp_path / "zookeeper") as server:
            os.kill(server.pid, signal.SIGKILL)
            lost.clear()
            assert lost.wait(PATIENCE_SECONDS)
        zombie.execute("ROLLBACK")
    for name, handler in handlers.items():
        logging.getLogger(name).removeHandler(handler)
    with EmbeddedZooKeeper.running(tmp_path / "zookeeper"):
        query.process_all_available(PATIENCE_SECONDS)
    spout.feed([("one",)])
    assert query.status["epoch"] == 2
    query.stop()
    assert spout.coordinators == 2
    assert [thread.name for thread in threading.enumerate() if "trident-words" in thread.name] == []


class Counted(FeederBatchSpout):
    """Knows how many coordinators were made of it."""

    coordinators = 0

    def get_coordinator(self, *arguments: Any) -> Any:
        self.coordinators += 1
        return super().get_coordinator(*arguments)


class Announcing(logging.Handler):
    """Sets an event at the first warning."""

    def __init__(self, event: threading.Event) -> None:
        super().__init__(logging.WARNING)
        self.event = event

    def emit(self, record: logging.LogRecord) -> None:
        self.event.set()


def test_a_standby_that_is_stopped_never_leads(spark: SparkSession, zookeeper: str, tmp_path: Path) -> None:
    config = TridentConfig(zookeeper=zookeeper, session_timeout=5)
    first, second = (
        word_count(FeederBatchSpout("word string"), tmp_path / "counts.db").start(config, spark=spark, standby=standby)
        for standby in (False, True)
    )
    first.process_all_available(PATIENCE_SECONDS)
    assert "standing by" in second.status["message"] or second.status["message"] == "taking over"
    second.stop()
    assert not second.status["is_active"]
    assert second.status["message"] == "stopped"
    with pytest.raises(TridentError, match="was stopped"):
        second.process_all_available()
    assert first.status["is_leading"]
    first.stop()
