"""What a table knows of our commits: who leads, and which transaction is the last."""

from __future__ import annotations

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


def signed(content: Fingerprint) -> Fingerprint:
    """Return the same with a sum that fits into a whole number of eight bytes with a sign."""
    return Fingerprint(content.rows, content.sum & _SIGNED)
