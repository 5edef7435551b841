"""Storm's WordCountTridentRedis: looks up what other programs keep in a hash of Redis.

::

    pip install 'trident-py[redis]'
    redis-cli HSET test test_storm 5 test_needs 7
    python examples/storm/word_count_redis_lookup.py redis://localhost:6379/0

What changed:

- The original also writes these fields, ``test_storm`` and so on, without a txid. No state here writes under names of
  your choice: `RedisState` has a hash of its own, as ``word_count_redis_map.py`` shows.
- A word without a field is dropped, as in an inner join. Storm's querier emits it with null.
- The words come once, not in a cycle.
- The record is in this process, as in a ``LocalCluster``: `run_batches`. With ``topology.start()`` it is in ZooKeeper.
"""

from __future__ import annotations

import sys

from trident_py import TridentTopology
from trident_py.spouts import FixedBatchSpout
from trident_py.states import RedisQuery
from trident_py.testing import run_batches

WORDS = [("storm", 1), ("trident", 1), ("needs", 1), ("javadoc", 1)]


def asking(url: str) -> TridentTopology:
    """Print the stored value of each word."""
    topology, stored = TridentTopology("test-word-counter-for-redis"), RedisQuery(url, key="test", field="test_{word}")
    (
        topology.new_stream("spout1", FixedBatchSpout("word string, count int", 4, *WORDS))
        .state_query(topology.new_static_state(stored), "word", stored, "column_value string")
        .peek(lambda row: print(f"[{row.word}, {row.column_value}]"))
    )
    return topology


if __name__ == "__main__":
    run_batches(asking(sys.argv[1]))
