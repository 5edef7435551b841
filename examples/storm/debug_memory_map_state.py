"""Storm's DebugMemoryMapState: a state in memory that refuses every fifth update. The counts are right all the same.

::

    python examples/storm/debug_memory_map_state.py

What changed:

- Storm has the state without a topology; here it counts the words of storm-starter.
- An updater is a function of the stored value, which has no ``getArg()``. Applied to no value, a combiner's returns its
  argument.
- The record is in this process, as in a ``LocalCluster``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trident_py import FailedException, TridentConfig, TridentTopology
from trident_py.operations import Count
from trident_py.spouts import FixedBatchSpout
from trident_py.states import MemoryMapState, StateFactory, StateKind, ValueUpdater
from trident_py.testing import LocalCoordination


class DebugMemoryMapState(MemoryMapState[int]):
    """Prints each update, and refuses every fifth call."""

    update_count = 0

    def multi_update(self, keys: Sequence[Any], updaters: Sequence[ValueUpdater[int]]) -> list[int]:
        for (word,), updater in sorted(zip(keys, updaters, strict=True), key=lambda update: str(update[0])):
            print(f"updateCount = {self.update_count}, keys = [{word}] => updaterArgs = {updater(None)}")
        self.update_count += 1
        if self.update_count % 5 == 1:
            print("Throwing FailedException")
            raise FailedException("enforced failure of an update: the replay has the same batch")
        return super().multi_update(keys, updaters)


class Factory(StateFactory):
    """Makes a `DebugMemoryMapState`; keeps it, so that the program can show its values."""

    kind = StateKind.FENCED
    volatile = True

    def make_state(self, *_: Any) -> DebugMemoryMapState:
        self.state = DebugMemoryMapState()
        return self.state


spout = FixedBatchSpout(
    "sentence string",
    3,
    ("the cow jumped over the moon",),
    ("the man went to the store and bought some candy",),
    ("four score and seven years ago",),
    ("how many apples can you eat",),
    ("to be or not to be the person",),
)
topology = TridentTopology("debug")
counts = Factory()
(
    topology.new_stream("spout1", spout)
    .flat_map(lambda row: [(word,) for word in row.sentence.split(" ")], "word string")
    .group_by("word")
    .persistent_aggregate(counts, Count(), "count")
)

if __name__ == "__main__":
    with topology.start(TridentConfig(max_spout_pending=1), coordination=LocalCoordination()) as query:
        query.process_all_available()
    print(", ".join(f"{word} {count}" for word, count in sorted(counts.state.get_tuples())))
