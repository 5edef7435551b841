"""Storm's TridentWindowingInmemoryStoreTopology: after every 100 words, the number of words in the last 1000.

::

    python examples/storm/trident_windowing.py

What changed:

- There is no store in memory: the words of a window are in a SQLite database in the ``state_dir``, or in the state that
  ``store=`` names. So no restart loses one.
- The spout emits its five sentences 34 times, not in a cycle without end: 1224 words.
- The record is in this process, as in a ``LocalCluster``. Leave ``coordination=`` out, and it is in ZooKeeper.
"""

from __future__ import annotations

from typing import Any

from trident_py import TridentCollector, TridentTopology
from trident_py.operations import Aggregator
from trident_py.spouts import FixedBatchSpout
from trident_py.testing import LocalCoordination
from trident_py.windows import SlidingCount

SENTENCES = [
    ("the cow jumped over the moon",),
    ("the man went to the store and bought some candy",),
    ("four score and seven years ago",),
    ("how many apples can you eat",),
    ("to be or not to be the person",),
]


class CountAsAggregator(Aggregator[int]):
    """Emits the number of rows of a window."""

    def init(self, batch_id: Any, collector: TridentCollector) -> int:
        return 0

    def aggregate(self, value: int, row: Any, collector: TridentCollector) -> int:
        return value + 1

    def complete(self, value: int, collector: TridentCollector) -> None:
        collector.emit((value,))


topology = TridentTopology("word-counter")
(
    topology.new_stream("spout1", FixedBatchSpout("sentence string", 3, *SENTENCES * 34))
    .flat_map(lambda row: [(word,) for word in row.sentence.split(" ")], "word string")
    .window(SlidingCount(1000, 100), "word", CountAsAggregator(), "count bigint")
    .peek(lambda row: print(f"Received tuple: [{row.count}]"))
)

if __name__ == "__main__":
    with topology.start(coordination=LocalCoordination()) as query:
        query.process_all_available()
