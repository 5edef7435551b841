"""A spout at work: its two halves are handed the positions that the record has."""

from __future__ import annotations

from typing import Any

from coordinators.record.record import CoordinatorRecord
from coordinators.values.cursors import Cursors
from tests.unit.trident_py.engine.driving import spout_of
from trident_py.interfaces.spouts import Emitter


class Silent(Emitter[Any]):
    def emit_batch(self, attempt: Any, metadata: Any, collector: Any) -> None: ...


def test_each_half_has_a_thread_that_is_called_after_the_spout() -> None:
    spout = spout_of(Silent(), "n int", "lines")
    assert spout.tx_id == "lines"
    assert spout.coordinating is not spout.emitting


def test_a_spout_that_the_record_does_not_know_begins_at_its_beginning() -> None:
    spout = spout_of(Silent(), "n int", "lines")
    spout.restore(CoordinatorRecord(epoch=1))
    spout.restore(CoordinatorRecord(epoch=2, current_txid=5, cursors={"lines": Cursors(), "others": Cursors()}))
