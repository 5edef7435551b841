"""No password comes to light: not in a log at DEBUG, as text or JSON, nor a znode, an error, a repr, or the history."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from attrs import evolve
from kazoo.client import KazooClient
from psycopg.conninfo import make_conninfo
from pyspark.sql import SparkSession

from tests.servers.postgresql import PASSWORD
from tests.unit.trident_py.web.serving import Client
from trident_py import Count, FixedBatchSpout, PostgresState, TridentConfig, TridentError, TridentTopology
from trident_py.cli.logs import JsonFormatter
from trident_py.web.token import token_at

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper, pytest.mark.postgres]

CANARY = "canary-5up3r-53cr3t"
WORDS = [("one",), ("two",), ("two",)]


def word_count(dsn: str) -> TridentTopology:
    topology = TridentTopology("words")
    words = topology.new_stream("words", FixedBatchSpout("word string", 1, *WORDS))
    words.group_by("word").persistent_aggregate(PostgresState(dsn, table="counts"), Count(), "count")
    return topology


def told_by_a_run(topology: TridentTopology, config: TridentConfig, spark: SparkSession) -> Iterator[object]:
    """Everything that a user may print."""
    yield from (topology, topology.explain(), config, config.zookeeper_auth)
    try:
        with topology.start(config, spark=spark) as query:
            query.process_all_available(180)
            yield from (query, query.status, query.recent_progress, query.transactions(), query.exception())
            yield from told_by_its_page(Client(query.page))
    except TridentError as error:
        yield "".join(traceback.format_exception(error))


def told_by_its_page(client: Client) -> Iterator[object]:
    """Everything that a browser or a program is shown."""
    for path in ("/status", "/plan", "/tx", "/tx/1", "/metrics"):
        answer = client.get(path)
        assert answer.status in (200, 404, 503)  # where a history can't be read, it says why
        yield answer.body.decode()
    with client.watching() as messages:
        yield next(messages)


def znodes(hosts: str, auth: str) -> Iterator[tuple[str, Any, Any]]:
    """Path, data and access list of every node that we can read, as its user."""
    client = KazooClient(hosts, auth_data=[("digest", auth)])
    client.start()
    waiting = ["/"]
    while waiting:
        path = waiting.pop()
        data, _ = client.get(path)
        acls, _ = client.get_acls(path)
        waiting += [f"{path.rstrip('/')}/{name}" for name in client.get_children(path)]
        yield path, data, [(str(acl), acl.id.id) for acl in acls]
    client.stop()
    client.close()


def history(dsn: str) -> Iterator[tuple[Any, ...]]:
    """Every row of the history."""
    with psycopg.connect(dsn) as connection:
        for table in ("trident_leaderships", "trident_attempts"):
            yield from connection.execute(f"SELECT * FROM {table}")  # noqa: S608 - our names


class JsonLog(logging.Handler):
    """Keeps the lines of a log as `trident run --log-format json` writes them."""

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self.formatter, self.lines = formatter, list[str]()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


def test_passwords_are_in_no_log_znode_error_or_repr(
    spark: SparkSession,
    zookeeper: str,
    postgres: str,
    caplog: pytest.LogCaptureFixture,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    caplog.set_level(logging.DEBUG)
    as_json = JsonLog(JsonFormatter())
    logging.getLogger().addHandler(as_json)
    request.addfinalizer(lambda: logging.getLogger().removeHandler(as_json))
    auth = f"wordcount:{CANARY}"
    config = TridentConfig(
        zookeeper=f"{zookeeper}/guarded",
        zookeeper_auth=auth,
        session_timeout=5,
        history=postgres,
        serve="127.0.0.1:0",
        state_dir=tmp_path,
    )
    told = list(told_by_a_run(word_count(postgres), config, spark))
    assert any("'txid': 3" in str(each) for each in told)
    nowhere = make_conninfo(postgres, port=1, connect_timeout=2)
    told += told_by_a_run(word_count(nowhere), config, spark)
    stranger = make_conninfo(postgres, password=CANARY)
    told += told_by_a_run(word_count(stranger), config, spark)
    assert sum("StateError" in str(each) for each in told) == 2
    unwritten = evolve(config, history=make_conninfo(postgres, password=CANARY))
    told += told_by_a_run(word_count(postgres), unwritten, spark)
    assert "the history in" in caplog.text
    kept = [*znodes(f"{zookeeper}/guarded", auth), *history(postgres)]
    assert any(str(each[0]).endswith("/record") for each in kept)
    told += as_json.lines
    assert any(json.loads(line).get("topology") == "words" for line in as_json.lines)
    for secret in (CANARY, PASSWORD, token_at(tmp_path).reveal()):
        assert secret not in caplog.text
        assert not [each for each in [*told, *kept] if secret in str(each) or secret in repr(each)]
