"""The header that a state of this package stores next to its values, and its change by a takeover.

In SQL a header is a row of the table ``_trident``.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, ClassVar

from attrs import Factory, evolve, frozen

from coordinators.values.canonical import other_version
from trident_py.errors import StateError
from trident_py.interfaces.sinks import CommitToken, TopologyKey
from trident_py.rows.schema import clipped
from trident_py.states.expiry import Expiry
from trident_py.states.fenced import Fence

VERSION = 1
"""The format version of headers and of their tables."""


class TableStep(Enum):
    """The action that a takeover takes for the state's table."""

    KEEP = "go on with it"
    CREATE = "make it"
    REPLACE = "set it aside, and make a new one"


@frozen
class StateHeader:
    """The header of one state: its fence, its owner, its fields and its expired keys.

    Attributes:
        owner: identifies the object that raised the fence last. Two owners in one epoch mean that two states use the
            same table.
        columns: the declared fields.
        expiry: the keys that have expired.
    """

    COLUMNS: ClassVar[str] = (
        "version, topology, uuid, incarnation, fence, owner, columns, txid, epoch, attempt_id, group_first, ttl_since, "
        "expired"
    )

    fence: Fence
    owner: str
    columns: str
    expiry: Expiry = Factory(Expiry)

    @classmethod
    def of(cls, row: Sequence[Any]) -> StateHeader:
        """Return the header that was stored as ``row``, the values of `COLUMNS`.

        Raises:
            StateError: the row can't be read.
        """
        _check_row(row)
        _, name, uuid, incarnation, epoch, owner, columns, txid, its_epoch, attempt, group_first, *expiry = row
        found = CommitToken(txid, its_epoch, attempt) if txid is not None else None
        fence = Fence(TopologyKey(name, uuid, incarnation), epoch, found, group_first)
        return cls(fence, owner, columns, Expiry(*expiry))

    @property
    def row(self) -> tuple[Any, ...]:
        """The values of `COLUMNS`."""
        topology = self.fence.topology
        return (
            VERSION,
            topology.name,
            topology.uuid,
            topology.incarnation,
            self.fence.epoch,
            self.owner,
            self.columns,
            *self.fence.commit,
            self.expiry.since,
            self.expiry.upto,
        )

    def claimed(self, found: StateHeader | None, *, exists: bool, state: str) -> tuple[StateHeader, TableStep]:
        """Return the header after a takeover by this one's topology and epoch, and the action for the table.

        Args:
            found: the stored header; None: no state has written one.
            exists: whether a table of this name exists.
            state: the state's name in errors.

        Raises:
            StateError: the table belongs to another writer, has other fields than declared, or is gone.
            FencedError: a newer leader has taken over.
        """
        topology = self.fence.topology
        if found is None:
            if exists:
                raise StateError(
                    f"topology {topology.name!r}: {state} exists and was not made by a topology; to fix this: use "
                    f"another table",
                    topology=topology.name,
                )
            return self, TableStep.CREATE
        header = evolve(self, fence=found.fence.raised(topology, self.fence.epoch, state))
        if found.fence.epoch == self.fence.epoch and found.owner != self.owner:
            raise StateError(
                f"topology {topology.name!r} uses {state} twice, or a leader of the same epoch {self.fence.epoch} has "
                f"used it, and ZooKeeper was restored from the past; to fix this: give each state its own table; or "
                f"restore the state and ZooKeeper from one moment, or `trident reset {topology.name}`",
                topology=topology.name,
            )
        if topology.incarnation != found.fence.topology.incarnation:
            return header, TableStep.REPLACE if exists else TableStep.CREATE
        self._check_table(found, exists, state)
        header = evolve(header, expiry=found.expiry)
        return header, TableStep.KEEP if exists else TableStep.CREATE

    def _check_table(self, found: StateHeader, exists: bool, state: str) -> None:
        name = self.fence.topology.name
        if found.columns != self.columns:
            raise StateError(
                f"topology {name!r}: {state} has the fields {found.columns}, declared are {self.columns}; to fix "
                f"this: use another table, or `trident reset {name}`",
                topology=name,
            )
        if not exists and found.fence.token is not None:
            raise StateError(
                f"topology {name!r}: {state} is gone, it was at {found.fence.token}; to fix this: restore it, or "
                f"`trident reset {name}`",
                topology=name,
            )


_TEXTS = frozenset({"topology", "uuid", "owner", "columns"})
_MAY_LACK = frozenset({"txid", "epoch", "attempt_id", "group_first", "ttl_since", "expired"})
_TOKEN = ("txid", "epoch", "attempt_id")


def _check_row(row: Sequence[Any]) -> None:
    names = StateHeader.COLUMNS.split(", ")
    if len(row) != len(names) or row[0] != VERSION:
        version = row[0] if len(row) == len(names) else 0
        raise StateError(
            f"the state can't be read: {other_version(version, VERSION)}; nothing of it was changed; to fix this: give "
            f"the topology another table or prefix"
        )
    found = dict(zip(names, row, strict=True))
    for name, value in found.items():
        if name in _MAY_LACK and value is None:
            continue
        if type(value) is not (str if name in _TEXTS else int):
            raise StateError(f"the header of the state has {clipped(value)} as {name}; to fix this: restore the store")
    if found["txid"] is not None and any(found[name] is None for name in _TOKEN):
        raise StateError("the header of the state has only a part of a commit token; to fix this: restore the store")
