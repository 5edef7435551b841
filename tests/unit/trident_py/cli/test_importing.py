"""``trident import`` over what Storm 2.8.3 has stored, in a real ZooKeeper and a real Redis."""

from __future__ import annotations

import re
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from coordinators.backends.zookeeper.coordination import ZooKeeperCoordination
from tests.servers.redis_server import RedisServer
from tests.storm_data.dumps import counted, dump, nodes_of
from tests.unit.trident_py.storm.test_reading import fill
from trident_py.cli.app import main

PROGRAM = """
from tests.storm_data.dumps import OpaqueLines, program
from trident_py import SQLiteState

topology = program("storm-opaque", OpaqueLines(), lambda: SQLiteState("counts.db", table="counts"))
"""
IMPORT = ["import", "--from-storm", "storm-opaque", "--settle", "0", "program.py"]


@pytest.fixture
def stopped(
    zookeeper: str, redis: str, redis_server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """The ZooKeeper of Storm, where ``storm-opaque`` is inactive; a program is in the working directory."""
    fill(zookeeper, nodes_of("storm-opaque", "inactive"))
    with redis_server.client() as client:
        client.mset(dump("storm-opaque")["redis"]["1"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "program", raising=False)
    monkeypatch.setenv("TRIDENT_STORM_REDIS", redis)
    Path("program.py").write_text(PROGRAM, encoding="utf-8")
    return zookeeper


@pytest.mark.zookeeper
@pytest.mark.redis
def test_a_topology_is_imported_and_told_of(stopped: str, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--storm-zookeeper", stopped, "--zookeeper", f"{stopped}/ours", "--state", "counts=opaque,strings=*"]
    assert main([*IMPORT, *where]) == 0
    assert capsys.readouterr().out == (
        "topology 'words' continues from Storm's 'storm-opaque' with transaction 3, 3 pending transactions\n"
        "state 'counts': 6 keys, as of transaction 2\n"
        "don't activate 'storm-opaque' in Storm any more: both would read the same source\n"
    )
    with closing(sqlite3.connect("counts.db")) as client:
        assert dict(client.execute("SELECT word, count FROM counts").fetchall()) == dict(counted([0, 1], 4))
    described = ZooKeeperCoordination(hosts=f"{stopped}/ours").describe("words")
    assert described.record is not None
    assert described.record.current_txid == 3
    assert described.leader is None
    assert main([*IMPORT, *where]) == 0
    assert capsys.readouterr().out == (
        "topology 'words' was imported from Storm's 'storm-opaque' before; it is at transaction 3\n"
    )


@pytest.mark.zookeeper
@pytest.mark.redis
def test_a_refused_import_leaves_nothing(stopped: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*IMPORT, "--zookeeper", stopped, "--state", "counts=transactional,strings=*"]) == 1
    assert "of strings '*' is not of a state that is transactional in Storm" in capsys.readouterr().err
    assert main([*IMPORT, "--zookeeper", stopped]) == 1
    assert "nothing says what state 'counts' begins with" in capsys.readouterr().err
    assert not Path("counts.db").exists()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            ["--state", "counts=oblique,hash=a"],
            "--state is NAME=empty, NAME=KIND,hash=KEY or NAME=KIND,strings=PREFIX*",
        ),
        (["--state", "counts"], "KIND is one of opaque, transactional, non-transactional; not 'counts'"),
        (["--state", "a=empty", "--state", "a=empty"], "--state names 'a' twice"),
        (["--settle", "-1"], "a number of seconds from 0 on, not -1"),
    ],
)
def test_a_wrong_command_line_is_told_of_at_once(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*IMPORT, "--storm-zookeeper", "127.0.0.1:1", *words]) == 2
    assert why in capsys.readouterr().err


def test_storms_servers_must_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRIDENT_STORM_REDIS", raising=False)
    assert main([*IMPORT]) == 2
    assert "name the ZooKeeper of Storm: --storm-zookeeper HOSTS, or --zookeeper if both are the same" in _err(capsys)
    assert main(["import", "program.py"]) == 2
    assert "the following arguments are required: --from-storm" in _err(capsys)


def _err(capsys: pytest.CaptureFixture[str]) -> str:
    return re.sub(r"\s+", " ", capsys.readouterr().err)
