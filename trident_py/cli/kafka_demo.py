"""``trident demo --kafka``: moves orders from Kafka into a table and another topic, under SIGKILL, exactly once."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attrs import frozen

from coordinators.status.listener import CommittedEvent, TridentListener
from trident_py.cli.kafka_broker import running_broker
from trident_py.cli.usage import UsageError
from trident_py.errors import ConfigError, TridentError
from trident_py.interfaces.config import TridentConfig
from trident_py.operations.builtin import Sum
from trident_py.sinks.kafka.sink import KafkaSink
from trident_py.spouts.kafka.kafka import KafkaSpout
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.topology import TridentTopology

NAME = "kafka-demo"
ORDERS, LARGE_ORDERS = "orders", "large-orders"
PARTITIONS = 3
COUNT = 24_000
BATCH = 1_000
SHOPS = 20
LARGE_CENTS = 8_000
KILLED_AFTER = (4, 10, 16)
"""The transactions after which the process is killed, while the next ones are in flight."""


@frozen
class Order:
    """A purchase."""

    id: int
    shop: str
    cents: int

    @property
    def is_large(self) -> bool:
        """Whether it goes to the other topic too."""
        return self.cents >= LARGE_CENTS


def run(arguments: Namespace) -> int:
    """Send orders, run the topology and kill it, and compare the output with the input; return 1 if they differ."""
    for option in ("zookeeper", "source", "state_dir", "root", "max_spout_pending"):
        if getattr(arguments, option) is not None:
            raise UsageError(
                f"demo --kafka runs everything in its own directory; it doesn't accept --{option.replace('_', '-')}"
            )
    _say("starting a Kafka broker; the first time its jars are fetched, 43 MB")
    with TemporaryDirectory(prefix="trident-kafka-demo-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        (directory / "broker").mkdir()
        with running_broker(directory / "broker") as servers:
            orders = _orders()
            _send(servers, orders)
            _say(f"sent {len(orders):,} orders of {SHOPS} shops to topic {ORDERS!r} of {servers}")
            _run_and_kill(servers, directory)
            return _told(servers, directory, orders, as_json=arguments.json)


def topology(servers: str, directory: Path) -> TridentTopology:
    """Return the topology: the turnover of each shop into a table, large orders into a topic."""
    demo = TridentTopology(NAME)
    schema = "id bigint, shop string, cents bigint"
    spout = KafkaSpout(servers, ORDERS, value="json", schema=schema, max_records_per_batch=BATCH)
    orders = demo.new_stream(ORDERS, spout).map(lambda row: (row.value.id, row.value.shop, row.value.cents), schema)
    turnover = SQLiteState(str(_database(directory)), table="turnover")
    orders.group_by("shop").persistent_aggregate(turnover, Sum("cents"), "cents")
    (
        orders.filter(lambda row: row.cents >= LARGE_CENTS)
        .map(lambda row: (row.shop, json.dumps({"id": row.id, "cents": row.cents})), "key string, value string")
        .write_to(KafkaSink(servers, LARGE_ORDERS))
    )
    return demo


class Committed(TridentListener):
    """Prints the txid of each committed transaction, for the parent process."""

    def on_committed(self, event: CommittedEvent) -> None:
        print(event.attempt.txid, flush=True)


def work(servers: str, directory: Path) -> None:
    """Run the topology until all orders are processed; the process that is killed runs this."""
    config = TridentConfig(state_dir=directory)
    with topology(servers, directory).start(config, listeners=[Committed()]) as query:
        query.process_all_available()


def _orders() -> list[Order]:
    chance = random.Random(7)  # noqa: S311 - the same orders each time
    return [Order(number, f"shop {chance.randrange(SHOPS)}", chance.randrange(100, 10_000)) for number in range(COUNT)]


def _send(servers: str, orders: list[Order]) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    admin = AdminClient({"bootstrap.servers": servers})
    for made in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (ORDERS, LARGE_ORDERS)]).values():
        made.result()
    producer = Producer({"bootstrap.servers": servers})
    for order in orders:
        value = json.dumps({"id": order.id, "shop": order.shop, "cents": order.cents})
        producer.produce(ORDERS, value=value, key=order.shop)
        producer.poll(0)
    producer.flush()


def _run_and_kill(servers: str, directory: Path) -> None:
    """Run the topology in a separate process; SIGKILL it after some transactions, and run it again."""
    command = [sys.executable, "-m", "trident_py.cli.kafka_demo", servers, str(directory)]
    for kill_at in (*KILLED_AFTER, None):
        with (
            (directory / "topology.log").open("ab") as log,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,  # noqa: S603 - ours
        ):
            for line in process.stdout or ():
                if kill_at is not None and int(line) >= kill_at:
                    process.kill()
                    _say(f"killed it, by SIGKILL, behind transaction {line.strip()}; starting it again")
                    break
        if kill_at is None and process.returncode:
            raise ConfigError(f"the topology has failed: {(directory / 'topology.log').read_text()[-1000:]}")


@frozen
class Outcome:
    """The output, and whether it matches the input."""

    turnover: dict[str, int]
    committed: Counter[int]
    uncommitted: Counter[int]
    is_right: bool


def _outcome(servers: str, directory: Path, orders: list[Order]) -> Outcome:
    with closing(sqlite3.connect(_database(directory))) as connection:
        turnover = dict(connection.execute("SELECT shop, cents FROM turnover ORDER BY cents DESC"))
    due: Counter[str] = Counter()
    for order in orders:
        due[order.shop] += order.cents
    committed, uncommitted = (Counter(_ids(servers, level)) for level in ("read_committed", "read_uncommitted"))
    is_right = turnover == due and committed == Counter(order.id for order in orders if order.is_large)
    return Outcome(turnover, committed, uncommitted, is_right)


def _ids(servers: str, isolation: str) -> Iterator[int]:
    """Yield the ids of the large orders that a consumer reads."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": isolation,
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(LARGE_ORDERS, number, 0) for number in range(PARTITIONS)])
    ended = 0
    while ended < PARTITIONS:
        for message in consumer.consume(1_000, 0.2):
            if message.error() is None:
                yield json.loads(message.value() or b"")["id"]
            else:
                ended += 1
    consumer.close()


def _told(servers: str, directory: Path, orders: list[Order], *, as_json: bool) -> int:
    found = _outcome(servers, directory, orders)
    facts: dict[str, Any] = {
        "orders": len(orders),
        "kills": len(KILLED_AFTER),
        "turnover": found.turnover,
        "large_orders": found.committed.total(),
        "large_orders_seen_uncommitted": found.uncommitted.total(),
        "each_exactly_once": found.is_right,
    }
    if as_json:
        print(json.dumps(facts, indent=2))
        return 0 if found.is_right else 1
    for shop, cents in list(found.turnover.items())[:5]:
        print(f"{cents / 100:>14,.2f}  {shop}")
    extra = found.uncommitted.total() - found.committed.total()
    print(
        f"\n{len(orders):,} orders, {found.committed.total():,} large ones, {len(KILLED_AFTER)} kills.\n"
        f"table turnover: {'what was sent, to the cent' if found.is_right else 'NOT what was sent'}\n"
        f"topic {LARGE_ORDERS}: consumers of committed records see {found.committed.total():,} records, "
        f"{'each once' if found.is_right else 'NOT each once'}"
        + (f"; those of uncommitted ones {extra:,} more, which the kills have aborted" if extra else "")
    )
    return 0 if found.is_right else 1


def _database(directory: Path) -> Path:
    return directory / "turnover.db"


def _say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    try:
        work(sys.argv[1], Path(sys.argv[2]))
    except TridentError as error:
        sys.exit(f"trident: {error}")
