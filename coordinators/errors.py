"""What can go wrong in the control plane, and whose turn it is then.

::

    TridentError
    ├── TopologyError       a declaration that cannot work, or is not that of the record
    ├── ConfigError         a setting out of range, or something missing on this machine
    ├── MetadataError       a spout's metadata or the stored record cannot be written or read as JSON
    ├── FencedError         a newer leader exists, or another one still leads
    ├── CoordinationLost    the ZooKeeper session is gone or the server is out of reach
    ├── SpoutError          a spout broke its contract, or its source is not what it was
    ├── StateError          a state is gone, damaged, behind or somebody else's
    └── PoisonBatchError    a batch failed as often as its retry policy allows

Each message says what happened, to which topology and transaction, and the way out.
"""

from __future__ import annotations


class TridentError(Exception):
    """The root of every error this project raises on its own account."""


class TopologyError(TridentError):
    """A declaration that cannot work, or that is not what the topology's record was written for."""


class ConfigError(TridentError):
    """A setting out of range, or something that has to be installed or freed on this machine."""


class MetadataError(TridentError):
    """Metadata that JSON cannot hold, or a stored record that cannot be read. Never taken as "start over"."""


class FencedError(TridentError):
    """A newer leader of this topology exists, or another one still leads it."""


class CoordinationLost(TridentError):
    """The ZooKeeper session has ended, or the servers have not answered within their deadline."""


class SpoutError(TridentError):
    """A spout broke its contract, or its source can no longer give what it gave before."""


class PoisonBatchError(TridentError):
    """Every attempt that the retry policy allows one batch has failed; ``__cause__`` is the last failure.

    Raised when everything before that batch is committed.
    """


class StateError(TridentError):
    """A state is gone, damaged, read-only, behind or somebody else's."""


def our_bug(what: str) -> str:
    """The message of an assertion: what is broken, and whose turn it is."""
    return f"a defect of trident_py, please report it: {what}"
