"""A spout at work, and the threads that it works on."""

from __future__ import annotations

from attrs import define

from coordinators.batches.spout_coordinator import TridentSpoutCoordinator
from coordinators.record.record import CoordinatorRecord
from coordinators.values.cursors import Cursors
from trident_py.engine.threads.spout_executor import TridentSpoutExecutor
from trident_py.engine.threads.threads import Threads


@define(eq=False)
class SpoutThreads:
    """One spout at work: its two halves, each on a thread of its own."""

    coordinator: TridentSpoutCoordinator
    executor: TridentSpoutExecutor
    coordinating: Threads
    emitting: Threads

    @classmethod
    def of(cls, coordinator: TridentSpoutCoordinator, executor: TridentSpoutExecutor) -> SpoutThreads:
        """Return both halves, with the threads that they will work on."""
        name = f"trident-{executor.tx_id}"
        return cls(coordinator, executor, Threads(f"{name}-coordinator"), Threads(f"{name}-emitter"))

    @property
    def tx_id(self) -> str:
        """The spout's id."""
        return self.executor.tx_id

    def restore(self, record: CoordinatorRecord) -> None:
        """Hand either half the positions that it goes on from; called once, first."""
        cursors = record.cursors.get(self.tx_id, Cursors())
        self.coordinator.restore(cursors)
        self.executor.restore(cursors, record.numbers.upto(record.current_txid - 1))
