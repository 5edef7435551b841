"""A report tells what was found, and fails by itself where too little was tried."""

from __future__ import annotations

from trident_py.conformance.report import Findings, Rule


def findings(*, kills: int) -> Findings:
    found = Findings()
    found.reached = {("commit", "sink.py", 3), ("commit", "sink.py", 4)}
    found.killed, found.kills = {("commit", "sink.py", 3)}, kills
    return found


def test_a_report_with_fewer_kills_than_lines_fails_and_names_the_lines() -> None:
    report = findings(kills=1).report("sink")
    assert not report.ok
    assert not report
    (violation,) = report.violations
    assert violation.rule is Rule.KILLED_EVERYWHERE
    assert "commit() at sink.py:4" in violation.history
    assert "sink.py:3" not in violation.history


def test_a_line_that_nobody_was_killed_at_fails_the_report_however_many_died_elsewhere() -> None:
    assert [each.rule for each in findings(kills=9).report("sink").violations] == [Rule.KILLED_EVERYWHERE]


def test_a_check_that_was_cut_short_by_what_it_found_does_not_complain_of_that_too() -> None:
    found = findings(kills=1)
    found.note(Rule.FENCED, ["it", "is", "seen"])
    report = found.report("sink", complete=False)
    assert [each.rule for each in report.violations] == [Rule.FENCED]


def test_of_the_histories_that_break_a_rule_the_shortest_is_kept_and_the_first_of_those() -> None:
    found = Findings()
    for steps in (["a", "b", "c"], ["d", "e"], ["f", "g"]):
        found.note(Rule.FENCED, steps)
    (violation,) = found.report("sink").violations
    assert violation.history == "   1  d\n   2  e"
    assert "fenced: once recover() has returned" in str(violation)
