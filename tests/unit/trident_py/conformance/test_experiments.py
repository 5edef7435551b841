"""Each experiment stops somebody, where it says so."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from trident_py import Count, FixedBatchSpout
from trident_py.conformance.experiments import every
from trident_py.conformance.play import Call
from trident_py.errors import TopologyError
from trident_py.testing import check_sink, check_spout, check_state


def test_a_focus_is_the_calls_of_its_methods_and_names_some() -> None:
    calls = [Call("recover"), Call("prepare"), Call("commit"), Call("prepare")]
    assert every("prepare", "recover")(calls) == [0, 1, 3]
    with pytest.raises(ValueError, match="stops nobody"):
        every()


CHECKS: list[Callable[..., Any]] = [
    partial(check_sink, schema="n int"),
    partial(check_state, schema="n int", aggregator=Count()),
    check_spout,
]


@pytest.mark.parametrize("check", CHECKS)
def test_a_check_of_an_object_instead_of_a_function_that_makes_it_is_refused(check: Callable[..., Any]) -> None:
    with pytest.raises(TopologyError, match=r"check_s.* takes a function that makes a s.*, such as a lambda"):
        check(FixedBatchSpout("n int", 1), lambda: [])
