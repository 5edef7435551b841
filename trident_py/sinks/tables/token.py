"""What a table knows of our commits: who leads, and which transaction is the last, with which rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from attrs import evolve, frozen

from coordinators.values.canonical import NO_ROWS, Fingerprint
from trident_py.sinks.leader_token import LeaderToken

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
