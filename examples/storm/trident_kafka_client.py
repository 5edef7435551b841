"""Storm's TridentKafkaClientTopologyNamedTopics and …WildcardTopics: prints the records of two topics.

The topics have to exist::

    pip install 'trident-py[kafka]'
    python examples/storm/trident_kafka_client.py localhost:9092

What changed:

- Storm's ``KafkaBolt`` sends random UUIDs without end, at least once. Here a topology sends five texts to each topic,
  exactly once.
- There is one spout. It is opaque if a topic is compacted, and exact otherwise, so there is no ``isOpaque``.
- ``start="earliest"`` is for the first start only, as ``UNCOMMITTED_EARLIEST``.
- The record is in this process, as in a ``LocalCluster``: `run_batches`. With ``topology.start()`` it is in ZooKeeper,
  the consumer doesn't end, and `Debug` writes to the output of Spark's workers.
"""

from __future__ import annotations

import re
import sys

from trident_py import TridentTopology
from trident_py.operations import Debug
from trident_py.sinks import KafkaSink
from trident_py.spouts import FixedBatchSpout, KafkaSpout
from trident_py.testing import run_batches

TOPICS = ["test-trident", "test-trident-1"]
WILDCARD = re.compile("test-trident(-1)?")


def producer(servers: str, topic: str) -> TridentTopology:
    """Send five texts to a topic."""
    topology = TridentTopology(f"{topic}-producer")
    texts = FixedBatchSpout("value string", 2, *[(f"{topic}: {number}",) for number in range(5)])
    topology.new_stream("texts", texts).write_to(KafkaSink(servers, topic))
    return topology


def consumer(servers: str, topics: list[str] | re.Pattern[str]) -> TridentTopology:
    """Print the values of the records of some topics."""
    topology = TridentTopology("topics-consumer")
    spout = KafkaSpout(servers, topics, value="string", start="earliest")
    topology.new_stream("spout", spout).map(lambda row: (row.value,), "str string").each("str", Debug())
    return topology


if __name__ == "__main__":
    (servers,) = sys.argv[1:]
    for topic in TOPICS:
        run_batches(producer(servers, topic))
    print("named topics")
    run_batches(consumer(servers, TOPICS))
    print("wildcard topics")
    run_batches(consumer(servers, WILDCARD))
