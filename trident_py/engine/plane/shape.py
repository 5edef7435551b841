"""What the data plane has to know of a topology."""

from __future__ import annotations

from attrs import frozen

from trident_py.participants.capabilities import COMMITTING, Capabilities


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
        capabilities: what its output can do.
    """

    name: str
    spouts: frozenset[str]
    is_shareable: bool = False
    capabilities: Capabilities = COMMITTING


@frozen(kw_only=True)
class TopologyShape:
    """What the data plane has to know of a topology."""

    spouts: tuple[SpoutShape, ...]
    branches: tuple[BranchShape, ...]
