"""The whole catalogue: each module enters its faults when it is imported."""

from __future__ import annotations

from tests.faults import crashes, cuts, databases, pauses, sparks, zookeepers
from tests.faults.catalogue import FAULTS

__all__ = ["FAULTS", "crashes", "cuts", "databases", "pauses", "sparks", "zookeepers"]
