"""Every combination of what a look can show, with up to two other files."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, permutations, product
from typing import Any

import pytest
from attrs import evolve

from trident_py.spouts.files.whereabouts import Here, Likeness, Other, Sighting, Whereabouts, find

BOOLEANS: Any = (False, True)
ENDS = {Whereabouts.LOST, Whereabouts.DOUBTFUL, Whereabouts.ALIKE, Whereabouts.TAKEN_TWICE, Whereabouts.UNIDENTIFIED}

OTHERS = [
    Other(path="other", likeness=likeness, has_hint=hint, is_followed=followed, is_still=still, is_evidence=evidence)
    for likeness, hint, followed, still, evidence in product(Likeness, *[BOOLEANS] * 4)
]


def sightings() -> Iterator[Sighting]:
    for count in range(3):
        for others in combinations_with_replacement(OTHERS, count):
            for here, identified, unread, missed in product(Here, *[BOOLEANS] * 3):
                yield Sighting(
                    here=here,
                    is_identified=identified,
                    is_unread=unread,
                    was_missed=missed,
                    others=[evolve(other, path=f"{number}") for number, other in enumerate(others)],
                )


@pytest.fixture(scope="module")
def decided() -> list[tuple[Sighting, Whereabouts, Other | None]]:
    return [(sighting, *find(sighting)) for sighting in sightings()]


Decided = list[tuple[Sighting, Whereabouts, Other | None]]


def test_equal_hashes_are_the_same_file_unless_another_one_has_the_hint_too(decided: Decided) -> None:
    for sighting, whereabouts, other in decided:
        rivals = [
            each
            for each in sighting.others
            if each.likeness is Likeness.EQUAL and each.has_hint and not each.is_followed
        ]
        if sighting.here is Here.SAME:
            assert whereabouts is (Whereabouts.MOVED if rivals else Whereabouts.HERE)
            assert not rivals or other in rivals


def test_a_file_is_never_where_other_bytes_are(decided: Decided) -> None:
    for sighting, whereabouts, other in decided:
        if whereabouts is Whereabouts.HERE:
            assert sighting.here is Here.SAME
        if whereabouts is Whereabouts.MOVED:
            assert other
            assert other.likeness is Likeness.EQUAL
            assert not other.is_followed


def test_what_stands_there_is_new_only_where_nothing_that_was_seen_is_missing(decided: Decided) -> None:
    for sighting, whereabouts, _ in decided:
        if whereabouts is Whereabouts.READ:
            hinted = [each for each in sighting.others if each.has_hint and each.likeness is Likeness.EQUAL]
            assert not sighting.is_unread or hinted  # under another name it is followed by itself
            assert sighting.here in (Here.OTHER, Here.NOTHING)


def test_nothing_begins_anew_while_an_unknown_file_may_have_its_lines(decided: Decided) -> None:
    for sighting, whereabouts, _ in decided:
        if whereabouts is Whereabouts.READ and sighting.here is Here.OTHER and sighting.is_identified:
            hinted = [each for each in sighting.others if each.has_hint and each.likeness is Likeness.EQUAL]
            assert hinted or not sighting.others


def test_a_file_that_may_be_being_renamed_at_this_moment_is_looked_for_once_more(decided: Decided) -> None:
    for sighting, whereabouts, _ in decided:
        if sighting.here is Here.NOTHING and not sighting.was_missed and sighting.is_identified:
            assert whereabouts not in ENDS
            assert whereabouts is not Whereabouts.READ or any(each.is_followed for each in sighting.others)


def test_waiting_comes_to_an_end_once_nothing_changes(decided: Decided) -> None:
    for sighting, whereabouts, _ in decided:
        if sighting.here is not Here.CHANGING and all(each.is_still for each in sighting.others):
            assert whereabouts is not Whereabouts.WAIT or (sighting.here is Here.NOTHING and not sighting.was_missed)


def test_what_is_decided_depends_on_the_order_only_among_equals(decided: Decided) -> None:
    for sighting, whereabouts, _ in decided:
        for others in permutations(sighting.others):
            assert find(evolve(sighting, others=others))[0] is whereabouts


def test_the_end_of_a_copy_says_which(decided: Decided) -> None:
    for sighting, whereabouts, other in decided:
        if whereabouts in (Whereabouts.TAKEN_TWICE, Whereabouts.DOUBTFUL):
            assert other in sighting.others
            assert sighting.here is Here.OTHER
