"""What a topology declares, and by what two plans are told apart."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from coordinators.record.declarations import Declarations
from tests.unit.coordinators.comparing import (
    USUAL,
    spout,
    state,
)


@pytest.mark.parametrize(
    "other",
    [
        (spout(), state(), spout("more")),
        (spout(), state(aggregator=["Max"])),
        (spout(replay="opaque"), state()),
        (spout(), evolve(state(), way="lines > filter > persistent_aggregate")),
    ],
)
def test_another_plan_has_another_hash(other: Any) -> None:
    assert Declarations(other).plan != Declarations(USUAL).plan


def test_order_details_and_bases_are_no_part_of_the_plan() -> None:
    same = (state(), spout(details={"glob": "*"}, kind=["FileSpout", "Base"]))
    assert Declarations(same).plan == Declarations(USUAL).plan
