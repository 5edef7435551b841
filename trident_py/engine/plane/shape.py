"""What the data plane has to know of a topology."""

from __future__ import annotations

from attrs import frozen


@frozen(kw_only=True)
class SpoutShape:
    """What the data plane has to know of a spout.

    Attributes:
        is_committer: whether its emitter takes part in commits.
    """

    name: str
    is_committer: bool = False


@frozen(kw_only=True)
class BranchShape:
    """What the data plane has to know of a branch and of the output at its end.

    Attributes:
        name: of the output, for messages.
        spouts: whose batches it reads.
        is_shareable: whether small batches of several attempts may go through it in one job.
        commits: whether its output takes part in commits.
        keeps_alive: whether its commit is code of ours that makes progress, so that a long one is no silence.
        is_fenced: whether a commit that comes late, when another process leads, is refused.
    """

    name: str
    spouts: frozenset[str]
    is_shareable: bool = False
    commits: bool = True
    keeps_alive: bool = False
    is_fenced: bool = True


@frozen(kw_only=True)
class TopologyShape:
    """What the data plane has to know of a topology."""

    spouts: tuple[SpoutShape, ...]
    branches: tuple[BranchShape, ...]
