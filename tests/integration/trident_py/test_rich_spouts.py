"""An `IRichSpout` in a program that is killed: what wasn't acked is given again, and nothing is acked too early."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field
from pyspark.sql import SparkSession

from trident_py import (
    Count,
    IRichSpout,
    SpoutOutputCollector,
    SQLiteState,
    TopologyContext,
    TridentConfig,
    TridentTopology,
)

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]

PATIENCE_SECONDS = 180
MESSAGES = 60


@define
class Mailbox(IRichSpout):
    """A queue as brokers have them: a file for each message, which is there until it is acked.

    Attributes:
        kill_at: the ack at which the process gets a SIGKILL; 0: none.
    """

    directory: Path
    kill_at: int = 0
    given: set[str] = field(factory=set)
    acks: int = 0
    output_schema: str = field(default="message string", init=False)

    def open(self, conf: TridentConfig, context: TopologyContext, collector: SpoutOutputCollector) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        waiting = sorted(each.name for each in self.directory.iterdir() if each.name not in self.given)
        if waiting:
            self.given.add(waiting[0])
            self.collector.emit((waiting[0],), message_id=waiting[0])

    def ack(self, message_id: Any) -> None:
        self.acks += 1
        if self.acks == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        (self.directory / message_id).unlink()

    def fail(self, message_id: Any) -> None:
        self.given.discard(message_id)


def counting(at: Path, kill_at: int = 0) -> TridentTopology:
    topology = TridentTopology("mailbox")
    messages = topology.new_stream("messages", Mailbox(at / "mailbox", kill_at))
    messages.group_by("message").persistent_aggregate(SQLiteState(at / "counts.db", table="counts"), Count(), "count")
    return topology


def config(zookeeper: str) -> TridentConfig:
    return TridentConfig(zookeeper=zookeeper, session_timeout=4, spout_max_batch_size=10)


def counts(at: Path) -> dict[str, int]:
    with closing(sqlite3.connect(at / "counts.db")) as database:
        return dict(database.execute("SELECT message, count FROM counts"))


@pytest.mark.slow
def test_t5_b9_after_a_kill_every_message_is_there_and_only_those_are_twice_whose_ack_was_lost(
    spark: SparkSession, zookeeper: str, tmp_path: Path
) -> None:
    (tmp_path / "mailbox").mkdir()
    messages = [f"message {number:02}" for number in range(MESSAGES)]
    for message in messages:
        (tmp_path / "mailbox" / message).touch()
    program = [sys.executable, __file__, zookeeper, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    environment.pop("SPARK_CONNECT_MODE_ENABLED", None)  # PySpark sets it in a process that has used Connect
    killed = subprocess.run(program, check=False, timeout=PATIENCE_SECONDS, env=environment, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    left = {each.name for each in (tmp_path / "mailbox").iterdir()}
    committed = set(counts(tmp_path))
    assert len(left) == MESSAGES - 24
    assert set(messages) - left <= committed, "what is acked is committed"
    with counting(tmp_path).start(config(zookeeper), spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
    assert counts(tmp_path) == {message: 1 + (message in left & committed) for message in messages}
    assert not list((tmp_path / "mailbox").iterdir())


if __name__ == "__main__":
    with counting(Path(sys.argv[2]), kill_at=25).start(config(sys.argv[1])) as running:
        running.process_all_available(PATIENCE_SECONDS)
