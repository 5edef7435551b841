"""By what a part of a topology is compared with what was declared before."""

from __future__ import annotations

from trident_py.interfaces.identity import Identified, class_names
from trident_py.interfaces.spouts import ITridentSpout
from trident_py.spouts.fixed import FixedBatchSpout


class Own(FixedBatchSpout):
    """Derived by a user."""


def test_a_thing_is_known_by_its_class_and_those_it_is_derived_from_without_the_interfaces() -> None:
    assert class_names(Own("n int", 1)) == ["Own", "FixedBatchSpout"]
    assert issubclass(Own, ITridentSpout)


def test_whoever_says_nothing_is_compared_by_the_class_alone() -> None:
    thing = Identified()
    assert thing.identity() == thing.details() == {}
    assert class_names(thing) == ["Identified"]
