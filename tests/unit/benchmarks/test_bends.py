"""Where a line bends."""

from __future__ import annotations

from benchmarks.bends import Bend, described, first_bend

FIXED_AND_PROPORTIONAL = [(10.0, 50.0), (100.0, 51.0), (1_000.0, 52.0), (10_000.0, 70.0), (100_000.0, 700.0)]


def test_a_fixed_cost_that_is_outgrown_is_a_bend() -> None:
    bend = first_bend(FIXED_AND_PROPORTIONAL)
    assert bend is not None
    assert bend.x == 10_000
    assert str(bend) == "flat up to 10,000, then growing in proportion"


def test_a_line_that_turns_away_from_proportion_is_named() -> None:
    assert str(first_bend([(1, 1), (10, 10), (100, 1_000)])) == (
        "growing in proportion up to 10, then growing more than in proportion"
    )


def test_straight_lines_have_none() -> None:
    assert first_bend([(1, 3), (10, 30), (100, 300)]) is None
    assert described([(1, 3), (10, 30), (100, 300)]) == "growing in proportion throughout"
    assert described([(1, 30), (10, 31), (100, 29)]) == "flat throughout"
    assert described([(1, 100), (10, 10)]) == "falling throughout"


def test_noise_is_no_bend() -> None:
    assert first_bend([(1, 10), (10, 14), (100, 11), (1_000, 13)]) is None
    assert first_bend([(1, 83), (10, 150), (100, 109)]) is None


def test_a_point_has_no_direction() -> None:
    assert described([(1, 1)]) == "too few points"


def test_the_piece_after_a_bend_is_told_by_its_own_slope() -> None:
    assert first_bend([(1, 8), (2, 8), (4, 4)]) == Bend(2, 0.0, -1.0)
