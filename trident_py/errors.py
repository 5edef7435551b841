"""All errors of the product in one place; those of the control plane come from `coordinators.values.errors`.

- TridentError
  - TopologyError: a declaration that can't work, or that doesn't match the record
  - ConfigError: a setting out of range, or a requirement missing on this machine
  - MetadataError: metadata that JSON cannot hold, or a stored record that cannot be read
  - FencedError: a newer leader exists, or another one still leads
  - CoordinationLost: the ZooKeeper session is gone
  - SparkLost: the Spark driver's JVM or server is gone
  - SpoutError: a spout broke its contract, or its source has changed
  - StateError: a state is missing, damaged or another topology's
  - SinkError: a sink refused or lost a transaction
  - CounterError: a counter was used outside of a transaction
  - RequestError: a request could not be answered; the topology continues
  - HistoryError: the history of topologies can't be read or written; no topology depends on it
  - PoisonBatchError: a batch failed as often as its retry policy allows
- FailedException: raised by user code to fail an attempt (Storm's name; not a TridentError)
  - StoreBusyException: the same because of a store; it doesn't count against the batch
"""

from __future__ import annotations

from coordinators.values.errors import (
    ConfigError,
    CoordinationLost,
    FencedError,
    MetadataError,
    PoisonBatchError,
    SpoutError,
    StateError,
    TopologyError,
    TridentError,
)

__all__ = [
    "ConfigError",
    "CoordinationLost",
    "CounterError",
    "FailedException",
    "FencedError",
    "HistoryError",
    "MetadataError",
    "PoisonBatchError",
    "RequestError",
    "SinkError",
    "SparkLost",
    "SpoutError",
    "StateError",
    "StoreBusyException",
    "TopologyError",
    "TridentError",
]


class SparkLost(TridentError):
    """The JVM or server of the Spark session is gone; the topology stops, and its position is safe."""


class CounterError(TridentError):
    """A counter was used outside of a transaction, to which its count would belong."""


class RequestError(TridentError):
    """A request of ``TridentQuery.execute`` could not be answered; the topology continues."""


class UnknownFunctionError(RequestError):
    """The topology has no function of that name."""


class HistoryError(TridentError):
    """The history of topologies can't be read or written; no topology depends on it."""


class SinkError(TridentError):
    """A sink refused a transaction, or lost a committed one."""


class FailedException(Exception):
    """Raise it anywhere in user code to fail this attempt: it is replayed, together with every later one."""


class StoreBusyException(FailedException):
    """A store can't accept a commit just now: the attempt is replayed, and this doesn't count against the batch."""
