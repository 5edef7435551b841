"""Storm's WordCountTridentRedisMap: sums the counts of words in a hash of Redis.

::

    pip install 'trident-py[redis]'
    python examples/storm/word_count_redis_map.py redis://localhost:6379/0
    redis-cli HGETALL test

What changed:

- A field's name is the key in JSON, and its value the sum alone: ``["storm"]`` and ``2``. Storm's ``RedisMapState`` has
  ``storm``, and the txid beside the sum; here one txid for the hash is in a key next to it.
- The values of a batch and its txid change together, so all of a batch is there or none.
- The words come twice, not in a cycle without end. Each batch is printed, with the sums that it finds: those of earlier
  transactions, as in Storm.
- The record is in this process, as in a ``LocalCluster``. Leave ``coordination=`` out, and it is in ZooKeeper.
"""

from __future__ import annotations

import sys

from trident_py import TridentConfig, TridentTopology
from trident_py.operations import MapGet, Sum
from trident_py.spouts import FixedBatchSpout
from trident_py.states import RedisState
from trident_py.testing import LocalCoordination

WORDS = [("storm", 1), ("trident", 1), ("needs", 1), ("javadoc", 1)]


def summing(url: str) -> TridentTopology:
    """Sum the counts of each word."""
    topology = TridentTopology("test-word-counter-for-redis")
    stream = topology.new_stream("spout1", FixedBatchSpout("word string, count int", 4, *WORDS * 2))
    state = stream.group_by("word").persistent_aggregate(RedisState(url, prefix="test"), Sum("count"), "sum")
    stream.state_query(state, "word", MapGet(), "sum bigint").peek(lambda row: print(f"[{row.word}, {row.sum}]"))
    return topology


if __name__ == "__main__":
    config = TridentConfig(max_spout_pending=1)
    with summing(sys.argv[1]).start(config, coordination=LocalCoordination()) as query:
        query.process_all_available()
