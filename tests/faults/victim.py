"""The process that `tests.faults.killing` kills: it stands by for a topology, and tells what becomes of it.

    python -m tests.faults.victim --journal FILE --zookeeper HOSTS [--master URL] [--drain] MODULE ARGUMENTS

``MODULE`` has a function ``declared`` that makes the topology of ``ARGUMENTS``, an object in JSON. It goes on for ever;
to ``drain`` is to end when all input is committed. It ends with its standard input, too.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import sys
import threading
from pathlib import Path

from attrs import define
from pyspark.sql import SparkSession

from coordinators.status.listener import CommittedEvent, LeadingEvent, TridentListener
from tests.faults.check import RUN_MAX
from tests.faults.journal import Journal
from tests.faults.program import SPARK
from tests.servers.spark import QUICK
from trident_py import TridentConfig

SESSION_SECONDS = 6.0
SHARING: dict[str, bool | float | int | str | None] = {
    "spark.cores.max": 2,
    "spark.executor.cores": 1,
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": QUICK,
}
"""So that a cluster has executors for who leads and for who stands by."""


@define(eq=False)
class Telling(TridentListener):
    """Tells when this process leads, and what it commits."""

    journal: Journal

    def on_leading(self, event: LeadingEvent) -> None:
        """Tell."""
        self.journal.tell("leads", epoch=event.epoch)

    def on_committed(self, event: CommittedEvent) -> None:
        """Tell."""
        self.journal.tell("committed", txid=event.attempt.txid)


def main() -> int:
    """Run the topology until there is a reason not to."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--zookeeper", required=True)
    parser.add_argument("--master", default="local[1]")
    parser.add_argument("--drain", action="store_true")
    parser.add_argument("module")
    parser.add_argument("arguments", type=json.loads)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(threadName)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    os.environ.setdefault("SPARK_SUBMIT_OPTS", QUICK)
    threading.Thread(target=_end_with_input, daemon=True).start()
    topology = importlib.import_module(options.module).declared(**options.arguments)
    journal = Journal(options.journal, topology.name)
    spark = SparkSession.Builder().master(options.master).config(map={**SPARK, **SHARING}).getOrCreate()
    config = TridentConfig(
        max_spout_pending=RUN_MAX,
        session_timeout=SESSION_SECONDS,
        zookeeper=options.zookeeper,
        state_dir=Path("/x"),
    )
    error: BaseException | None = None
    try:
        with topology.start(config, spark=spark, listeners=[Telling(journal)], standby=True) as query:
            if options.drain:
                query.process_all_available()
            else:
                query.await_termination()
    except BaseException as raised:  # noqa: BLE001 - that is what is to be told
        error = raised
    journal.tell("ended", error=type(error).__name__ if error else None, message=str(error or ""))
    return 1 if error else 0


def _end_with_input() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
