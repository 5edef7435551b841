"""What a store knows of a sink that writes to it: who leads, and which transaction is the last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from attrs import evolve, frozen

from coordinators.values.attempt import CommitToken
from coordinators.values.canonical import NO_ROWS, Fingerprint, other_version

VERSION = 1
"""Of the format of tokens."""


@frozen(kw_only=True)
class LeaderToken:
    """Who leads, and what is committed.

    Attributes:
        incarnation: the topology's.
        fence: the epoch of the newest leader.
        sink: tells its sink from another one of the same leader.
        commit: the last commit of this incarnation; None: there was none.
    """

    incarnation: int
    fence: int
    sink: int
    commit: CommitToken | None = None

    @property
    def txid(self) -> int:
        """The last transaction that is committed; 0: none."""
        return self.commit.txid if self.commit else 0

    @classmethod
    def of(cls, numbers: Mapping[str, int]) -> Self:
        """Return the token that `numbers` has told.

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
        """Return all of it, as stores keep it."""
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


_SIGNED = 2**63 - 1


@frozen(kw_only=True)
class TableToken(LeaderToken):
    """Who leads, and what is committed.

    Attributes:
        content: the rows that the last commit has.
    """

    content: Fingerprint = NO_ROWS

    @classmethod
    def of(cls, numbers: Mapping[str, int]) -> Self:
        """Return the token that `numbers` has told.

        Raises:
            KeyError: one is missing.
        """
        return evolve(super().of(numbers), content=Fingerprint(numbers["rows"], numbers["hash"]))

    def numbers(self) -> dict[str, int]:
        """Return all of it, as tables keep it."""
        return {**super().numbers(), "rows": self.content.rows, "hash": self.content.sum}


def signed(content: Fingerprint) -> Fingerprint:
    """Return the same with a sum that fits into a whole number of eight bytes with a sign."""
    return Fingerprint(content.rows, content.sum & _SIGNED)
