"""The history of topologies whose processes are killed, and whose history is out of reach."""

from __future__ import annotations

import json
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from coordinators.backends.local import LocalCoordination
from coordinators.values.secret import Secret
from tests.servers.postgresql import PASSWORD, PostgresServer
from tests.topologies import TRIDENT, until
from trident_py import Count, FeederBatchSpout, MemoryMapState, TridentConfig, TridentTopology
from trident_py.cli import main
from trident_py.history.database import history_at

PATIENCE_SECONDS = 120

ENDLESS = """
from trident_py import Count, FixedBatchSpout, SQLiteState, TridentTopology

topology = TridentTopology("endless")
numbers = topology.new_stream("numbers", FixedBatchSpout("n bigint", 1, (1,), (2,), cycle=True))
numbers.group_by("n").persistent_aggregate(SQLiteState({database!r}, table="counts"), Count(), "count")
"""


def listed(state_dir: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    """What ``trident tx endless list`` says; nothing before anything was written."""
    status = main(["tx", "endless", "list", "--last", "10000", "--json", "--state-dir", str(state_dir)])
    out = capsys.readouterr().out
    found: list[dict[str, object]] = json.loads(out) if status == 0 else []
    return found


def committed(found: list[dict[str, object]]) -> int:
    return sum(each["outcome"] == "committed" for each in found)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.zookeeper
def test_after_a_kill_the_history_says_what_was_committed_and_by_whom(
    zookeeper: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS.format(database=str(tmp_path / "counts.db")))
    command = [*TRIDENT, "run", str(tmp_path / "endless.py"), "--zookeeper", zookeeper, "--state-dir", str(tmp_path)]
    before = 0
    for end in (subprocess.Popen.kill, subprocess.Popen.terminate):
        with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
            try:
                until(
                    lambda: committed(listed(tmp_path, capsys)) > before + 20,  # noqa: B023 - called right here
                    PATIENCE_SECONDS,
                )
                end(process)
                process.wait(PATIENCE_SECONDS)
            finally:
                process.kill()
        found = listed(tmp_path, capsys)
        before = committed(found)
    assert {each["outcome"] for each in found} == {"committed"}  # what was under way when it was asked to stop, too
    attempts = [attempt for each in found for attempt in each["attempts"]]  # type: ignore[attr-defined]
    assert {(each["epoch"], each["outcome"]) for each in attempts} >= {(1, "committed"), (2, "committed")}
    assert len({each["pid"] for each in attempts}) == 2
    assert len({each["code"] for each in attempts}) == 1


@pytest.mark.postgres
def test_a_history_that_is_away_holds_nothing_up_and_is_written_when_it_is_back(
    fresh_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trident_py.history.recorder.AGAIN_SECONDS", 0.1)
    dsn, spout = fresh_postgres.dsn(), FeederBatchSpout("word string")
    topology = TridentTopology("words")
    words = topology.new_stream("words", spout)
    words.group_by("word").persistent_aggregate(MemoryMapState.factory(), Count(), "count")
    config = TridentConfig(history=dsn)
    with topology.start(config, coordination=LocalCoordination()) as query:
        spout.feed([("one",)])
        query.process_all_available(PATIENCE_SECONDS)
        fresh_postgres.kill()
        spout.feed([("two",)])
        query.process_all_available(PATIENCE_SECONDS)

        def feeds(wanted: bool) -> bool:
            spout.feed([("more",)])  # the history looks again when something happens
            query.process_all_available(PATIENCE_SECONDS)
            return bool(query.status.history_error) == wanted

        until(lambda: feeds(True), PATIENCE_SECONDS)
        assert PASSWORD not in query.status.history_error
        fresh_postgres.start()
        until(lambda: feeds(False), PATIENCE_SECONDS)
        last = query.status.last_committed
    with closing(history_at(Secret(dsn), reads=True)) as reader:
        (leadership,) = reader.leaderships("words")
        txids = [each.txid for each in reader.attempts(leadership.life, 1, 10**9)]
    assert sorted(txids) == list(range(1, (last or 0) + 1))
    assert leadership.ended is not None
