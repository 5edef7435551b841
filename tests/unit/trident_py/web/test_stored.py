"""The page of a topology that runs elsewhere, or nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from coordinators.backends.local import LocalCoordination
from tests.unit.trident_py.web.serving import Client, declared
from trident_py.errors import HistoryError, TridentError
from trident_py.interfaces.config import TridentConfig
from trident_py.query import TridentQuery
from trident_py.spouts.feeder import FeederBatchSpout
from trident_py.web import stored
from trident_py.web.app import Page
from trident_py.web.left_out import RowsLeftOut
from trident_py.web.server import PageServer
from trident_py.web.stored import StoredTopology
from trident_py.web.token import token_at


@pytest.fixture
def history(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


@contextmanager
def running(coordination: LocalCoordination, history: Path) -> Iterator[tuple[TridentQuery, FeederBatchSpout]]:
    spout = FeederBatchSpout("word string")
    with declared(spout).start(TridentConfig(history=history), coordination=coordination) as query:
        yield query, spout


@contextmanager
def paged(coordination: LocalCoordination | None, history: Path, tmp_path: Path) -> Iterator[Client]:
    config = TridentConfig(serve="127.0.0.1:0")
    page = Page(StoredTopology("words", history, coordination), RowsLeftOut("words", config))
    server = PageServer(page, config, token_at(tmp_path))
    server.open()
    try:
        yield Client(server.url)
    finally:
        server.close()


def test_a_topology_that_runs_elsewhere_is_shown_and_takes_wishes(
    tmp_path: Path, history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "LOOK_AGAIN_SECONDS", 0.2)
    coordination = LocalCoordination()
    with running(coordination, history) as (_, spout):
        spout.feed([("to",)])
        with paged(coordination, history, tmp_path) as client, client.watching() as messages:
            for message in messages:
                if [each["outcome"] for each in message["transactions"]] == ["committed"]:
                    break
            assert (message["is_live"], message["status"]["state"]) == (True, "running")
            assert client.post("/wishes", {"action": "pause", "reason": "why"}).json["carried_out"]
            for message in messages:
                if message["status"]["state"] == "paused":
                    break
            assert message["status"]["reason"] == "why"
            assert client.get("/plan").json["nodes"][0]["name"] == "words"
            assert client.get("/metrics", {}).status == 404
            asked = client.get("/drpc/count/to")
            assert (asked.status, "runs without --serve" in asked.json["error"]) == (503, True)


def test_what_a_topology_has_done_is_shown_when_it_runs_no_more(tmp_path: Path, history: Path) -> None:
    coordination = LocalCoordination()
    with running(coordination, history) as (_, spout):
        spout.feed([("to",)])
        with pytest.raises(TridentError):
            spout.feed([("<",)])
    for known in (coordination, None):
        with paged(known, history, tmp_path) as client:
            with client.watching() as messages:
                message = next(messages)
            assert (message["is_live"], message["status"]["state"]) == (False, "failed")
            assert "no word: <" in client.get("/status").json["error"]
            assert [each["txid"] for each in client.get("/tx?failed=true").json] == [2]
            assert client.get("/tx/1").json["outcome"] == "committed"
            asked = client.get("/drpc/count/to")
            assert (asked.status, "no process leads" in asked.json["error"]) == (503, True)


def test_without_a_history_there_is_nothing_to_show(tmp_path: Path, history: Path) -> None:
    with pytest.raises(HistoryError, match="there is no history"):
        StoredTopology("words", history, None).snapshot()
    with paged(None, history, tmp_path) as client:
        assert client.get("/status").status == 404
