"""Whose Spark session a topology runs in, and when that ends. In a process of its own: sessions are of the process."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from trident_py.errors import ConfigError
from trident_py.spark import probe

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.zookeeper]

WITHIN_SECONDS = 300
PROGRAM = """
import sys, threading
from pyspark.sql import SparkSession
from trident_py import *
from trident_py.spark import session

session.PROBE_SECONDS = 0.2

def topology(name, spout):
    made = TridentTopology(name)
    made.new_stream("words", spout).group_by("word").persistent_aggregate(MemoryMapState.factory(), Count(), "count")
    return made

class Stuck(ITridentSpout):
    output_schema = "n bigint"
    def get_coordinator(self, tx_state_id, conf, context):
        class Ready(BatchCoordinator):
            def is_ready(self, txid): return True
            def initialize_transaction(self, txid, prev_metadata, curr_metadata): return txid
        return Ready()
    def get_emitter(self, tx_state_id, conf, context):
        class Blocked(Emitter):
            def emit_batch(self, attempt, metadata, collector): emitting.set(); threading.Event().wait()
        return Blocked()

emitting = threading.Event()
config = TridentConfig(state_dir=sys.argv[1], session_timeout=3)
stuck = TridentTopology("stuck")
stuck.new_stream("numbers", Stuck())
query = stuck.start(config)
spout = FeederBatchSpout("word string")
second = topology("second", spout).start(config)
assert emitting.wait(120)
query.stop(drain=False)  # it doesn't wait for the emitter, and leaves the session to the second
assert "in emit_batch" in query.status["message"], query.status
spout.feed([("a",)], timeout=120)
assert second.is_active and list(active()) == ["second"]

SparkSession.getActiveSession().stop()  # by a user who takes it for his own
try:
    second.await_termination(120)
except SparkLost as error:
    assert "the Spark session is gone" in str(error), error
else:
    raise AssertionError("it went on")

spout = FeederBatchSpout("word string")
third = topology("second", spout).start(config)  # in a new session
spout.feed([("b",)], timeout=120)
assert third.last_progress["txid"] == 2
# Neither this topology nor the emitter's thread keeps the process from ending.
"""


def ran(program: str, directory: Path) -> str:
    """Run a program in a process of its own; return what it wrote to standard error."""
    (directory / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, directory / "program.py", directory / "state"],
        capture_output=True,
        text=True,
        timeout=WITHIN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.master("over Connect, the server says which Python workers run")
def test_a_session_whose_workers_run_another_python_is_refused_with_what_that_lacks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv.create(tmp_path / "other", with_pip=False, symlinks=True)
    other = tmp_path / "other" / "bin" / "python"
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(other))
    monkeypatch.setattr(probe, "_good", set())
    with pytest.raises(ConfigError, match=rf"'wc': the Python workers .* run {other} .*which lacks .*'pyarrow'"):
        probe.ensure_workers(spark, "wc")


@pytest.mark.long
def test_topologies_of_a_process_share_a_session_that_ends_with_the_last_and_no_user_code_holds_up_an_end(
    tmp_path: Path,
) -> None:
    errors = ran(PROGRAM, tmp_path)
    assert "releases leadership and no longer waits for thread 'trident-numbers-emitter'" in errors


USERS = """
import sys
from pyspark.sql import SparkSession
from trident_py import Count, FixedBatchSpout, MemoryMapState, TridentConfig, TridentTopology

def run(name, spark=None):
    topology = TridentTopology(name)
    words = topology.new_stream("words", FixedBatchSpout("word string", 2, ("a",), ("b",)))
    words.group_by("word").persistent_aggregate(MemoryMapState.factory(), Count(), "n")
    with topology.start(TridentConfig(state_dir=sys.argv[1]), spark=spark) as query:
        query.process_all_available()

run("first")  # in a session that is built, and stopped
spark = SparkSession.builder.master("local[1]").getOrCreate()
run("second", spark)
assert spark.range(3).count() == 3
"""


@pytest.mark.slow
def test_a_users_session_outlives_a_topology_also_after_one_that_was_built(tmp_path: Path) -> None:
    ran(USERS, tmp_path)
