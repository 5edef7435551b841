"""`HttpSpout` behind the real server, in a topology in memory."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from attrs import define

from coordinators.backends.local import LocalCoordination
from tests.unit.trident_py.web.serving import Answer, Client
from trident_py.errors import SpoutError, TopologyError
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.ingest import IngestRequest
from trident_py.operations.builtin import Count
from trident_py.operations.queries import MapGet
from trident_py.query import TridentQuery
from trident_py.spouts.http.bodies import ARROW_TYPE
from trident_py.spouts.http.spout import HttpSpout
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.topology import TridentTopology
from trident_py.web.bodies import INGEST_BYTES_MAX

JSON = "application/x-ndjson"


@define
class Clicks:
    """Counts clicks by page."""

    query: TridentQuery
    client: Client
    coordination: LocalCoordination

    def post(self, body: bytes, key: str | None = None, kind: str = JSON, stream: str = "clicks") -> Answer:
        headers = {"Authorization": f"Bearer {self.client.token}", "Content-Type": kind}
        if key is not None:
            headers["Idempotency-Key"] = key
        while True:
            answer = self.client.post(f"/ingest/{stream}", body, headers)
            if b"just starting" not in answer.body:
                return answer

    def count(self, page: str) -> Any:
        self.query.process_all_available()
        return self.query.execute("count", page)[0][1]


@contextmanager
def running(
    directory: Path, coordination: LocalCoordination | None = None, *, standby: bool = False, **options: Any
) -> Iterator[Clicks]:
    topology, where = TridentTopology("clicks"), coordination or LocalCoordination()
    spout = HttpSpout("clicks", "page string not null, n int", **options)
    pages = topology.new_stream("clicks", spout).project("page").group_by("page")
    counts = pages.persistent_aggregate(SQLiteState(directory / "counts.db", table="counts"), Count(), "count")
    topology.new_drpc_stream("count").map(lambda row: (row.args,), "page string").state_query(
        counts, "page", MapGet(), "count bigint"
    )
    config = TridentConfig(serve="127.0.0.1:0", state_dir=directory)
    query = topology.start(config, coordination=where, standby=standby)
    try:
        yield Clicks(query, Client(query.page), where)
    finally:
        query.stop()


@pytest.fixture
def clicks(tmp_path: Path) -> Iterator[Clicks]:
    with running(tmp_path) as made:
        yield made


def test_rows_of_answered_requests_count_once(clicks: Clicks) -> None:
    answer = clicks.post(b'{"page": "a"}\n{"page": "b", "n": 2}\n', key="1")
    assert (answer.status, answer.json) == (200, {"stream": "clicks", "rows": 2})
    again = clicks.post(b'{"page": "a"}\n{"page": "b", "n": 2}\n', key="1")
    assert (again.status, again.body) == (200, answer.body)
    other = clicks.post(b'{"page": "a"}', key="1")
    assert (other.status, "the key '1'" in other.json["error"]) == (409, True)
    with pa.ipc.new_stream(
        sink := pa.BufferOutputStream(), (table := pa.table({"page": ["a"], "n": [1]})).schema
    ) as to:
        to.write_table(table)
    assert clicks.post(sink.getvalue().to_pybytes(), kind=ARROW_TYPE).json["rows"] == 1
    assert [clicks.count(page) for page in "abc"] == [2, 1, None]


def test_what_is_refused_says_why_and_takes_nothing(clicks: Clicks) -> None:
    bad = clicks.post(b'{"page": "a"}\n{"page": 7}\n')
    assert bad.status == 400
    assert "nothing was taken: line 2: field 'page' is declared string NOT NULL, got 7" in bad.json["error"]
    assert clicks.post(b"{}", key="ä" * 3).status == 400
    assert clicks.post(b"page", kind="text/csv").status == 415
    unknown = clicks.post(b"{}", stream="views")
    assert (unknown.status, "there are: 'clicks'" in unknown.json["error"]) == (404, True)
    assert clicks.post(b" " * (INGEST_BYTES_MAX + 1)).status == 413
    assert clicks.client.post("/ingest/clicks", b"{}", {}).status == 401
    assert clicks.client.get("/ingest/clicks").status == 405
    assert clicks.count("a") is None


def test_a_paused_topology_and_one_that_is_behind_ask_to_wait(tmp_path: Path) -> None:
    with running(tmp_path, max_held_bytes=1_000) as clicks:
        clicks.post(b'{"page": "a"}')
        assert clicks.count("a") == 1
        clicks.query.pause()
        paused = clicks.post(b'{"page": "a"}')
        assert (paused.status, paused.headers["retry-after"]) == (429, "1")
        assert "is paused" in paused.json["error"]
        clicks.query.resume()
        while clicks.post(b'{"page": "a"}').status == 429:  # until the driver has turned
            pass
        assert clicks.count("a") == 2


def test_many_senders_are_all_counted(clicks: Clicks) -> None:
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda number: clicks.post(b'{"page": "a"}', key=str(number % 40)), range(60)))
    assert {answer.status for answer in answers} == {200}
    assert clicks.count("a") == 40


def test_the_next_leader_processes_what_was_answered_and_knows_its_keys(tmp_path: Path) -> None:
    with running(tmp_path) as first, running(tmp_path, first.coordination, standby=True) as second:
        first.post(b'{"page": "a"}', key="1")
        assert first.count("a") == 1
        moved = second.post(b'{"page": "a"}', key="1")
        assert (moved.status, moved.headers["location"]) == (307, f"http://{first.client.host}/ingest/clicks")
        first.query.pause()
        first.query.stop(drain=False)
        while second.post(b'{"page": "a"}', key="1").status != 200:
            pass
        second.post(b'{"page": "a"}', key="2")
        assert second.count("a") == 2


def test_a_standby_that_does_not_see_the_spool_is_refused_at_its_start(tmp_path: Path) -> None:
    with running(tmp_path / "one") as first:
        first.post(b'{"page": "a"}')
        with (
            pytest.raises(SpoutError, match=r"topology 'clicks', spout 'clicks': .* on this machine has no spool"),
            running(tmp_path / "two", first.coordination, standby=True),
        ):
            pass
        assert first.count("a") == 1


def test_a_spout_that_is_not_started_asks_to_wait() -> None:
    answer = HttpSpout("clicks", "page string").ingest(IngestRequest(JSON, b'{"page": "a"}', None))
    assert (answer.status, answer.retry_seconds) == (503, 1)


def test_two_spouts_of_one_stream_are_refused() -> None:
    topology = TridentTopology("clicks")
    for name in ("one", "two"):
        topology.new_stream(name, HttpSpout("clicks", "page string"))
    with pytest.raises(TopologyError, match="two spouts receive the stream 'clicks'"):
        topology.start(coordination=LocalCoordination())


@pytest.mark.parametrize(
    ("stream", "options", "refusal"),
    [
        ("a/b", {}, "a stream is named by letters"),
        ("", {}, "a stream is named by letters"),
        ("a", {"max_held_bytes": 0}, "max_held_bytes is at least 1, not 0"),
        ("a", {"max_bytes_per_batch": 0}, "max_bytes_per_batch is at least 1, not 0"),
        ("a", {"directory": "s3://bucket/spool"}, "is on no file system that is mounted here"),
    ],
)
def test_arguments_of_an_http_spout_that_cannot_work_are_refused(
    stream: str, options: dict[str, Any], refusal: str
) -> None:
    with pytest.raises(TopologyError, match=refusal):
        HttpSpout(stream, "page string", **options)
