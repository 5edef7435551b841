"""One of the things that commit, in the order in which they do."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen


@frozen
class CommitStep:
    """Something that commits, about to.

    Attributes:
        is_ours: code of ours, which makes progress: a long commit of it is no silence.
    """

    name: str
    is_ours: bool
    commit: Callable[[], None]
