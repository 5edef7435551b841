from __future__ import annotations

import json

import pytest

from coordinators.record.wishes import Hold, Rate, Standing
from coordinators.status.candidate import Leader
from coordinators.status.status import TopologyStatus, Wait
from trident_py.errors import TridentError
from trident_py.web.facts import state_of, status_facts


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (TopologyStatus(topology="wc", epoch=1), "running"),
        (TopologyStatus(topology="wc"), "standing by"),
        (TopologyStatus(topology="wc", epoch=1, is_paused=True), "paused"),
        (TopologyStatus(topology="wc", epoch=1, standing=Standing(Hold.DRAINING)), "draining"),
        (TopologyStatus(topology="wc", epoch=1, is_active=False), "stopped"),
        (TopologyStatus(topology="wc", epoch=1, is_active=False, error=TridentError("why")), "failed"),
    ],
)
def test_a_topology_is_in_one_state(status: TopologyStatus, state: str) -> None:
    assert state_of(status) == state


def test_a_status_is_json_with_what_stands_and_who_leads() -> None:
    standing = Standing(Hold.PAUSED, Rate(pending=2), "a move")
    status = TopologyStatus(topology="wc", epoch=3, standing=standing, waits_for=(Wait("a lock", 7.0), Wait("input")))
    facts = status_facts(status, Leader("vm", 42, "2026-01-01T00:00:00+00:00"))
    assert json.loads(json.dumps(facts)) == facts
    assert (facts["hold"], facts["rate"], facts["reason"]) == ("paused", {"pending": 2}, "a move")
    assert facts["waits_for"] == [{"what": "a lock", "since": 7.0}, {"what": "input", "since": None}]
    assert facts["leader"] == {"host": "vm", "pid": 42, "since": "2026-01-01T00:00:00+00:00", "address": None}
