"""Runs `StormPrograms.java` with Storm 2.8.3, and dumps what it has stored: ``python -m tests.storm_data.record``.

It needs Java, Maven (for Storm's jars), Redis, and Kafka's jars. It writes ``dumps.json``, see `README.md`.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]
from kazoo.client import KazooClient
from redis import Redis

from coordinators.backends.zookeeper.embedded import find_jars
from coordinators.backends.zookeeper.java import find_java
from tests.servers.kafka import KafkaBroker
from tests.servers.ports import free_port
from tests.servers.redis_server import RedisServer

HERE = Path(__file__).parent
DUMPS = HERE / "dumps.json"
LINES = 20


def main() -> None:
    """Record all programs."""
    with tempfile.TemporaryDirectory() as place:
        directory, ports = Path(place), [free_port(), free_port()]
        redis = RedisServer(directory / "redis", {"port": str(ports[1])})
        kafka = KafkaBroker(directory / "kafka")
        for server in (redis, kafka):
            server.directory.mkdir()
            server.start()
        fill(kafka)
        with zookeeper(directory, ports[0]):
            dumps = dict(recorded(directory, [*ports, kafka.port]))
        for server in (redis, kafka):
            server.kill()
    DUMPS.write_text(json.dumps(dumps, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


@contextmanager
def zookeeper(directory: Path, port: int) -> Iterator[None]:
    """Run a server that lets everybody in, as Storm's default."""
    main_class = "org.apache.zookeeper.server.ZooKeeperServerMain"
    jars = ":".join(map(str, find_jars()))
    command = [find_java(), "-Xmx128m", "-cp", jars, main_class, str(port), str(directory / "zookeeper")]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        server.kill()
        server.wait()


def fill(kafka: KafkaBroker) -> None:
    """Make the topic, with the lines of both partitions."""
    kafka.admin.create_topics([NewTopic("storm-lines", 2, 1)])["storm-lines"].result()
    producer = Producer({"bootstrap.servers": kafka.servers})
    for number in range(LINES):
        for partition in range(2):
            producer.produce("storm-lines", f"w{number % 3} p{partition} all", partition=partition)
    producer.flush()


def recorded(directory: Path, ports: Sequence[int]) -> Iterator[tuple[str, Any]]:
    """Yield the dumps by topology and moment."""
    build = ["mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), f"-DbuildTo={directory}/storm", "compile"]
    subprocess.run(build, check=True)
    classpath = f"{directory}/storm/classes:{(directory / 'storm' / 'classpath').read_text(encoding='utf-8')}"
    command = [find_java(), "-Xmx1g", "-cp", classpath, "StormPrograms", *map(str, ports)]
    client = KazooClient(f"127.0.0.1:{ports[0]}")
    client.start(timeout=60)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=directory) as storm:
        assert storm.stdout
        assert storm.stdin
        for line in storm.stdout:
            if line.startswith("DUMP "):
                yield line.split(" ", 1)[1].strip(), {"znodes": znodes(client), "redis": values(ports[1])}
                storm.stdin.write("\n")
                storm.stdin.flush()
    client.stop()


def znodes(client: KazooClient) -> dict[str, str]:
    """Return the nodes of Storm by path; the data of topologies is after `base64:`.

    The data of assignments and heartbeats are left out: nothing reads them, and they name places of the machine.
    """
    found: dict[str, str] = {}
    waiting = [path for path in ("/storm/storms", "/storm/assignments", "/storm/workerbeats", "/transactional")]
    while waiting:
        path = waiting.pop()
        if client.exists(path):
            data, _ = client.get(path)
            is_base = path.startswith("/storm/storms/")
            text = f"base64:{b64encode(data).decode()}" if is_base else data.decode(errors="replace")
            found[path] = "" if path.startswith(("/storm/assignments", "/storm/workerbeats")) else text
            waiting += [f"{path}/{child}" for child in client.get_children(path)]
    return found


def values(port: int) -> dict[str, Any]:
    """Return strings and hashes by database."""
    found: dict[str, Any] = {}
    for database in range(3):
        client = Redis(port=port, db=database, decode_responses=True)
        for name in client.scan_iter():
            value = client.hgetall(name) if client.type(name) == "hash" else client.get(name)
            found.setdefault(str(database), {})[name] = value
    return found


if __name__ == "__main__":
    main()
