"""`run_batches`: a topology from beginning to end, in one call."""

from __future__ import annotations

from pyspark.sql import SparkSession

from coordinators.backends.coordination import Coordination
from coordinators.backends.local import LocalCoordination
from trident_py.engine.monitoring.progress import Progress, TransactionProgress
from trident_py.topology import TridentTopology


def run_batches(
    topology: TridentTopology, coordination: Coordination | None = None, spark: SparkSession | None = None
) -> list[TransactionProgress]:
    """Run ``topology`` until all that its spouts have is committed, then end it.

    Args:
        topology: what to run.
        coordination: keeps its record, so that the next run goes on from there; None: every run is the first.
        spark: the session to run in; None: none, where nothing that was declared needs Spark, else the active one, or
            a local one that stops with the run.

    Returns:
        The progress of each transaction that was committed, in order, as ``TridentQuery.last_progress`` shows it:
        a dict with ``txid``, ``num_input_rows`` and so on, which are attributes, too.

    Raises:
        TridentError: what ended the topology.
    """
    progress = Progress(recent_max=None)
    with topology.start(spark=spark, listeners=[progress], coordination=coordination or LocalCoordination()) as query:
        query.process_all_available()
    return progress.recent()
