"""The slots that resident tasks take, of all topologies in this process: large batches always keep some."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from trident_py.spark import jobs
from trident_py.spark.session import extra_slots

_lock = threading.Lock()
_taken: Counter[str] = Counter()  # by the id of the Spark application


@contextmanager
def slots_taken(session: SparkSession, count: int | None) -> Iterator[int]:
    """Take ``count`` slots for the block; return how many are taken.

    None: the extra slots of the session, or half of its slots if it has none. Fewer are taken if other
    topologies of the same application have resident tasks, too: one slot stays for jobs.
    """
    context = jobs.spark_context(session)
    application = "" if context is None else str(context.applicationId)
    slots = jobs.parallelism(session)
    with _lock:
        most = min(extra_slots(session) or slots, slots // 2) if count is None else slots - 1
        free = max(0, most - _taken[application])
        number = free if count is None else min(count, free)
        _taken[application] += number
    try:
        yield number
    finally:
        with _lock:
            _taken[application] -= number
