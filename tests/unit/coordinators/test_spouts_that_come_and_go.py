"""Spouts that are new, left out or back, while transactions are under way: what the driver makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define

from coordinators.values.batch_coordinator import CursorCoordinator
from tests.unit.coordinators.world import Numbers, World


@define
class Offsets(Numbers, CursorCoordinator[Any]):
    """`Numbers` whose cursor is the last txid that it has defined."""

    def restore(self, cursors: Mapping[str, Any]) -> None:
        pass

    def moved(self, metadata: Any) -> Mapping[str, Any]:
        return {"upto": metadata[0]}


def cursors(world: World) -> dict[str, dict[str, Any]]:
    return {spout: dict(each.items()) for spout, each in world.driver.record.cursors.items()}


def begun_with_one_spout() -> World:
    """Transactions 1 to 3 are under way when the process ends."""
    world = World(spouts={"a": Offsets()}).start(max_spout_pending=3)
    world.run_until_quiet()
    assert cursors(world) == {"a": {"upto": 3}}
    return world


def test_a_spout_that_joins_transactions_under_way_moves_its_cursors_with_them() -> None:
    first = begun_with_one_spout()
    world = World(coordination=first.coordination, spouts={"a": Offsets(), "b": Offsets()}).start(max_spout_pending=3)
    assert world.run_until_quiet() == ["BATCH 1:1", "BATCH 2:1", "BATCH 3:1"]
    assert cursors(world) == {"a": {"upto": 3}, "b": {"upto": 3}}
    assert world.driver.record.metadata[2] == {"a": [2, "first"], "b": [2, "first"]}


def test_what_a_spout_defines_for_a_transaction_under_way_is_durable_with_its_cursor_or_not_at_all() -> None:
    first = begun_with_one_spout()
    world = World(coordination=first.coordination, spouts={"a": Offsets(), "b": Offsets()}).start(max_spout_pending=1)
    assert world.run_until_quiet() == ["BATCH 1:1"]
    assert cursors(world)["b"] == {"upto": 1}
    assert [sorted(world.driver.record.metadata[txid]) for txid in (1, 2, 3)] == [["a", "b"], ["a"], ["a"]]
