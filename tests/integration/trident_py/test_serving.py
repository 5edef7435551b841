"""Requests and pages over real processes, one of which is killed."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from coordinators.backends.zookeeper.leadership import lead
from tests.topologies import TRIDENT, read_until
from tests.unit.trident_py.web.serving import Client

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.zookeeper]

COUNTS = """
from trident_py import Count, FixedBatchSpout, MapGet, SQLiteState, TridentTopology

topology = TridentTopology("counts")
words = topology.new_stream("words", FixedBatchSpout("word string", 1, ("to",), ("be",), ("to",)))
counts = words.group_by("word").persistent_aggregate(SQLiteState({path!r}, table="counts"), Count(), "count")
topology.new_drpc_stream("count").map(lambda row: (row.args,), "word string").state_query(
    counts, "word", MapGet(), "count bigint"
)
"""
PATIENCE_SECONDS = "120"


@contextmanager
def running(directory: Path, zookeeper: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    target = directory / "counts.py"
    target.write_text(COUNTS.format(path=str(directory / "counts.db")))
    command = [*TRIDENT, "run", str(target), *where(directory, zookeeper), "--serve", "127.0.0.1:0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def where(directory: Path, zookeeper: str) -> list[str]:
    return ["--zookeeper", zookeeper, "--state-dir", str(directory)]


def asked(directory: Path, zookeeper: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [*TRIDENT, "request", "counts", *words, *where(directory, zookeeper), "--timeout", PATIENCE_SECONDS]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_whoever_leads_answers_also_after_a_kill_and_the_page_outlives_all(zookeeper: str, tmp_path: Path) -> None:
    with ExitStack() as processes:
        leader = processes.enter_context(running(tmp_path, zookeeper))
        first = Client(read_until(leader, r"^page: (.*)$"))
        read_until(leader, r"(3 transactions)")
        standby = processes.enter_context(running(tmp_path, zookeeper, "--standby"))
        second = Client(read_until(standby, r"^page: (.*)$"))
        answer = asked(tmp_path, zookeeper, "count", "to", "--json")
        assert json.loads(answer.stdout) == {"rows": [["to", 2]], "epoch": 1, "txid": 3}
        told = second.get("/drpc/count/to")
        assert (told.status, told.headers["location"]) == (307, f"http://{first.host}/drpc/count/to")

        leader.send_signal(signal.SIGKILL)
        answer = asked(tmp_path, zookeeper, "count", "be", "--json")
        assert json.loads(answer.stdout) == {"rows": [["be", 1]], "epoch": 2, "txid": 3}
        assert second.get("/drpc/count/be").json == [["be", 1]]
        unknown = asked(tmp_path, zookeeper, "sum", "to")
        assert (unknown.returncode, "has no function 'sum'; there are: 'count'" in unknown.stderr) == (1, True)
    shown(tmp_path, zookeeper)


def shown(directory: Path, zookeeper: str) -> None:
    """What the page tells when nobody is left."""
    command = [*TRIDENT, "ui", *where(directory, zookeeper), "--serve", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as ui:
        client = Client(read_until(ui, r"^page: (.*)$"))
        assert [each["outcome"] for each in client.get("/tx").json] == ["committed"] * 3
        assert client.get("/plan").json["nodes"][0]["name"] == "words"
        ui.send_signal(signal.SIGTERM)
        assert ui.wait() == 0


def test_a_topology_that_serves_nothing_is_named_as_that(zookeeper: str, tmp_path: Path) -> None:
    store = lead("counts", hosts=zookeeper)
    command = [*TRIDENT, "request", "counts", "count", "to", *where(tmp_path, zookeeper), "--timeout", "0.1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    store.close()
    assert (done.returncode, "answers no requests: it runs without --serve" in done.stderr) == (1, True)
