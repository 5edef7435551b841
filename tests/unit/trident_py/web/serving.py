"""A topology that runs in memory with a page, and a client of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import parse_qs, urlsplit

from attrs import define, field

from coordinators.backends.local import LocalCoordination
from trident_py.interfaces.config import RetryPolicy, TridentConfig
from trident_py.operations.builtin import Count
from trident_py.operations.queries import MapGet
from trident_py.query import TridentQuery
from trident_py.spouts.feeder import FeederBatchSpout
from trident_py.states.memory import MemoryMapState
from trident_py.topology import TridentTopology

WITHIN_SECONDS = 60.0
EVIL = "<script>alert(1)</script>"


@define
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@define
class Client:
    """Asks a page, as the one that is given the token unless told otherwise."""

    url: str
    token: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.token = parse_qs(urlsplit(self.url).query)["token"][0]

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc

    def get(self, path: str, headers: dict[str, str] | None = None) -> Answer:
        return self.ask("GET", path, None, headers)

    def post(self, path: str, body: str | bytes | dict[str, Any], headers: dict[str, str] | None = None) -> Answer:
        return self.ask("POST", path, json.dumps(body) if isinstance(body, dict) else body, headers)

    def ask(self, method: str, path: str, body: str | bytes | None, headers: dict[str, str] | None = None) -> Answer:
        connection = HTTPConnection(self.host, timeout=WITHIN_SECONDS)
        given = {"Authorization": f"Bearer {self.token}"} if headers is None else headers
        try:
            connection.request(method, path, body, given)
            found = connection.getresponse()
            told = {name.lower(): value for name, value in found.getheaders()}
            return Answer(found.status, told, found.read())
        finally:
            connection.close()

    @contextmanager
    def watching(self) -> Iterator[Iterator[dict[str, Any]]]:
        """Give the messages that a page gets."""
        connection = HTTPConnection(self.host, timeout=WITHIN_SECONDS)
        connection.request("GET", "/events", None, {"Authorization": f"Bearer {self.token}"})
        try:
            yield _messages(connection.getresponse())
        finally:
            connection.close()


def _messages(response: HTTPResponse) -> Iterator[dict[str, Any]]:
    for line in response:
        if line.startswith(b"data: "):
            yield json.loads(line.removeprefix(b"data: "))


@define
class Words:
    """Counts words that are fed to it; what has a ``<`` fails."""

    query: TridentQuery
    spout: FeederBatchSpout
    client: Client
    coordination: LocalCoordination

    def feed(self, *words: str) -> None:
        self.spout.feed([(word,) for word in words])


def declared(spout: FeederBatchSpout) -> TridentTopology:
    topology = TridentTopology("words")

    def checked(row: Any) -> tuple[str]:
        if "<" in row.word:
            raise ValueError(f"no word: {row.word}")
        return (row.word,)

    words = topology.new_stream("words", spout).map(checked, "word string")
    counts = words.group_by("word").persistent_aggregate(MemoryMapState.factory(), Count(), "count")
    topology.new_drpc_stream("count").map(lambda row: (row.args,), "word string").state_query(
        counts, "word", MapGet(), "count bigint"
    )
    topology.new_drpc_stream("broken").map(lambda row: (1 // 0,), "n int")
    return topology


@contextmanager
def serving(
    *,
    standby: bool = False,
    coordination: LocalCoordination | None = None,
    attempts: int = 1,
    on_poison: str = "halt",
    on_bad_row: str = "fail",
) -> Iterator[Words]:
    spout, where = FeederBatchSpout("word string"), coordination or LocalCoordination()
    retry = RetryPolicy(attempts=attempts)
    config = TridentConfig(serve="127.0.0.1:0", retry=retry, on_poison=on_poison, on_bad_row=on_bad_row)
    query = declared(spout).start(config, coordination=where, standby=standby)
    try:
        yield Words(query, spout, Client(query.page), where)
    finally:
        query.stop(drain=False)
