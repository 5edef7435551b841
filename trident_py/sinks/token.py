"""The token that a store keeps for a sink: the leader, and the last transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, Self, TypeVar

from attrs import define, evolve, frozen

from coordinators.values.attempt import CommitToken
from coordinators.values.canonical import NO_ROWS, Fingerprint, other_version
from trident_py.interfaces.sinks import TopologyKey

VERSION = 1
"""Of the format of tokens."""


@frozen(kw_only=True)
class LeaderToken:
    """The leader and the last commit.

    Attributes:
        incarnation: the topology's.
        fence: the epoch of the newest leader.
        sink: identifies its sink among those of the same leader.
        commit: the last commit of this incarnation; None: no commit.
    """

    incarnation: int
    fence: int
    sink: int
    commit: CommitToken | None = None

    @property
    def txid(self) -> int:
        """The last committed transaction; 0: no transaction is committed."""
        return self.commit.txid if self.commit else 0

    @classmethod
    def of(cls, numbers: Mapping[str, int]) -> Self:
        """Return the token with these `numbers`.

        Raises:
            KeyError: one is missing, as in data of versions before the first release.
            ValueError: another release has stored it.
        """
        if numbers["version"] != VERSION:
            raise ValueError(other_version(numbers["version"], VERSION))
        return cls(
            incarnation=numbers["incarnation"],
            fence=numbers["fence"],
            sink=numbers["sink"],
            commit=CommitToken(numbers["txid"], numbers["epoch"], numbers["attempt"]) if numbers["txid"] else None,
        )

    def numbers(self) -> dict[str, int]:
        """Return the token's numbers, as stores keep them."""
        commit = self.commit or CommitToken(0, 0, 0)
        return {
            "version": VERSION,
            "incarnation": self.incarnation,
            "fence": self.fence,
            "sink": self.sink,
            "txid": commit.txid,
            "epoch": commit.epoch,
            "attempt": commit.attempt_id,
        }


T = TypeVar("T", bound=LeaderToken)


@define
class Leading(Generic[T]):
    """A leadership of a sink.

    Attributes:
        topology: the topology of the sink.
        token: the stored token, after this leader has raised the fence; each commit replaces it.
    """

    topology: TopologyKey
    token: T

    @property
    def who(self) -> str:
        """Its name in messages."""
        return f"topology {self.topology.name!r}, epoch {self.token.fence}"


_SIGNED = 2**63 - 1


@frozen(kw_only=True)
class TableToken(LeaderToken):
    """The leader, the last commit and its rows.

    Attributes:
        content: the rows of the last commit.
    """

    content: Fingerprint = NO_ROWS

    @classmethod
    def of(cls, numbers: Mapping[str, int]) -> Self:
        """Return the token with these `numbers`.

        Raises:
            KeyError: a number is missing.
        """
        return evolve(super().of(numbers), content=Fingerprint(numbers["rows"], numbers["hash"]))

    def numbers(self) -> dict[str, int]:
        """Return the token's numbers, as tables keep them."""
        return {**super().numbers(), "rows": self.content.rows, "hash": self.content.sum}


def signed(content: Fingerprint) -> Fingerprint:
    """Return the fingerprint with its sum reduced to a signed integer of eight bytes."""
    return Fingerprint(content.rows, content.sum & _SIGNED)
