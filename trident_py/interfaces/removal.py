"""`REMOVE`: what an updater, reducer or combiner returns instead of a new value, to have its key deleted."""

from __future__ import annotations

from enum import Enum
from typing import Any


class Removal(Enum):
    """The type of `REMOVE`; an enumeration, so that a copy that has travelled to a task is the same object."""

    REMOVE = "remove"

    def __repr__(self) -> str:
        return "REMOVE"


REMOVE: Any = Removal.REMOVE
"""Returned in place of a value, whatever the type of that is: the key has no value from now on, and its row goes.

A combiner's counts where a partial value meets the stored one. Between partial values of one batch it says that they
cancel each other out: nothing of them reaches the state.
"""
