"""Kills of everything, under a topology that reads Kafka and writes to PostgreSQL, Delta and Kafka on a Spark cluster.

    python -m tests.faults.everything --minutes 10 [--seed N] [--keep]

Kafka's `VerifiableProducer` sends numbered messages. A topology on a standalone master with two workers copies them to
a table, where they are counted too, to a Delta table and to another topic. Leader and standby, executors, workers, the
master, PostgreSQL and members of ZooKeeper are killed with SIGKILL, and started again; the broker is restarted. In the
end each message is in each of the three once, in Kafka in the order of its partition.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic

import psutil
import psycopg
from attrs import define, field
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]
from deltalake import DeltaTable

from tests.faults import kafka
from tests.faults.kafka import DRAIN_SECONDS, PARTITIONS, SOURCE, TARGET, Messages
from tests.faults.killing import Killing
from tests.faults.program import url_of
from tests.faults.stores import unlike
from tests.faults.world import World, options, say
from tests.servers.kafka import KafkaBroker
from tests.servers.running import started
from tests.servers.spark import SparkCluster
from tests.servers.zookeeper import SIZE
from trident_py import Count, DeltaSink, KafkaSink, KafkaSpout, PostgresState, SQLSink, TridentTopology

BATCH_RECORDS = 500


def declared(name: str, servers: str, dsn: str, directory: str) -> TridentTopology:
    """The topology: messages go to a table, where they are counted too, to a Delta table and to a topic."""
    topology = TridentTopology(name)
    spout = KafkaSpout(servers, SOURCE, value="string", max_records_per_batch=BATCH_RECORDS)
    rows = topology.new_stream("messages", spout).map(
        lambda row: (row.value, row.partition), "value string, partition int"
    )
    rows.persistent_aggregate(PostgresState(dsn, table="totals"), Count(), "n")
    rows.name("table").write_to(SQLSink(url_of(dsn), "messages"))
    rows.name("delta").write_to(DeltaSink(f"{directory}/delta"))
    rows.name("topic").write_to(KafkaSink(servers, TARGET))
    return topology


@define(eq=False, kw_only=True)
class KillingEverything(Killing):
    """Kills what runs the topology, and what that needs: each kind as often as the others, in an order by chance."""

    cluster: SparkCluster
    broker: KafkaBroker
    _kinds: list[str] = field(factory=list)

    def strike(self) -> None:
        """Kill something, and start it again."""
        blows: dict[str, Callable[[], None]] = {
            "process": super().strike,
            "executor": self._executor,
            "worker": self._worker,
            "master": self._master,
            "broker": self._broker,
            "PostgreSQL": self._postgres,
            "ZooKeeper": self._zookeeper,
        }
        if not self._kinds:
            self._kinds = self.chance.sample([*blows], len(blows))
        kind = self._kinds.pop()
        before = self.kills.total()
        blows[kind]()
        if self.kills.total() == before:  # the topology's processes are counted where they are killed
            self.kills[kind] += 1
        say(f"killed: {kind}")

    def _executor(self) -> None:
        if executors := self.cluster.executors:
            with suppress(psutil.NoSuchProcess):  # its application has just ended
                self.chance.choice(executors).kill()

    def _worker(self) -> None:
        number = self.chance.randrange(self.cluster.hosts)
        self.cluster.kill_worker(number)
        self.cluster.start_worker(number)

    def _master(self) -> None:
        self.cluster.kill_master()
        self.cluster.start_master()

    def _broker(self) -> None:
        self.broker.stop()  # in order: a sole broker that is killed may forget a commit, see docs/how-to/kafka.md
        self.broker.start()

    def _postgres(self) -> None:
        self.world.postgres.kill()
        self.world.postgres.start()

    def _zookeeper(self) -> None:
        for index in self.chance.sample(range(SIZE), self.chance.choice([1, SIZE])):
            self.world.ensemble.kill(index)
        self.world.ensemble.start()


def main(argv: list[str] | None = None) -> int:
    """Kill for so many minutes, then compare."""
    parser = options("Kills of everything, and whether three stores agree with Kafka.")
    parser.add_argument("--minutes", type=float, default=10)
    arguments = parser.parse_args(argv)
    say(f"seed {arguments.seed}")
    with World.running(keep=arguments.keep) as world:
        (directory := world.directory / "kafka").mkdir()
        broker, cluster = KafkaBroker(directory), SparkCluster(world.directory / "spark", cores=2, recovers=True)
        try:
            cluster.start()
            with started(broker):
                broken = harmed(world, cluster, broker, arguments.minutes, random.Random(arguments.seed))
        finally:
            cluster.stop()
    say("\n".join(broken) or "each message is once in the table, in Delta and in Kafka, and was counted once")
    return 1 if broken else 0


def harmed(
    world: World, cluster: SparkCluster, broker: KafkaBroker, minutes: float, chance: random.Random
) -> list[str]:
    """Send, kill, and say where what came out is not what was sent."""
    dsn, told, began = world.new_database("everything"), world.directory / "sent.jsonl", monotonic()
    for made in broker.admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (SOURCE, TARGET)]).values():
        made.result()
    what = {"name": "everything", "servers": broker.servers, "dsn": dsn, "directory": str(world.directory)}
    killing = KillingEverything(
        world, "tests.faults.everything", what, chance, master=cluster.url, cluster=cluster, broker=broker
    )
    with kafka.sending(broker.servers, told):
        killing.rage(seconds=minutes * 60)
    killing.drain(DRAIN_SECONDS)
    killing.report(monotonic() - began)
    came = kafka.records(broker, SOURCE)
    source = kafka.seen(broker.servers, SOURCE, came, broker.directory)
    target = kafka.seen(broker.servers, TARGET, came, broker.directory)
    say(f"{came} messages")
    return [
        *kafka.differences(kafka.sent(told), source, target),
        *differences(source, dsn, world.directory),
        *killing.troubles(),
    ]


def differences(source: Messages, dsn: str, directory: Path) -> Iterator[str]:
    """Where tables don't have what was sent."""
    expected = Counter((value, partition) for partition, values in source.items() for value in values)
    with psycopg.connect(dsn) as connection:
        table = connection.execute("SELECT value, partition FROM messages").fetchall()
        totals = connection.execute("SELECT n FROM totals").fetchall()
    delta = DeltaTable(str(directory / "delta")).to_pyarrow_table().to_pylist()
    yield from unlike("the table", expected, table)
    yield from unlike("Delta", expected, ((row["value"], row["partition"]) for row in delta))
    if totals != [(expected.total(),)]:
        yield f"the total is {totals}, there are {expected.total()} messages"


if __name__ == "__main__":
    sys.exit(main())
