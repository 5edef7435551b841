"""`REMOVE`: returned by an updater, reducer or combiner instead of a new value, to delete the key."""

from __future__ import annotations

from enum import Enum
from typing import Any


class Removal(Enum):
    """The type of `REMOVE`; an enumeration, so that a copy that was pickled into a task is the same object."""

    REMOVE = "remove"

    def __repr__(self) -> str:
        return "REMOVE"


REMOVE: Any = Removal.REMOVE
"""Returned in place of a value of any type: the key loses its value, and its row is deleted.

If a combiner returns it for a partial value and the stored one, the key is deleted. If it returns it for two partial
values of one batch, they cancel each other out, and neither reaches the state.
"""
