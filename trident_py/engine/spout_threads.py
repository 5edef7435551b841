"""A spout at work, and the threads that it works on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from attrs import define

from coordinators.cursors import Cursors
from coordinators.record import CoordinatorRecord
from coordinators.spout_coordinator import TridentSpoutCoordinator
from trident_py.engine.spout_executor import TridentSpoutExecutor


@define(eq=False)
class SpoutThreads:
    """One spout at work: its two halves, each on a thread of its own."""

    coordinator: TridentSpoutCoordinator
    executor: TridentSpoutExecutor
    coordinating: ThreadPoolExecutor
    emitting: ThreadPoolExecutor

    @classmethod
    def of(cls, coordinator: TridentSpoutCoordinator, executor: TridentSpoutExecutor) -> SpoutThreads:
        """Start the two threads."""
        name = f"trident-{executor.tx_id}"
        return cls(
            coordinator,
            executor,
            ThreadPoolExecutor(1, thread_name_prefix=f"{name}-coordinator"),
            ThreadPoolExecutor(1, thread_name_prefix=f"{name}-emitter"),
        )

    @property
    def tx_id(self) -> str:
        """The spout's id."""
        return self.executor.tx_id

    def restore(self, record: CoordinatorRecord) -> None:
        """Hand either half the positions that it goes on from; called once, first."""
        cursors = record.cursors.get(self.tx_id, Cursors())
        self.coordinator.restore(cursors)
        self.executor.restore(cursors, record.current_txid - 1)
