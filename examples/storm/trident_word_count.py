"""Storm's TridentWordCount: counts words, and answers how often the words of a request were counted.

::

    python examples/storm/trident_word_count.py

What changed:

- The spout emits its five sentences once, not in a cycle, so the answer is always the same.
- The record is in this process, as in a ``LocalCluster``. Leave ``coordination=`` out, and it is in ZooKeeper.
- The state is one part without a hint, and batches wait for nothing, so there is no ``parallelismHint`` and no sleep.
- A request is asked in this process. `TridentConfig(serve=…)` answers it over HTTP, as ``DRPCClient`` does.
"""

from __future__ import annotations

from typing import Any

from trident_py import TridentCollector, TridentConfig, TridentTopology
from trident_py.operations import Count, FilterNull, Function, MapGet
from trident_py.spouts import FixedBatchSpout
from trident_py.states import MemoryMapState
from trident_py.testing import LocalCoordination


class Split(Function):
    """Emits each word of a sentence."""

    def execute(self, row: Any, collector: TridentCollector) -> None:
        for word in row[0].split(" "):
            collector.emit((word,))


spout = FixedBatchSpout(
    "sentence string",
    3,
    ("the cow jumped over the moon",),
    ("the man went to the store and bought some candy",),
    ("four score and seven years ago",),
    ("how many apples can you eat",),
    ("to be or not to be the person",),
)
topology = TridentTopology("word-counter")
word_counts = (
    topology.new_stream("spout1", spout)
    .each("sentence", Split(), "word string")
    .group_by("word")
    .persistent_aggregate(MemoryMapState.factory(), Count(), "count")
)
(
    topology.new_drpc_stream("words")
    .each("args", Split(), "word string")
    .group_by("word")
    .state_query(word_counts, "word", MapGet(), "count bigint")
    .each("count", FilterNull("count"))
    .project("word", "count")
)

if __name__ == "__main__":
    with topology.start(TridentConfig(max_spout_pending=20), coordination=LocalCoordination()) as query:
        query.process_all_available()
        print("DRPC RESULT:", query.execute("words", "cat the dog jumped"))
