"""What a wish makes of what stands, and how both are stored."""

from __future__ import annotations

import json

import pytest

from coordinators.record.wishes import NOTHING_STANDS, REASON_CHARS_MAX, Action, Hold, Outcome, Rate, Standing, Wish
from coordinators.values.errors import ConfigError

SLOW = Standing(rate=Rate(batches_per_second=2.0, pending=3))


@pytest.mark.parametrize(
    ("stood", "wish", "stands"),
    [
        (NOTHING_STANDS, Wish("a", Action.PAUSE), Standing(Hold.PAUSED)),
        (Standing(Hold.DRAINING), Wish("a", Action.PAUSE), Standing(Hold.PAUSED)),
        (Standing(Hold.PAUSED), Wish("a", Action.DRAIN), Standing(Hold.DRAINING)),
        (SLOW, Wish("a", Action.PAUSE), Standing(Hold.PAUSED, SLOW.rate)),
        (Standing(Hold.PAUSED, SLOW.rate), Wish("a", Action.RESUME), NOTHING_STANDS),
        (Standing(Hold.DRAINING), Wish("a", Action.RESUME), NOTHING_STANDS),
        (SLOW, Wish("a", Action.RATE, Rate(pending=1)), Standing(rate=Rate(batches_per_second=2.0, pending=1))),
        (SLOW, Wish("a", None), SLOW),
        (NOTHING_STANDS, Wish("a", Action.PAUSE, reason="why"), Standing(Hold.PAUSED, reason="why")),
        (Standing(Hold.PAUSED, reason="why"), Wish("a", Action.RESUME, reason="done"), NOTHING_STANDS),
    ],
)
def test_what_stands_after_a_wish(stood: Standing, wish: Wish, stands: Standing) -> None:
    assert stood.after(wish) == stands


@pytest.mark.parametrize(
    "wish", [Wish("a", action) for action in Action] + [Wish("b", Action.RATE, SLOW.rate, "a reason")]
)
def test_a_wish_comes_back_equal(wish: Wish) -> None:
    assert Wish.parse(wish.id, wish.text) == wish


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "null",
        '{"action": "quarantine"}',
        '{"action": "rate", "furlongs": 1}',
        '{"action": "rate", "pending": 0}',
        '{"action": "rate", "pending": true}',
        '{"action": "rate", "batches_per_second": -1}',
        '{"action": "rate", "batches_per_second": Infinity}',
        '{"action": "rate", "batches_per_second": 1' + "0" * 401 + "}",
        '{"action": "rate", "batches_per_second": 5e-324}',
        '{"action": "rate", "max_batch": 9223372036854775808}',
        "[" * 100_000,
        '{"action": "pause", "reason": "\\ud800"}',
        '{"action": "pause", "reason": "M\\udcfcller"}',
        '{"action": "pause", "reason": "a\\nb"}',
        '{"action": "pause", "reason": "' + "x" * 501 + '"}',
    ],
)
def test_a_wish_that_no_leader_can_carry_out_is_one_without_an_action(text: str) -> None:
    assert Wish.parse("a", text) == Wish("a", None)


@pytest.mark.parametrize("standing", [NOTHING_STANDS, SLOW, Standing(Hold.DRAINING, SLOW.rate, "why")])
def test_what_stands_comes_back_equal_with_the_outcome_that_tells_of_it(standing: Standing) -> None:
    assert Standing.from_json(json.loads(json.dumps(standing.to_json()))) == standing
    for action in (None, Action.RATE):
        outcome = Outcome("a", action, standing, 3)
        assert Outcome.from_json(json.loads(json.dumps(outcome.to_json()))) == outcome


@pytest.mark.parametrize("rate", [Rate(pending=0), Rate(batches_per_second=0), Rate(batches_per_second=float("nan"))])
def test_a_rate_that_is_none_is_refused(rate: Rate) -> None:
    with pytest.raises(ConfigError, match=r"must be a .*, not (0|nan)"):
        rate.check()


def test_a_rate_says_how_far_apart_batches_are() -> None:
    assert Rate().interval == 0
    assert Rate(batches_per_second=4).interval == 0.25


@pytest.mark.parametrize("reason", ["M\udcfcller", "\x1b]0;title\x07", "two\nlines", "x" * (REASON_CHARS_MAX + 1)])
def test_a_reason_that_is_no_line_of_text_is_refused_and_shown_escaped(reason: str) -> None:
    with pytest.raises(ConfigError, match="a reason is one line") as refusal:
        Wish("a", Action.PAUSE, reason=reason).check()
    assert str(refusal.value).isprintable()
