from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.trident_py.history.told import PROGRAM, committed, emitted, ended, leading
from trident_py.engine.monitoring.listeners import Listeners
from trident_py.errors import TridentError
from trident_py.interfaces.config import TridentConfig
from trident_py.web.live import LiveTopology


def test_until_a_topology_has_started_its_page_says_so(tmp_path: Path) -> None:
    shown = LiveTopology("wc", TridentConfig(state_dir=tmp_path), PROGRAM, lambda: None)
    assert shown.snapshot().status["state"] == "starting"
    assert shown.elsewhere() is None
    with pytest.raises(TridentError, match="just starting; try again"):
        shown.answer("count", "", 1.0)


def test_what_listeners_are_told_is_shown_and_measured(tmp_path: Path) -> None:
    shown = LiveTopology("wc", TridentConfig(state_dir=tmp_path), PROGRAM, lambda: None)
    listeners = shown.listening(Listeners())
    for event in (leading(), emitted("1:0"), committed("1:0"), emitted("2:0"), ended()):
        listeners.tell(event)
    listeners.close()
    assert [(each.txid, each.last.outcome) for each in shown.snapshot().transactions] == [
        (1, "committed"),
        (2, "abandoned"),
    ]
    assert [each.txid for each in shown.last(1, failed=False)] == [2]
    assert shown.last(10, failed=True) == []
    assert shown.transaction(1).last.outcome == "committed"
    assert b'trident_transactions_total{trident_outcome="committed",trident_topology_name="wc"} 1.0' in shown.metrics()
