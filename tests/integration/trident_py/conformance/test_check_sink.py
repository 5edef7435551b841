"""Sinks are condemned by the rule that they break, and passed where they break none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples.json_sink import JsonFiles
from tests.integration.trident_py.conformance import sinks_after_bugs as sinks
from trident_py.conformance.report import Rule
from trident_py.testing import Report, check_sink

pytestmark = pytest.mark.spark

SCHEMA = "word string, n bigint"


def checked(sink: type[sinks.Table], path: Path) -> Report:
    return check_sink(lambda: sink(path), lambda: sinks.read_table(path), schema=SCHEMA)


@pytest.mark.slow
def test_a_sink_that_is_right_passes_and_was_killed_at_each_of_its_lines(spark: SparkSession, tmp_path: Path) -> None:
    report = checked(sinks.RightTable, tmp_path / "words.db")
    assert report.ok, str(report)
    assert report.kills >= report.lines > 15
    assert report.pauses > 0
    assert str(report).startswith("sink: ok")


@pytest.mark.slow
def test_a_sink_that_stages_rows_passes_whatever_becomes_of_other_attempts(spark: SparkSession, tmp_path: Path) -> None:
    report = checked(sinks.StagedTable, tmp_path / "words.db")
    assert report.ok, str(report)


@pytest.mark.slow
def test_a_sink_that_can_leave_a_transaction_out_passes(spark: SparkSession, tmp_path: Path) -> None:
    report = checked(sinks.LeavesOut, tmp_path / "words.db")
    assert report.ok, str(report)


@pytest.mark.slow
def test_a_sink_that_replaces_rows_passes(spark: SparkSession, tmp_path: Path) -> None:
    report = checked(sinks.Replaces, tmp_path / "words.db")
    assert report.ok, str(report)


@pytest.mark.slow
def test_a_sink_that_keeps_no_token_is_held_to_at_least_once(spark: SparkSession, tmp_path: Path) -> None:
    report = checked(sinks.AtLeastOnce, tmp_path / "words.db")
    assert report.ok, str(report)
    assert report.promise == "at-least-once"


@pytest.mark.slow
def test_two_checks_of_a_sink_give_the_same_report(spark: SparkSession, tmp_path: Path) -> None:
    one, other = (str(checked(sinks.DataThenToken, tmp_path / name)) for name in ("one.db", "other.db"))
    assert one == other


@pytest.mark.slow
def test_the_example_passes(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "words"

    def read() -> list[tuple[str, int]]:
        lines = [line for file in path.glob("*-*-*.json") for line in file.read_text().splitlines()]
        return [(row["word"], row["n"]) for row in map(json.loads, lines)]

    report = check_sink(lambda: JsonFiles(path), read, schema=SCHEMA)
    assert report.ok, str(report)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sink", "rule"),
    [
        (sinks.CommitsUnderAFreshName, Rule.COMMITTED_ONCE),
        (sinks.RemembersInMemory, Rule.TOKEN_NOT_BEHIND),
        (sinks.NamedByTheJob, Rule.TOKEN_NOT_BEHIND),
        (sinks.RestoresRowsOnly, Rule.COMMITTED_STAYS),
        (sinks.VersionOnly, Rule.FENCED),
        (sinks.InsertsOnly, Rule.ALL_OR_NOTHING),
        (sinks.DataThenToken, Rule.TOKEN_NOT_BEHIND),
        (sinks.TokenThenData, Rule.TOKEN_NOT_AHEAD),
        (sinks.IgnoresToken, Rule.COMMITTED_ONCE),
        (sinks.AbortsWhatIsCommitted, Rule.COMMITTED_STAYS),
        (sinks.SameTxidOnly, Rule.COMMITTED_ONCE),
        (sinks.ForgetsEmptyOnes, Rule.TOKEN_NOT_BEHIND),
        (sinks.VisibleWhenPrepared, Rule.COMMIT_FIRST),
        (sinks.EqualRowsOnce, Rule.COMMITTED_STAYS),
        (sinks.Waits, Rule.NOT_STUCK),
        (sinks.LosesReplays, Rule.COMMITTED_STAYS),
        (sinks.SaysThatItCan, Rule.LEFT_OUT),
        (sinks.KeepsWhatIsLeftOut, Rule.LEFT_OUT),
        (sinks.KeepsTheFirstAttempt, Rule.REPLACED),
    ],
)
def test_a_sink_after_a_bug_is_condemned_by_its_rule(
    spark: SparkSession, tmp_path: Path, sink: type[sinks.Table], rule: Rule
) -> None:
    report = checked(sink, tmp_path / "words.db")
    assert not report.ok
    assert rule in [violation.rule for violation in report.violations], str(report)
