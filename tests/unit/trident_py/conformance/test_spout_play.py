"""What a check of a spout expects of the batches that were committed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from trident_py.conformance.children import Nursery
from trident_py.conformance.play import Found
from trident_py.conformance.report import Findings, Rule
from trident_py.conformance.spout_play import Batch, SpoutPlay
from trident_py.interfaces.spouts import Replay

SOURCE = [(number, "a field that the source is not asked for") for number in range(8)]


def broken(*batches: Sequence[int], ordered: bool = True, in_batches: bool = True, ended: bool = True) -> Rule | None:
    play = SpoutPlay(
        cast("Nursery", None),
        Findings(),
        read_source=lambda: [row[:1] for row in SOURCE],
        replay=Replay.EXACT,
        ordered=ordered,
    )
    play.ended = ended
    for txid, numbers in enumerate(batches, 1):
        rows: list[tuple[Any, ...]] = [SOURCE[number] for number in numbers]
        play.stored.committed[txid] = Batch(rows, None, {}, in_batches)
    try:
        play.look()
    except Found as found:
        return found.rule
    return None


def test_batches_have_the_rows_of_a_source_once_and_in_order() -> None:
    assert broken(range(3), range(3, 8)) is None
    assert broken(range(3), range(4, 8)) is Rule.NO_ROW_LOST
    assert broken(range(3), range(2, 8)) is Rule.NO_ROW_TWICE
    assert broken(range(3, 8), range(3)) is Rule.IN_ORDER
    assert broken([1, 0, 2], range(3, 8)) is Rule.IN_ORDER


def test_the_rows_of_a_frame_have_an_order_among_batches_only() -> None:
    assert broken([1, 0, 2], range(3, 8), in_batches=False) is None
    assert broken([1, 0, 3], [2, *range(4, 8)], in_batches=False) is Rule.IN_ORDER


@pytest.mark.parametrize(("rows", "rule"), [([0, 4, 1, 5], None), ([0, 4, 0, 5], Rule.NO_ROW_TWICE)])
def test_the_first_batches_of_partitions_have_any_rows_but_none_twice(rows: Sequence[int], rule: Rule | None) -> None:
    assert broken(rows, ordered=False, ended=False) is rule


def test_the_first_batches_of_a_long_source_have_its_first_rows() -> None:
    assert broken(range(3), ended=False) is None
    assert broken([0, 2], ended=False) is Rule.NO_ROW_LOST
