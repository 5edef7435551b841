"""What a Delta table knows of our commits: versions of application transactions, all written anew by each of them.

For the topology with the uuid ``U`` they are::

    trident:U              txid of the last transaction; 0: none
    trident:U:epoch        and what attempt it was, of which leader
    trident:U:attempt
    trident:U:rows         how many rows it has, and a hash of them
    trident:U:hash
    trident:U:fence        the epoch of the newest leader
    trident:U:sink         a number that the sink of this leader has drawn
    trident:U:incarnation  of the topology

A commit of Delta is refused where one of them has changed since the table was looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Self

from attrs import frozen

from coordinators.attempt import CommitToken
from coordinators.fingerprint import NO_ROWS, Fingerprint

_SIGNED = 2**63 - 1


@frozen(kw_only=True)
class TableToken:
    """Who leads, and what is committed.

    Attributes:
        incarnation: the topology's.
        fence: the epoch of the newest leader.
        sink: tells its sink from another one of the same leader.
        commit: the last commit; None: there was none.
        content: the rows that it has.
    """

    incarnation: int
    fence: int
    sink: int
    commit: CommitToken | None = None
    content: Fingerprint = NO_ROWS

    @classmethod
    def read(cls, uuid: str, version_of: Callable[[str], int | None]) -> Self | None:
        """Return the token of a topology, where ``version_of`` gives a transaction's version; None: there is none."""
        found = {name: version_of(app_id(uuid, name)) for name in _NAMES}
        if found["fence"] is None:
            return None
        known = {name: version or 0 for name, version in found.items()}
        return cls(
            incarnation=known["incarnation"],
            fence=known["fence"],
            sink=known["sink"],
            commit=CommitToken(known[""], known["epoch"], known["attempt"]) if known[""] else None,
            content=Fingerprint(known["rows"], known["hash"]),
        )

    @property
    def versions(self) -> Mapping[str, int]:
        """The version of each application transaction, by the end of its name."""
        commit = self.commit or CommitToken(0, 0, 0)
        return {
            "": commit.txid,
            "epoch": commit.epoch,
            "attempt": commit.attempt_id,
            "rows": self.content.rows,
            "hash": self.content.sum,
            "fence": self.fence,
            "sink": self.sink,
            "incarnation": self.incarnation,
        }


_NAMES = ("", "epoch", "attempt", "rows", "hash", "fence", "sink", "incarnation")


def app_id(uuid: str, name: str) -> str:
    """Return the name of an application transaction."""
    return f"trident:{uuid}:{name}" if name else f"trident:{uuid}"


def signed(content: Fingerprint) -> Fingerprint:
    """Return the same, with the sum as the signed number that a version can hold."""
    return Fingerprint(content.rows, content.sum & _SIGNED)
