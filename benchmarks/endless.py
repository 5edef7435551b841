"""A topology that never ends, with small batches, for `benchmarks.connections`."""

from __future__ import annotations

from typing import Any

from trident_py import BatchCoordinator, Count, Emitter, ITridentSpout, SQLiteState, TridentTopology

ROWS = 100


class Numbering(BatchCoordinator[int]):
    """Defines the next hundred numbers."""

    def is_ready(self, txid: int) -> bool:
        """Return that there is always a batch."""
        return True

    def initialize_transaction(self, txid: int, prev_metadata: int | None, curr_metadata: int | None) -> int:
        """Return the first number of the batch."""
        return curr_metadata if curr_metadata is not None else (prev_metadata or 0) + ROWS


class Emitting(Emitter[int]):
    """Emits them."""

    def emit_batch(self, attempt: Any, metadata: int, collector: Any) -> None:
        """Emit a batch."""
        for number in range(metadata, metadata + ROWS):
            collector.emit((number % 17,))


class Numbers(ITridentSpout[int]):
    """Hundreds of numbers, for ever."""

    output_schema = "number bigint"

    def get_coordinator(self, *_: object) -> Numbering:
        """Return what defines batches."""
        return Numbering()

    def get_emitter(self, *_: object) -> Emitting:
        """Return what emits them."""
        return Emitting()


topology = TridentTopology("endless")
numbers = topology.new_stream("numbers", Numbers()).group_by("number")
numbers.persistent_aggregate(SQLiteState("counts.db", table="counts"), Count(), "count")
