"""The checker of the faults sees what it is there for: each rule is broken once, and reported by its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from coordinators.record.record import Bindings, CoordinatorRecord
from tests.faults.check import ASKED, RULES, Entry, Evidence, Logged, violations

LINES = "to be or\nnot to be\n"


@pytest.fixture
def evidence(tmp_path: Path) -> Evidence:
    """Two transactions, a takeover after the first one's commit, which is replayed; nothing is wrong."""
    file = tmp_path / "words.txt"
    file.write_text(LINES)
    first: list[Any] = [[str(file), 0, 9]]
    second: list[Any] = [[str(file), 9, 19]]
    return Evidence(
        files=[file],
        counts={"to": 2, "be": 2, "or": 1, "not": 1},
        ledger=[
            Entry(1, 2, 1, {"to": 1, "be": 1, "or": 1}, first),
            Entry(2, 2, 0, {"not": 1, "to": 1, "be": 1}, second),
        ],
        log=[Logged(None, 1, None), Logged(1, 1, 0), Logged(None, 2, None), Logged(1, 2, 1), Logged(2, 2, 0)],
        book=(2, 2),
        staging=["_counts_2_3_0"],
        record=CoordinatorRecord(2, current_txid=3, metadata={2: {"lines": second}}, success_upto=2),
        events=[
            {"kind": "leads", "pid": 1, "current": 1},
            {"kind": "emitted", "pid": 1, "txid": 1, "attempt": 0, "splits": first},
            {"kind": "leads", "pid": 2, "current": 1},
            {"kind": "emitted", "pid": 2, "txid": 1, "attempt": 1, "splits": first},
            {"kind": "record", "pid": 2, "current": 2},
            {"kind": "success", "pid": 2, "txid": 1},
            {"kind": "ended", "pid": 1, "error": "FencedError", "message": ""},
            {"kind": "record", "pid": 2, "current": 3},
            {"kind": "success", "pid": 2, "txid": 2},
            {"kind": "answer", "pid": 2, "began": 1, "at": 2, "count": 0},
        ],
    )


Breaking = Callable[[Evidence], dict[str, Any]]


def answer(count: int, began: int = 1) -> dict[str, Any]:
    return {"kind": "answer", "pid": 1, "began": began, "at": began + 1, "count": count}


def asked(evidence: Evidence) -> list[Entry]:
    """A ledger in which each transaction brings in one of what is asked for."""
    return [evolve(entry, deltas={ASKED: 1}) for entry in evidence.ledger]


BROKEN: list[tuple[str, Breaking]] = [
    ("S1 reference", lambda it: {"counts": {**it.counts, "be": 1}}),
    ("S1 reference", lambda it: {"counts": {**it.counts, "be": 3}}),
    ("S1 reference", lambda it: {"ledger": [evolve(it.ledger[0], deltas={"to": 3}), it.ledger[1]]}),
    ("S2 once", lambda it: {"ledger": [it.ledger[0], *it.ledger]}),
    ("S3 tiling", lambda it: {"ledger": [it.ledger[0], evolve(it.ledger[1], txid=3)]}),
    ("S3 tiling", lambda it: {"ledger": it.ledger[:1]}),
    ("S4 order", lambda it: {"log": [*it.log, Logged(4, 2, 0)]}),
    ("S4 order", lambda it: {"log": [*it.log, Logged(None, 1, None)]}),
    ("S5 success", lambda it: {"events": [it.events[0], it.events[8]]}),
    ("S5 success", lambda it: {"events": it.events[:5]}),
    ("S5 success", lambda it: {"events": [*it.events[:5], *it.events[7:]]}),
    ("S6 fence", lambda it: {"log": [*it.log, Logged(3, 1, 5)]}),
    ("S6 fence", lambda it: {"events": [*it.events, {"kind": "ended", "error": "KeyError", "message": ""}]}),
    ("S7 attempt", lambda it: {"log": [*it.log, Logged(2, 2, 0)]}),
    ("S8 pin", lambda it: {"events": [*it.events, {**it.events[1], "splits": [["other", 0, 1]]}]}),
    ("S9 retention", lambda it: {"record": evolve(it.record, metadata={})}),
    ("S11 regress", lambda it: {"book": (1, 2)}),
    ("S11 regress", lambda it: {"book": (6, 2)}),
    ("S12 residue", lambda it: {"staging": ["_counts_1_2_0"]}),
    ("S14 answers", lambda it: {"events": [*it.events, answer(1)]}),
    ("S14 answers", lambda it: {"ledger": asked(it), "events": [*it.events, answer(2), answer(1, began=3)]}),
]


def test_nothing_is_reported_where_nothing_is_wrong(evidence: Evidence) -> None:
    assert violations(evidence) == []


@pytest.mark.parametrize(("rule", "breaking"), BROKEN)
def test_a_broken_rule_is_reported_by_its_name(rule: str, breaking: Breaking, evidence: Evidence) -> None:
    broken = violations(evolve(evidence, **breaking(evidence)))
    assert rule in {violation.rule for violation in broken}, list(map(str, broken))


def test_of_windows_the_whole_ones_are_counted(evidence: Evidence) -> None:
    first, second = evidence.ledger
    whole = {"to": 1, "be": 1}
    windows = evolve(
        evidence, per_window=2, counts=whole, ledger=[evolve(first, deltas={}), evolve(second, deltas=whole)]
    )
    assert violations(windows) == []
    assert "S1 reference" in {violation.rule for violation in violations(evolve(windows, counts={"to": 1}))}


def test_words_that_wait_are_counted_when_their_window_closes_without_input(evidence: Evidence) -> None:
    first, second = evidence.ledger
    counts = dict(evidence.counts)
    timed = evolve(
        evidence,
        is_timed=True,
        ledger=[evolve(first, deltas={}), evolve(second, deltas={}), Entry(3, 2, 0, counts, [])],
        log=[*evidence.log, Logged(3, 2, 0)],
        book=(3, 2),
        record=evolve(evidence.record, current_txid=4, bindings=Bindings((3,))),
    )
    assert violations(timed) == []
    twice = evolve(timed, ledger=[evolve(first, deltas={"be": 1}), *timed.ledger[1:]])
    assert {violation.rule for violation in violations(twice)} == {"S1 reference"}


def test_every_rule_is_seen_to_break() -> None:
    assert {rule for rule, _ in BROKEN} == set(RULES)
