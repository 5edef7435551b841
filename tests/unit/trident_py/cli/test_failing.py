"""What `trident status` tells of failures, from the record alone."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from coordinators.record.record import CoordinatorRecord, Failure
from coordinators.record.store import TopologyIdentity
from coordinators.status.description import TopologyDescription
from coordinators.values.canonical import Json
from trident_py.cli.failing import details, failing, headline

LAST = datetime(2026, 11, 22, 14, 57, 58).astimezone()


def failing_with(failure: Failure, current_txid: int = 5) -> list[dict[str, Any]]:
    metadata: dict[int, dict[str, Json]] = {5: {"orders": [2000, 2500]}}
    record = CoordinatorRecord(epoch=3, current_txid=current_txid, metadata=metadata, failures={5: failure})
    identity = TopologyIdentity(name="orders", uuid="u", incarnation=1)
    status = TopologyDescription(identity=identity, epoch=3, leader=None, record=record).status(at=0.0)
    return failing(status, record.definition)


def poisoned(**changes: Any) -> Failure:
    fields = {
        "count": 5,
        "attempt_id": 5,
        "cause": "ValueError: invalid literal for int() with base 10: 'three'\nin map(price at orders2.py:59)",
        "since": LAST.timestamp() - 60,
        "last": LAST.timestamp(),
        "tries": 6,
    }
    return Failure(**{**fields, **changes})


def test_after_a_failure_it_says_which_transaction_why_since_when_how_often_and_what_to_do() -> None:
    (entry,) = failing_with(poisoned())
    assert headline(entry, is_led=False, now=LAST + timedelta(minutes=2)) == "failed 14:57:58, 2 min ago"
    assert list(details(entry, is_led=False, now=LAST)) == [
        "transaction 5, tried 6 times since 14:56:58: ValueError: invalid literal for int() with base 10: 'three'",
        "  in map(price at orders2.py:59)",
        "batch of spout 'orders': [2000, 2500]",
        "→ fix the code or the data and start the topology again: it continues with transaction 5",
    ]


def test_on_another_day_the_date_is_told_too() -> None:
    (entry,) = failing_with(poisoned())
    shown = headline(entry, is_led=False, now=LAST + timedelta(days=3))
    assert shown == "failed 2026-11-22 14:57:58, 3 d ago"


def test_while_it_runs_a_failure_is_tried_again() -> None:
    (entry,) = failing_with(poisoned(count=1, tries=1))
    assert headline(entry, is_led=True, now=LAST).startswith("failing 14:57:58, 0 s ago")
    first, *_, way_out = details(entry, is_led=True, now=LAST)
    assert first.startswith("transaction 5, tried once since")
    assert way_out.startswith("→ it is tried again")


def test_whoever_waits_for_a_source_says_for_which_and_since_when() -> None:
    (entry,) = failing_with(poisoned(count=0, spout="orders", cause="URLError: refused", tries=7))
    assert headline(entry, is_led=True, now=LAST) == "waiting for orders since 14:56:58"
    first, *_, way_out = details(entry, is_led=True, now=LAST)
    assert first == "transaction 5, waits for spout 'orders', tried 7 times since 14:56:58: URLError: refused"
    assert way_out == "→ check the source of 'orders'; it is tried again, at least each half minute"
    assert "when the source of 'orders' can be reached" in list(details(entry, is_led=False, now=LAST))[-1]


def test_what_is_committed_by_now_has_not_failed() -> None:
    assert failing_with(poisoned(), current_txid=6) == []


def test_programs_get_the_same() -> None:
    (entry,) = failing_with(poisoned())
    assert json.loads(json.dumps(entry)) == entry
    assert (entry["txid"], entry["tries"], entry["definition"]) == (5, 6, {"orders": [2000, 2500]})
