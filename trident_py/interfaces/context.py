"""The context that user code receives: the topology, the Spark session, and counters."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from attrs import field, frozen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Metrics:
    """Named numbers that user code keeps on the driver; ``TridentQuery.last_progress`` shows them."""

    def __init__(self) -> None:
        self._values: dict[str, float] = {}
        self._lock = threading.Lock()

    def add(self, name: str, amount: float = 1) -> None:
        """Count ``amount`` more of ``name``."""
        with self._lock:
            self._values[name] = self._values.get(name, 0) + amount

    def set(self, name: str, value: float) -> None:
        """Set ``name`` to ``value``."""
        with self._lock:
            self._values[name] = value

    def values(self) -> Mapping[str, float]:
        """Return a copy of all current numbers."""
        with self._lock:
            return dict(self._values)


@frozen
class TopologyContext:
    """Context that a spout receives when its coordinator and emitter are made.

    Attributes:
        topology: the topology's name.
        tx_state_id: the ``tx_id`` given to ``new_stream``.
        metrics: counters for user code.
        parallelism: the number of tasks that run at once, and so of splits into which an emitter should cut a batch.
        epoch: the number of the leadership; each is greater than those before.
    """

    topology: str
    tx_state_id: str
    _spark: SparkSession | Callable[[], SparkSession] | None = None
    metrics: Metrics = field(factory=Metrics)
    parallelism: int = 1
    epoch: int = field(default=1, kw_only=True)

    @property
    def spark(self) -> SparkSession | None:
        """The session to build DataFrames with. None for coordinators, unless their spout says that they need Spark.

        If the topology runs without Spark, the session is built at the first access.
        """
        return self._spark() if callable(self._spark) else self._spark
