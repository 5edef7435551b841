from __future__ import annotations

from typing import Any

from coordinators.values.batch_coordinator import BatchCoordinator, CursorCoordinator


class Least(BatchCoordinator[int]):
    """As little as a user has to write."""

    def initialize_transaction(self, txid: int, prev_metadata: Any, curr_metadata: Any) -> int:
        return txid

    def is_ready(self, txid: int) -> bool:
        return False


class LeastCursors(Least, CursorCoordinator[int]):
    """The same with positions."""

    def restore(self, cursors: Any) -> None:
        """Begin anew."""

    def moved(self, metadata: int) -> dict[str, Any]:
        return {}


def test_all_but_two_methods_may_be_left_out() -> None:
    for coordinator in (Least(), LeastCursors()):
        assert not coordinator.has_pending_input()
        assert coordinator.lag() == {}
        coordinator.limit_batches(10)
        coordinator.success(1)
        coordinator.close()
