"""What a page and programs are answered, over a topology in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.trident_py.web.serving import EVIL, Words, serving
from trident_py.errors import TridentError


@pytest.fixture
def words() -> Iterator[Words]:
    with serving() as running:
        yield running


def test_a_request_is_answered_as_storm_does_with_epoch_and_transaction(words: Words) -> None:
    words.feed("to", "be")
    words.feed("to")
    by_path, by_body = words.client.get("/drpc/count/to"), words.client.post("/drpc/count", "to")
    assert by_path.json == by_body.json == [["to", 2]]
    told = {name: value for name, value in by_path.headers.items() if name.startswith("trident-")}
    assert told == {"trident-topology": "words", "trident-epoch": "1", "trident-txid": "2"}
    assert words.client.get("/drpc/count").json == [["", None]]
    assert words.client.get("/drpc/count/or%2Fnot%20to").json == [["or/not to", None]]


def test_what_can_not_be_answered_says_why_and_whether_to_ask_again(words: Words) -> None:
    unknown = words.client.get("/drpc/sum/to")
    assert (unknown.status, "there are: 'count', 'broken'" in unknown.json["error"]) == (404, True)
    broken = words.client.get("/drpc/broken")
    assert (broken.status, "ZeroDivisionError" in broken.json["error"]) == (500, True)
    assert "retry-after" not in {**unknown.headers, **broken.headers}
    assert words.client.post("/drpc/count", b"\xff").status == 400
    words.coordination.expire("words")  # another one may lead
    lost = words.client.get("/drpc/count/to")
    assert (lost.status, lost.headers.get("retry-after")) == (503, "1")


def test_a_standby_says_where_the_leader_answers() -> None:
    with serving() as leader, serving(standby=True, coordination=leader.coordination) as standby:
        leader.feed("to")
        with standby.client.watching() as messages:
            status = next(each["status"] for each in messages if each["status"]["leader"])
        assert status["leader"]["address"] == f"http://{leader.client.host}"
        assert (status["state"], status["is_leading"]) == ("standing by", False)
        told = standby.client.get("/drpc/count/a%20b")
        assert (told.status, told.headers["location"]) == (307, f"http://{leader.client.host}/drpc/count/a%20b")


def test_who_watches_is_told_of_each_transaction_as_it_changes_until_the_end(words: Words) -> None:
    with words.client.watching() as messages:
        first = next(messages)
        assert (first["topology"], first["is_live"], first["transactions"]) == ("words", True, [])
        words.feed("to", "be")
        seen: dict[int, str] = {}
        for message in messages:
            seen |= {each["txid"]: each["outcome"] for each in message["transactions"]}
            if seen.get(1) == "committed" and message["status"]["committed"] == 1:
                break
        words.query.stop()
        assert [*messages][-1]["status"]["state"] == "stopped"


def test_transactions_are_listed_and_shown(words: Words) -> None:
    words.feed("to")
    words.feed("be")
    while [(each["txid"], each["outcome"]) for each in words.client.get("/tx?last=1").json] != [(2, "committed")]:
        pass
    assert words.client.get("/tx/2").json["attempts"][0]["definition"]
    assert words.client.get("/tx?failed=true").json == []
    assert words.client.get("/tx/99").status == 404
    for wrong in ("last=0", "last=x", "last=1001", "failed=perhaps"):
        assert words.client.get(f"/tx?{wrong}").status == 400


def test_an_error_comes_with_its_row_and_ends_the_topology(words: Words) -> None:
    with words.client.watching() as messages:
        with pytest.raises(TridentError):
            words.feed(EVIL)
        last = [*messages][-1]
    assert last["status"]["state"] == "failed"
    assert EVIL in last["status"]["error"]
    assert words.query.exception() is not None


def test_the_plan_is_told(words: Words) -> None:
    nodes = words.client.get("/plan").json["nodes"]
    assert [each["kind"] for each in nodes][:3] == ["spout", "operation", "state"]


def test_a_wish_is_carried_out_and_stands_with_its_reason(words: Words) -> None:
    answer = words.client.post("/wishes", {"action": "pause", "reason": "the table is being moved"})
    assert (answer.status, answer.json["carried_out"]) == (200, True)
    assert answer.json["text"].startswith("topology 'words' is paused")
    status = words.client.get("/status").json
    assert (status["state"], status["reason"]) == ("paused", "the table is being moved")
    slower = words.client.post("/wishes", {"action": "rate", "pending": 1})
    assert slower.json["standing"] == {"hold": "paused", "pending": 1}
    words.client.post("/wishes", {"action": "resume"})
    assert words.client.get("/status").json["state"] == "running"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"action": "jump"}',
        b'{"action": "pause", "txids": [1]}',
        b'{"action": "park", "txids": ["1"]}',
        b'{"action": "rate"}',
        b'{"action": "pause", "pending": 1}',
        b'{"action": "rate", "pending": 0}',
        b'{"action": "pause", "furlongs": 1}',
        b'{"action": "pause", "reason": 7}',
        b'{"action": "pause", "reason": "' + b"x" * 501 + b'"}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_wish_changes_nothing(words: Words, body: bytes) -> None:
    assert words.client.post("/wishes", body).status == 400
    assert words.client.get("/status").json["state"] == "running"


def test_the_metrics_are_those_of_the_topology(words: Words) -> None:
    words.feed("to")
    wanted = 'trident_transactions_total{trident_outcome="committed",trident_topology_name="words"} 1.0'
    while wanted not in words.client.get("/metrics", {}).body.decode():
        pass
    assert words.client.get("/metrics", {}).headers["content-type"].startswith("text/plain; version=0.0.4")


def test_no_more_pages_watch_than_can(words: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trident_py.web.app.WATCHERS_MAX", 1)
    with words.client.watching() as messages:
        next(messages)
        assert words.client.get("/events").status == 503
