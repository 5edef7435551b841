"""Storm's example programs, as examples/storm has them, print what the originals gave for the same input.

The originals of storm-starter ran once in a ``LocalCluster`` of Storm 2.8.3, over the input of the examples: their
cycles end, and their random numbers are fixed. They printed what is written here. The originals that need Kafka, Redis,
HDFS or a database did not run: what they give follows from their input.
"""

from __future__ import annotations

import runpy
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]
from pyspark.sql import SparkSession

from tests.servers.kafka import KafkaBroker
from tests.servers.redis_server import RedisServer

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[3] / "examples" / "storm"


@pytest.fixture(autouse=True)
def _directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def printed(name: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Run a program in this process; return the lines that it prints."""
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out.splitlines()


def test_trident_word_count(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed("trident_word_count", capsys) == ["DRPC RESULT: [['the', 5], ['jumped', 1]]"]


def test_trident_map_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed("trident_map_example", capsys) == [*["THE"] * 5, "DRPC RESULT: [[5]]"]


def test_trident_windowing(capsys: pytest.CaptureFixture[str]) -> None:
    counts = [*range(100, 1000, 100), 1000, 1000, 1000]
    assert printed("trident_windowing", capsys) == [f"Received tuple: [{count}]" for count in counts]


def test_debug_memory_map_state(capsys: pytest.CaptureFixture[str]) -> None:
    """The updates of one call are in no order in Storm."""
    first = (
        "ago 1, and 2, bought 1, candy 1, cow 1, four 1, jumped 1, man 1, moon 1, over 1, score 1, seven 1, some 1, "
        "store 1, the 4, to 1, went 1, years 1"
    )
    second = "apples 1, be 2, can 1, eat 1, how 1, many 1, not 1, or 1, person 1, the 1, to 2, you 1"
    *lines, counts = printed("debug_memory_map_state", capsys)
    assert lines == [*updates(0, first), "Throwing FailedException", *updates(1, first), *updates(2, second)]
    assert counts == (
        "ago 1, and 2, apples 1, be 2, bought 1, can 1, candy 1, cow 1, eat 1, four 1, how 1, jumped 1, man 1, "
        "many 1, moon 1, not 1, or 1, over 1, person 1, score 1, seven 1, some 1, store 1, the 5, to 3, went 1, "
        "years 1, you 1"
    )


def updates(call: int, words: str) -> list[str]:
    """Return the lines of one call of ``multi_update``."""
    found = [each.split() for each in words.split(", ")]
    return [f"updateCount = {call}, keys = [{word}] => updaterArgs = {partial}" for word, partial in found]


@pytest.mark.spark
def test_trident_min_max_of_devices(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed("trident_min_max_of_devices", capsys) == [
        "#### device with min id: [17, 5]",
        "#### device with max count: [204, 731]",
        "#### device with min id: [3, 20]",
        "#### device with max count: [700, 20]",
    ]


@pytest.mark.spark
def test_trident_min_max_of_vehicles(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed("trident_min_max_of_vehicles", capsys) == [
        "#### slowest vehicle: Vehicle--1 0 1.0 by Driver--1",
        "#### fastest vehicle: Vehicle-7 96 3.4 by Driver-7",
        "#### least efficient vehicle: Vehicle--1 0 1.0 by Driver--1",
        "#### most efficient vehicle: Vehicle-2 11 4.9 by Driver-2",
        "#### slowest vehicle: Vehicle-18 3 1.7 by Driver-18",
        "#### fastest vehicle: Vehicle-15 92 1.8 by Driver-15",
        "#### least efficient vehicle: Vehicle-18 3 1.7 by Driver-18",
        "#### most efficient vehicle: Vehicle-11 44 4.6 by Driver-11",
    ]


@pytest.mark.spark
@pytest.mark.kafka
def test_trident_kafka_client(
    spark: SparkSession, kafka_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    topics = ["test-trident", "test-trident-1"]
    for made in kafka_broker.admin.create_topics([NewTopic(topic, 2, 1) for topic in topics]).values():
        made.result()
    monkeypatch.setattr(sys, "argv", ["trident_kafka_client.py", kafka_broker.servers])
    lines = printed("trident_kafka_client", capsys)
    records = [f"DEBUG: Row(str='{topic}: {number}')" for topic in topics for number in range(5)]
    assert (lines[0], sorted(lines[1:11])) == ("named topics", sorted(records))
    assert (lines[11], sorted(lines[12:])) == ("wildcard topics", sorted(records))


@pytest.mark.spark
def test_user_persistence(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed("user_persistence", capsys) == ["(1, 'peter', 'R&D')", "(2, 'bob', 'Finance')"]


@pytest.mark.spark
def test_trident_file(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    assert sorted(printed("trident_file", capsys)) == [
        "four score and seven years ago,3",
        "how many apples can you eat,4",
        "the cow jumped over the moon,1",
        "the man went to the store and bought some candy,2",
        "to be or not to be the person,5",
    ]


@pytest.mark.redis
def test_word_count_redis_map(
    redis: str, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["word_count_redis_map.py", redis])
    words = ["storm", "trident", "needs", "javadoc"]
    assert printed("word_count_redis_map", capsys) == [f"[{word}, {count}]" for count in (None, 1) for word in words]
    with redis_server.client() as client:
        assert client.hgetall("test") == {f'["{word}"]': "2" for word in words}


@pytest.mark.redis
def test_word_count_redis_lookup(
    redis: str, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with redis_server.client() as client:
        client.hset("test", mapping={"test_storm": 5, "test_needs": 7})
    monkeypatch.setattr(sys, "argv", ["word_count_redis_lookup.py", redis])
    assert printed("word_count_redis_lookup", capsys) == ["[storm, 5]", "[needs, 7]"]


@pytest.mark.spark
@pytest.mark.zookeeper
def test_trident_ml_perceptron(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert printed("trident_ml_perceptron", capsys) == [
            "0 nand 0: [[True]]",
            "0 nand 1: [[True]]",
            "1 nand 0: [[True]]",
            "1 nand 1: [[False]]",
        ]
    with closing(sqlite3.connect("model.db")) as database:
        assert database.execute("SELECT _txid FROM perceptron").fetchall() == [(10,)]
