"""One step of a commit: everything that commits has one, and they follow each other on the commit thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen


@frozen
class CommitStep:
    """Something that commits, about to.

    Attributes:
        name: of the state, sink or spout, for messages.
        is_ours: code of ours, which makes progress: a long commit of it is no silence.
        is_fenced: what it writes late, when another leads, is refused.
        commit: does it.
    """

    name: str
    is_ours: bool
    is_fenced: bool
    commit: Callable[[], None]


def all_of(calls: Sequence[Callable[[], None]]) -> None:
    """Make these calls, in order."""
    for call in calls:
        call()
