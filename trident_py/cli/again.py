"""Emits the batch of a committed transaction once more, by the spouts of some code: for looking only."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import cache

import pyarrow as pa
from pyspark.sql import SparkSession

from trident_py.engine.rows.row_engine import in_memory
from trident_py.engine.threads.spout_executor import TridentSpoutExecutor
from trident_py.engine.wiring.assembly import gives_again
from trident_py.errors import TopologyError
from trident_py.history.entries import AttemptEntry
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics, TopologyContext
from trident_py.planner.plan import SpoutPlan, plan
from trident_py.spark.session import topology_session
from trident_py.topology import TridentTopology


def emitted_again(topology: TridentTopology, entry: AttemptEntry) -> dict[str, pa.Table]:
    """Return the rows of a committed attempt, by spout; calls emitters, and no coordinator, ``commit`` or ``success``.

    Raises:
        TopologyError: a spout can't emit a batch again, or ``topology`` doesn't have it.
    """
    spouts = {each.tx_id: each for each in plan(topology._graph).spouts}  # noqa: SLF001 - its declarations
    if unknown := sorted(entry.definition.keys() - spouts.keys()):
        raise TopologyError(f"the transaction has rows of spout {unknown[0]!r}, which this code doesn't have")
    with ExitStack() as opened:
        session = cache(lambda: opened.enter_context(topology_session(topology.name, None)))
        return {spout: _emitted(topology.name, spouts[spout], entry, session) for spout in entry.definition}


def _emitted(topology: str, spout: SpoutPlan, entry: AttemptEntry, session: Callable[[], SparkSession]) -> pa.Table:
    if not gives_again(spout.spout):
        raise TopologyError(
            f"spout {spout.tx_id!r} can't emit a batch again after its success, so only parked transactions can be "
            f"tried; a spout that can says so by replay = Replay.EXACT and gives_again = True"
        )
    context = TopologyContext(topology, spout.tx_id, session, Metrics())
    emitter = spout.spout.get_emitter(spout.tx_id, TridentConfig(), context)
    executor = TridentSpoutExecutor(topology, spout.tx_id, spout.schema, emitter, Metrics())
    try:
        batch = executor.emit_batch(entry.attempt, entry.number or entry.txid, entry.definition[spout.tx_id])
        return in_memory(batch)[0].table
    finally:
        emitter.close()
