"""Tune a Python worker of Spark's once it has run a stage of ours: cheaper garbage collection, and a quiet end."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import PurePath
from types import FrameType

import pyarrow as pa
from attrs import frozen

from trident_py.worker.failures import Stage


@frozen
class Settling:
    """A stage behind which its worker is settled."""

    stage: Stage

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the stage."""
        yield from self.stage(batches)
        settle()


def settle() -> None:
    """Make this process a good worker; only the first call does anything.

    A worker collects garbage behind each task, and goes through everything that it has imported for that: 17 ms of CPU,
    two thirds of what a small task costs it. So what is there now is frozen. And a worker that Spark ends, as it was
    idle for a minute, finds its Unix socket closed and prints where: it ends without a word instead.
    """
    if gc.get_freeze_count():
        return
    gc.collect()
    gc.freeze()
    if os.name != "posix" or threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGPIPE) is signal.SIG_IGN:
        signal.signal(signal.SIGPIPE, _end_quietly)


def _end_quietly(_: int, frame: FrameType | None) -> None:
    # Whatever else writes into a closed pipe gets its BrokenPipeError, as if nobody had handled the signal: all that a
    # task does is called by PySpark's worker, and only what ends the process by its daemon.
    while frame and PurePath(frame.f_code.co_filename).parent.name != "pyspark":
        frame = frame.f_back
    if frame and PurePath(frame.f_code.co_filename).name == "daemon.py":
        os._exit(0)
