"""Storm's TridentFileTopology (storm-hdfs): writes sentences and keys into text files, separated by commas.

::

    python examples/storm/trident_file.py
    cat trident/*/*.csv

What changed:

- The files of a transaction are one directory, which appears as a whole. Storm appends to a file until it has 5 MB, so
  readers see transactions in part; here `trident compact` makes large files of small ones.
- The directory is on a file system that all machines mount; ``hdfs://`` is refused.
- A value with a comma is quoted, so that readers find the fields again.
- The spout emits its five sentences once, not in a cycle.
- The record is in this process, as in a ``LocalCluster``: `run_batches`. With ``topology.start()`` it is in ZooKeeper.
"""

from __future__ import annotations

from pathlib import Path

from trident_py import TridentTopology
from trident_py.sinks import FileSink
from trident_py.spouts import FixedBatchSpout
from trident_py.testing import run_batches

spout = FixedBatchSpout(
    "sentence string, key bigint",
    1000,
    ("the cow jumped over the moon", 1),
    ("the man went to the store and bought some candy", 2),
    ("four score and seven years ago", 3),
    ("how many apples can you eat", 4),
    ("to be or not to be the person", 5),
)
topology = TridentTopology("word-counter")
topology.new_stream("spout1", spout).write_to(FileSink("trident", format="csv"))

if __name__ == "__main__":
    run_batches(topology)
    for file in sorted(Path("trident").glob("*/*.csv")):
        print(file.read_text(encoding="utf-8"), end="")
