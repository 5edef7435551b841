"""`run_batches`: a topology from beginning to end, in one call."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from coordinators.coordination import Coordination
from coordinators.local import LocalCoordination
from trident_py.topology import TridentTopology


def run_batches(
    topology: TridentTopology, coordination: Coordination | None = None, spark: SparkSession | None = None
) -> list[dict[str, Any]]:
    """Run ``topology`` until all that its spouts have is committed, then end it.

    Args:
        topology: what to run.
        coordination: keeps its record, so that the next run goes on from there; None: every run is the first.
        spark: the session to run in; None: the active one, or a local one that stops with the run.

    Returns:
        The progress of each transaction that was committed, in order: what ``TridentQuery.last_progress`` shows.

    Raises:
        TridentError: what ended the topology.
    """
    with topology.start(spark=spark, coordination=coordination or LocalCoordination()) as query:
        query.process_all_available()
    return query.recent_progress
