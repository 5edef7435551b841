"""The program that is killed while it writes files: at a step of the sink's protocol, by SIGKILL.

python -m tests.acceptance.file_sink PATH ZOOKEEPER [STEP]

A step is a method of `TransactionDirectory` and ``before`` or ``after``, as in ``_publish:after``.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from trident_py import FileSink, FixedBatchSpout, TridentConfig, TridentTopology
from trident_py.sinks.files.directory import TransactionDirectory

PER_BATCH = 4
SCHEMA = "word string, n int"
ROWS = [(f"word{number % 4}", number) for number in range(PER_BATCH * 14)]


def die_at(step: str) -> None:
    """Have this process killed there, the second time of a batch, and the first of a recovery that has much to do."""
    method, _, moment = step.partition(":")
    work, times = getattr(TransactionDirectory, method), 0
    last = 1 if method in ("_fence", "_last_commit", "_remove_what_is_swept") else 2

    def dying(*args: Any) -> Any:
        nonlocal times
        times += 1
        if times == last and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = work(*args)
        if times == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(TransactionDirectory, method, dying)


def main(path: str, zookeeper: str, step: str = "") -> None:
    """Write all rows that aren't written yet."""
    if step:
        die_at(step)
    topology = TridentTopology("files")
    rows = topology.new_stream("rows", FixedBatchSpout(SCHEMA, PER_BATCH, *ROWS))
    every_third_empty = rows.transform(lambda frame: frame.where(f"n % 12 >= {PER_BATCH}"), SCHEMA)
    every_third_empty.write_to(FileSink(path, partition_by="word"))
    with topology.start(TridentConfig(max_spout_pending=3, session_timeout=2, zookeeper=zookeeper)) as query:
        query.process_all_available()


if __name__ == "__main__":
    main(*sys.argv[1:])
