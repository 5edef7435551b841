"""The whole catalogue: each module enters its faults when it is imported."""

from __future__ import annotations

from tests.faults import (
    clocks,
    crashes,
    cuts,
    databases,
    losses,
    neighbours,
    outputs,
    parked,
    pauses,
    poolers,
    quarantine,
    removals,
    resident,
    sparks,
    staging,
    together,
    windows,
    wishes,
    zookeepers,
)
from tests.faults.catalogue import FAULTS

__all__ = [
    "FAULTS",
    "clocks",
    "crashes",
    "cuts",
    "databases",
    "losses",
    "neighbours",
    "outputs",
    "parked",
    "pauses",
    "poolers",
    "quarantine",
    "removals",
    "resident",
    "sparks",
    "staging",
    "together",
    "windows",
    "wishes",
    "zookeepers",
]
