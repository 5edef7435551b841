"""Simulated worlds in CI: seeds that are always the same, seeds that are always new, and every world at small scope."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulation.__main__ import main
from tests.simulation.gate import GATE, SCOPES, SEARCHED, SEED_GATE, explore_all, explored
from tests.simulation.rules import RULES, Rules
from tests.simulation.run import simulate

RULES_PAGE = Path(__file__).parents[2] / "docs/explanation/rules.md"
IS_CI = os.environ.get("CI", "").lower() == "true"
FIXED, NEW = (100, 50) if IS_CI else (60, 20)
LIKELY = (0, 22, 214)
"""Seeds that broke a gate when it was last looked; they save the search, which finds others if worlds have changed."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_no_seed_of_the_fixed_budget_breaks_a_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", str(FIXED), "--from", "0"]) == 0, capsys.readouterr().out


def test_no_new_seed_breaks_a_rule(capsys: pytest.CaptureFixture[str]) -> None:
    first = random.SystemRandom().randrange(10**6, 10**9)
    assert main(["--seeds", str(NEW), "--from", str(first)]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("seed", range(5))
def test_the_same_seed_gives_the_same_log(seed: int) -> None:
    first, second = simulate(seed), simulate(seed)
    assert first.log == second.log
    assert first.hash != simulate(seed + 1).hash


def test_a_seed_that_breaks_a_rule_is_shown_with_the_way_to_replay_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.simulation.__main__.simulate", lambda seed: simulate(seed, Rules(["all reports"])))
    assert main(["--seed", "0"]) == 1
    shown = capsys.readouterr().out
    assert "seed 0 breaks " in shown
    assert "python -m tests.simulation --seed 0" in shown


@pytest.mark.long
@pytest.mark.parametrize("off", SEED_GATE, ids=" and ".join)
def test_some_seed_breaks_where_a_rule_is_off(off: tuple[str, ...]) -> None:
    outcomes = (simulate(seed, Rules(off), SEED_GATE[off]) for seed in (*LIKELY, *range(600)))
    assert any(outcome.violation for outcome in outcomes)


def test_every_rule_is_in_a_gate() -> None:
    assert {*GATE, *(rule for rules in SEED_GATE for rule in rules)} == set(RULES)
    assert set(GATE.values()) <= {*SCOPES, *SEARCHED}


def test_the_page_of_rules_lists_each_with_what_shows_that_it_is_needed() -> None:
    page = RULES_PAGE.read_text()
    for rule, says in RULES.items():
        assert f"| {rule} | {says} | {GATE.get(rule, 'a seed')}" in page


@pytest.mark.parametrize("rule", ["runs in order", "known groups", "reads between commits"])
def test_a_rule_of_the_lane_is_needed_behind_a_takeover_too(rule: str) -> None:
    assert explored((GATE[rule], rule)).violation is not None


@pytest.mark.slow
def test_every_world_at_small_scope_is_safe_and_no_rule_can_be_left_out() -> None:
    for found in explore_all(os.cpu_count() or 1):
        assert found.is_as_wanted, found
