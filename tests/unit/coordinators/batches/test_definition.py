"""One definition: what an attempt may go by, and what has to be asked for again."""

from __future__ import annotations

from itertools import product

import pytest

from coordinators.batches.definitions import Definition, SpoutPart, Stage
from coordinators.values.canonical import Fingerprint

ATTEMPTED = SpoutPart(metadata=1, moves=None, stands=True)
NEW = SpoutPart(metadata=2, moves={"at": 2}, stands=True, bytes=1)


def test_it_stands_when_no_spout_has_to_be_asked() -> None:
    open_part = SpoutPart(metadata=3)
    assert Definition({"a": NEW, "b": ATTEMPTED}).stands_for(["a", "b"])
    assert not Definition({"a": NEW, "b": open_part}).stands_for(["a", "b"])
    assert not Definition({"a": NEW}).stands_for(["a", "b"])


def test_what_is_stored_is_what_an_attempt_was_made_with() -> None:
    both = Definition({"a": NEW, "b": ATTEMPTED})
    assert both.metadata == {"a": 2, "b": 1}
    assert both.attempted_metadata == {"b": 1}
    assert both.bytes == 1
    assert not both.is_new
    assert Definition({"a": NEW}).is_new
    assert not Definition({"a": NEW}, Stage.ATTEMPTED).is_new


def test_only_fingerprints_that_are_known_are_told() -> None:
    known = SpoutPart(metadata=1, fingerprint=Fingerprint(1, 2))
    assert Definition({"a": known, "b": ATTEMPTED}).fingerprints == {"a": Fingerprint(1, 2)}


@pytest.mark.parametrize(("is_exact", "was_attempted"), list(product((True, False), repeat=2)))
def test_opened_again_only_what_an_exact_spout_has_said_and_nobody_attempted_stands(
    is_exact: bool, was_attempted: bool
) -> None:
    part = SpoutPart(metadata=1, moves=None if was_attempted else {}, stands=True, resolved={"at": 1})
    definition = Definition({"a": part}, Stage.ATTEMPTED)
    definition.reopen({"a"} if is_exact else set())
    assert definition.stage is Stage.OPEN
    assert part.stands == (is_exact and not was_attempted)
    assert part.resolved == {}


BAD = {
    "an attempt without a spout's part": Definition({"a": ATTEMPTED}, Stage.ATTEMPTED),
    "an attempt whose cursors have not moved": Definition({"a": NEW, "b": ATTEMPTED}, Stage.ATTEMPTED),
    "moved by an attempt that is not live": Definition(
        {"a": SpoutPart(metadata=1, moves=None, stands=True, resolved={"at": 1}), "b": ATTEMPTED}, Stage.CLOSED
    ),
    "an exact spout that is asked twice": Definition({"a": SpoutPart(metadata=1, moves={})}),
}


@pytest.mark.parametrize("case", BAD)
def test_what_can_not_be_is_a_defect_of_ours(case: str) -> None:
    with pytest.raises(AssertionError):
        BAD[case].check(["a", "b"], ["a"])


def test_no_transaction_is_further_than_the_one_before_it() -> None:
    def parts(stage: Stage) -> dict[str, SpoutPart]:
        return {"a": NEW if stage < Stage.ATTEMPTED else ATTEMPTED}

    for before, now in product(Stage, Stage):
        definition, earlier = Definition(parts(now), now), Definition(parts(before), before)
        if now <= before:
            definition.check_behind(earlier, 7)
        else:
            with pytest.raises(AssertionError, match="7 is ahead"):
                definition.check_behind(earlier, 7)
