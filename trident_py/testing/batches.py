"""`run_batches`: run a topology from start to end in one call."""

from __future__ import annotations

from pyspark.sql import SparkSession

from coordinators.backends.coordination import Coordination
from coordinators.backends.local import LocalCoordination
from trident_py.engine.monitoring.listeners import Progress, TransactionProgress
from trident_py.interfaces.config import RetryPolicy, TridentConfig
from trident_py.topology import TridentTopology

_CONFIG = TridentConfig(retry=RetryPolicy(backoff=0.0))


def run_batches(
    topology: TridentTopology, coordination: Coordination | None = None, spark: SparkSession | None = None
) -> list[TransactionProgress]:
    """Run ``topology`` until all data of its spouts is committed, then stop it.

    A batch that fails is retried without a wait.

    Args:
        topology: the topology to run.
        coordination: keeps its record, so that the next run continues there; None: every run is the first.
        spark: the session to run in. None: no session if no declared operation needs Spark; else the active session, or
            a local one that stops with the run.

    Returns:
        The progress of each committed transaction, in order, as ``TridentQuery.last_progress`` shows it: a dict with
        ``txid``, ``num_input_rows`` and so on, which are also attributes.

    Raises:
        TridentError: the error that ended the topology.
    """
    progress = Progress(recent_max=None)
    where = coordination or LocalCoordination()
    with topology.start(_CONFIG, spark=spark, listeners=[progress], coordination=where) as query:
        query.process_all_available()
    return progress.recent()
