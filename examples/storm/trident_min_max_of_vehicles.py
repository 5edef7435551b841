"""Storm's TridentMinMaxOfVehiclesTopology: in each batch, the slowest, fastest, least and most efficient vehicle.

::

    python examples/storm/trident_min_max_of_vehicles.py

What changed:

- A vehicle and its driver are structs, where the original has Java's objects.
- A function of the field takes the place of a ``Comparator``: the key by which rows are compared.
- Speed and efficiency follow a formula, where the original draws random numbers.
- ``Debug`` writes to the output of Spark's workers, so the results are printed by a function on the driver, in order.
- ``min_by`` and ``max_by`` are of the batch, not of each partition of it.
- The record is in this process, as in a ``LocalCluster``: `run_batches`. With ``topology.start()`` it is in ZooKeeper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trident_py import SinkTransaction, TridentTopology
from trident_py.sinks import ForeachBatchSink
from trident_py.spouts import FixedBatchSpout
from trident_py.testing import run_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCHEMA = "vehicle struct<name string, max_speed int, efficiency double>, driver struct<name string, id int>"


def generate_vehicles(count: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Make vehicles with their drivers, numbered from -1 as in the original."""
    return [
        (
            {"name": f"Vehicle-{n - 1}", "max_speed": n * 37 % 100, "efficiency": 1 + n * 53 % 40 / 10},
            {"name": f"Driver-{n - 1}", "id": n - 1},
        )
        for n in range(count)
    ]


def speed(vehicle: Any) -> int:
    """Compare vehicles by their greatest speed."""
    return int(vehicle["max_speed"])


def efficiency(vehicle: Any) -> float:
    """Compare vehicles by their efficiency."""
    return float(vehicle["efficiency"])


def show(name: str) -> ForeachBatchSink:
    """Print the vehicle and the driver of each row of a batch."""

    def print_rows(frame: DataFrame, tx: SinkTransaction) -> None:
        for vehicle, driver in frame.collect():
            print(f"#### {name} vehicle: {vehicle.name} {vehicle.max_speed} {vehicle.efficiency} by {driver.name}")

    return ForeachBatchSink(print_rows)


topology = TridentTopology("vehicles-topology")
vehicles = topology.new_stream("spout1", FixedBatchSpout(SCHEMA, 10, *generate_vehicles(20)))
vehicles.min_by("vehicle", speed).name("slowest").write_to(show("slowest"))
vehicles.max_by("vehicle", speed).name("fastest").write_to(show("fastest"))
vehicles.min_by("vehicle", efficiency).name("least-efficient").write_to(show("least efficient"))
vehicles.max_by("vehicle", efficiency).name("most-efficient").write_to(show("most efficient"))

if __name__ == "__main__":
    run_batches(topology)
