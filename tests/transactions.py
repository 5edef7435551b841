"""Transactions of a state, one at a time."""

from __future__ import annotations

from typing import Any

from trident_py.interfaces.sinks import SinkTransaction
from trident_py.interfaces.states import GroupState


def begin(state: GroupState[Any], tx: SinkTransaction) -> bool:
    """Open ``tx`` as a group of one; False: this very attempt is already applied."""
    due = state.begin_group([tx])
    if due:
        state.begin_member(tx)
    return bool(due)
