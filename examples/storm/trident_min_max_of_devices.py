"""Storm's TridentMinMaxOfDevicesTopology: in each batch, the device with the least id and the one with the most counts.

::

    python examples/storm/trident_min_max_of_devices.py

What changed:

- The devices are two fixed batches, where the original draws random numbers.
- ``Debug`` writes to the output of Spark's workers, so the results are printed by a function on the driver, in order.
- ``min_by`` and ``max_by`` are of the batch, not of each partition of it.
- The record is in this process, as in a ``LocalCluster``: `run_batches`. With ``topology.start()`` it is in ZooKeeper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trident_py import SinkTransaction, TridentTopology
from trident_py.sinks import ForeachBatchSink
from trident_py.spouts import FixedBatchSpout
from trident_py.testing import run_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DEVICES = [
    *((512, 40), (17, 731), (204, 731), (17, 5), (999, 0), (88, 402), (640, 77), (305, 12), (71, 730), (450, 9)),
    *((3, 10), (3, 20), (700, 20), (41, 1), (5, 2), (60, 3), (800, 4), (9, 5), (10, 6), (11, 7)),
]


def show(name: str) -> ForeachBatchSink:
    """Print the rows of each batch."""

    def print_rows(frame: DataFrame, tx: SinkTransaction) -> None:
        for row in frame.collect():
            print(f"{name}: {list(row)}")

    return ForeachBatchSink(print_rows)


topology = TridentTopology("devices-topology")
devices = topology.new_stream("devicegen-spout", FixedBatchSpout("`device-id` int, count int", 10, *DEVICES))
devices.min_by("device-id").name("min-id").write_to(show("#### device with min id"))
devices.max_by("count").name("max-count").write_to(show("#### device with max count"))

if __name__ == "__main__":
    run_batches(topology)
