from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trident_py.spouts.rest import REST_RATIO, REST_SECONDS_MAX, Rest


class World:
    """A clock that goes on while somebody sleeps or looks."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept = 0.0

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.now += seconds
        self.slept += seconds


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=20))
def test_looks_have_a_share_of_the_time_or_come_a_quarter_of_a_second_apart(looks: list[tuple[float, float]]) -> None:
    world = World()
    rest = Rest(lambda: world.now, world.sleep)
    ended = took = 0.0
    for number, (pause, length) in enumerate(looks):
        world.now += pause
        with rest.looking():
            since = world.now - ended
            assert number == 0 or since >= min(REST_SECONDS_MAX, REST_RATIO * took) - 1e-9
            world.now += length
        ended, took = world.now, length


def test_a_look_that_fails_is_rested_from_too() -> None:
    world = World()
    rest = Rest(lambda: world.now, world.sleep)

    def look() -> None:
        with rest.looking():
            world.now += 0.01
            raise OSError("away")

    with pytest.raises(OSError, match="away"):
        look()
    with rest.looking():
        assert world.slept == pytest.approx(0.04)
