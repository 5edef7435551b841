"""A process that leads a topology of small batches, or stands by, for `benchmarks.takeover`.

    python -m benchmarks.candidate ZOOKEEPER DATABASE SESSION_SECONDS RESIDENT_TASKS

It prints a line for each of its moments, with the monotonic time.
"""

from __future__ import annotations

import random
import sys
import time
from typing import Any

from benchmarks.sizes import LINE_WORDS, WORDS
from trident_py import (
    BatchCoordinator,
    Count,
    Emitter,
    ITridentSpout,
    SQLiteState,
    TridentConfig,
    TridentListener,
    TridentTopology,
)

NAME = "takeover"
SENTENCES = 10


class Numbering(BatchCoordinator[int]):
    """Defines a batch by its txid."""

    def is_ready(self, txid: int) -> bool:
        """Return that there is always a batch."""
        return True

    def initialize_transaction(self, txid: int, prev_metadata: int | None, curr_metadata: int | None) -> int:
        """Return the txid."""
        return txid


class Emitting(Emitter[int]):
    """Emits random sentences, the same ones for the same txid."""

    def emit_batch(self, attempt: Any, metadata: int, collector: Any) -> None:
        """Emit a batch."""
        chance = random.Random(metadata)  # noqa: S311 - no secret
        for _ in range(SENTENCES):
            collector.emit((" ".join(f"word{chance.randrange(WORDS):04}" for _ in range(LINE_WORDS)),))


class Sentences(ITridentSpout[int]):
    """Sentences without end."""

    output_schema = "sentence string"

    def get_coordinator(self, *_: object) -> Numbering:
        """Return what defines batches."""
        return Numbering()

    def get_emitter(self, *_: object) -> Emitting:
        """Return what emits them."""
        return Emitting()


class Telling(TridentListener):
    """Prints the first event of each kind."""

    def __init__(self) -> None:
        self.told = set[str]()

    def on_event(self, event: Any) -> None:
        """Print it, unless there was one like it."""
        if event.method not in self.told:
            self.told.add(event.method)
            tell(event.method, event.at)


def tell(moment: str, at: float | None = None) -> None:
    """Print a moment, with the time of day."""
    print(moment, time.time() if at is None else at, flush=True)


def main() -> None:
    """Lead, or stand by, until this process is killed."""
    zookeeper, database, session, resident = sys.argv[1:]
    topology = TridentTopology(NAME)
    (
        topology.new_stream("sentences", Sentences())
        .flat_map(lambda row: [(word,) for word in row.sentence.split()], "word string")
        .group_by("word")
        .persistent_aggregate(SQLiteState(database, table="counts"), Count(), "count")
    )
    config = TridentConfig(zookeeper=zookeeper, session_timeout=float(session), resident_tasks=int(resident))
    query = topology.start(config, listeners=[Telling()], standby=True)
    tell("stands_by")
    query.await_termination()


if __name__ == "__main__":
    main()
