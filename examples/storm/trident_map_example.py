"""Storm's TridentMapExample: ``map``, ``flat_map``, ``filter`` and ``peek``, by functions instead of anonymous classes.

::

    python examples/storm/trident_map_example.py

What changed:

- ``map`` and ``flat_map`` have the types of their fields. The first ``flatMap`` of the original keeps the name "word".
- The spout emits its five sentences once, not in a cycle, so the answer is always the same.
- The record is in this process, as in a ``LocalCluster``. Leave ``coordination=`` out, and it is in ZooKeeper; Spark's
  workers then run ``peek``, so its lines are in their output.
"""

from __future__ import annotations

from trident_py import Row, TridentConfig, TridentTopology
from trident_py.operations import Count, FilterNull, MapGet, Sum
from trident_py.spouts import FixedBatchSpout
from trident_py.states import MemoryMapState
from trident_py.testing import LocalCoordination


def split(row: Row) -> list[tuple[str]]:
    """Return each word of a sentence."""
    return [(word,) for word in row[0].split(" ")]


spout = FixedBatchSpout(
    "word string",
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
    .flat_map(split, "word string")
    .map(lambda row: (row.word.upper(),), "uppercased string")
    .filter(lambda row: row.uppercased == "THE")
    .peek(lambda row: print(row.uppercased))
    .group_by("uppercased")
    .persistent_aggregate(MemoryMapState.factory(), Count(), "count")
)
(
    topology.new_drpc_stream("words")
    .flat_map(split, "word string")
    .group_by("word")
    .state_query(word_counts, "word", MapGet(), "count bigint")
    .filter(FilterNull())
    .aggregate(Sum("count"), "sum")
)

if __name__ == "__main__":
    with topology.start(TridentConfig(max_spout_pending=20), coordination=LocalCoordination()) as query:
        query.process_all_available()
        print("DRPC RESULT:", query.execute("words", "CAT THE DOG JUMPED"))
