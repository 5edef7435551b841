"""The program whose tasks run twice, side by side, while they write files: Spark takes them for slow.

python -m tests.acceptance.file_sink_twice PATH ZOOKEEPER MASTER MEETING
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from trident_py import FileSink, FixedBatchSpout, TridentConfig, TridentTopology

PER_BATCH, BATCHES = 4, 2
LOOK_AGAIN_SECS = 0.05
SPECULATING: dict[str, bool | float | int | str | None] = {
    "spark.speculation": True,
    "spark.speculation.interval": "100ms",
    "spark.speculation.task.duration.threshold": "1s",
    "spark.ui.enabled": False,
}


def met(meeting: str) -> Callable[[Any], Any]:
    """Have the task that comes first wait for the one beside it; then both go on."""

    def meet(row: Any) -> Any:
        batch = row.n // PER_BATCH
        second = Path(meeting, f"second-{batch}")
        if row.n % PER_BATCH == 0:
            try:
                Path(meeting, f"first-{batch}").touch(exist_ok=False)
            except FileExistsError:
                second.touch()
            while not second.exists():
                threading.Event().wait(LOOK_AGAIN_SECS)
        return (row.n,)

    return meet


def main(path: str, zookeeper: str, master: str, meeting: str) -> None:
    """Write all rows, a batch at a time, in one task each: there is a core for each of the two that meet."""
    spark = SparkSession.Builder().master(master).config(map=SPECULATING).getOrCreate()
    topology = TridentTopology("twice")
    rows = topology.new_stream("rows", FixedBatchSpout("n int", PER_BATCH, *((n,) for n in range(PER_BATCH * BATCHES))))
    in_one_task = rows.transform(lambda frame: frame.coalesce(1), "n int")
    in_one_task.map(met(meeting), "n int").write_to(FileSink(path))
    with topology.start(TridentConfig(max_spout_pending=1, zookeeper=zookeeper), spark=spark) as query:
        query.process_all_available()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
