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

Each message says what happened, to which topology and transaction, and the way out. What it is about, programs find in
its attributes; both survive pickling.
"""

from __future__ import annotations

import copyreg
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self, TypedDict, Unpack

from coordinators.values.attempt import TransactionAttempt


class About(TypedDict, total=False):
    """What an error is about: the attributes of `TridentError`."""

    topology: str | None
    txid: int | None
    attempt: TransactionAttempt | None
    spout: str | None
    state: str | None


class TridentError(Exception):
    """The root of every error this project raises on its own account.

    Attributes:
        topology: the name of the topology; this and what follows is None where it is not known or none is meant.
        txid: the transaction.
        attempt: which try of it.
        spout: the ``tx_id`` of the spout.
        state: the name of the state or sink.
    """

    topology: str | None = None
    txid: int | None = None
    attempt: TransactionAttempt | None = None
    spout: str | None = None
    state: str | None = None

    def __init__(self, *args: object, **about: Unpack[About]) -> None:
        super().__init__(*args)
        self.locate(**about)

    def locate(self, **about: Unpack[About]) -> Self:
        """Fill in what is not known yet; of another transaction, only the topology. Returns itself."""
        attempt = about.get("attempt")
        if attempt is not None:
            about["txid"] = attempt.txid
        if self.txid is not None and about.get("txid") not in (None, self.txid):
            about = About(topology=about.get("topology"))
        for name, value in about.items():
            if value is not None and getattr(self, name) is None:
                setattr(self, name, value)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what it is, with its notes, and not how it was made: subclasses may have constructors of their own."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


@contextmanager
def located(**about: Unpack[About]) -> Iterator[None]:
    """Say of what goes wrong inside that it is about this, as far as the errors don't know better."""
    try:
        yield
    except TridentError as error:
        error.locate(**about)
        raise


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
    """Return the message of an assertion: what is broken, and whose turn it is."""
    return f"a defect of trident_py, please report it: {what}"
