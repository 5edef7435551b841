"""The errors of the control plane.

All of them are subclasses of `TridentError`:

- `TopologyError`: a declaration that cannot work, or is not that of the record.
- `ConfigError`: a setting out of range, or something missing on this machine.
- `MetadataError`: a spout's metadata or the stored record cannot be written or read as JSON.
- `FencedError`: a newer leader exists, or another one still leads.
- `CoordinationLost`: the ZooKeeper session is gone or the server can't be reached.
- `SpoutError`: a spout broke its contract, or its source has changed.
- `StateError`: a state is gone, damaged, behind or another topology's.
- `PoisonBatchError`: a batch failed as often as its retry policy allows.

Each message says what happened, to which topology and transaction, and how to fix it. Programs find the topology,
transaction, spout and state in the error's attributes; message and attributes survive pickling.
"""

from __future__ import annotations

import copyreg
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self, TypedDict, Unpack

from coordinators.values.attempt import TransactionAttempt


class About(TypedDict, total=False):
    """The subject of an error: the attributes of `TridentError`."""

    topology: str | None
    txid: int | None
    attempt: TransactionAttempt | None
    spout: str | None
    state: str | None


class TridentError(Exception):
    """The base class of every error that this project raises.

    Attributes:
        topology: the name of the topology. Each attribute has the value None if it is unknown
            or not applicable.
        txid: the transaction.
        attempt: the attempt of it.
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
        """Set the attributes that are not known yet, and return self.

        If the error is of another transaction, set only the topology.
        """
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
        """Pickle its class, arguments, attributes and notes, since subclasses may have other constructors."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


@contextmanager
def located(**about: Unpack[About]) -> Iterator[None]:
    """Set the given attributes on errors that are raised inside, if they are not set yet."""
    try:
        yield
    except TridentError as error:
        error.locate(**about)
        raise


class TopologyError(TridentError):
    """A declaration that cannot work, or that doesn't fit the topology's record."""


class ConfigError(TridentError):
    """A setting out of range, or something that must be installed or freed on this machine."""


class MetadataError(TridentError):
    """Metadata that JSON cannot represent, or a stored record that cannot be read. It never means "start over"."""


class FencedError(TridentError):
    """A newer leader of this topology exists, or another one still leads it."""


class CoordinationLost(TridentError):
    """The ZooKeeper session has ended, or the servers have not answered within their deadline."""


class SpoutError(TridentError):
    """A spout broke its contract, or its source can no longer deliver the earlier rows."""


class PoisonBatchError(TridentError):
    """Every attempt that the retry policy allows one batch has failed; ``__cause__`` is the last failure.

    Raised after every transaction before that batch is committed.
    """


class StateError(TridentError):
    """A state is gone, damaged, read-only, behind or another topology's."""


def our_bug(what: str) -> str:
    """Return the message of an assertion: the violated invariant, with the request to report it."""
    return f"a defect of trident_py, please report it: {what}"
