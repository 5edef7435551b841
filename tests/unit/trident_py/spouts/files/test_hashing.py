from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trident_py.spouts.files.content import hash_bytes, seed_of

SEED = seed_of("a.txt", "utf-8")
PAGE = 8 * (1 << 16)


@given(st.binary(max_size=80), st.integers(0, 3 * PAGE), st.lists(st.integers(0, 80), max_size=4))
def test_parts_add_up_to_the_whole(data: bytes, position: int, cuts: list[int]) -> None:
    ends = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    parts = [hash_bytes(SEED, position + a, data[a:b]) for a, b in itertools.pairwise(ends)]
    assert sum(parts) % 2**64 == hash_bytes(SEED, position, data)


def test_a_block_over_several_pages_is_hashed_as_in_parts() -> None:
    data = random.Random(1).randbytes(3 * PAGE)
    cut = PAGE + 11
    parts = hash_bytes(SEED, 5, data[:cut]) + hash_bytes(SEED, 5 + cut, data[cut:])
    assert parts % 2**64 == hash_bytes(SEED, 5, data)


@given(st.binary(min_size=1, max_size=40), st.data())
def test_another_byte_makes_another_hash(data: bytes, drawn: st.DataObject) -> None:
    at = drawn.draw(st.integers(0, len(data) - 1))
    other = bytes([(data[at] + drawn.draw(st.integers(1, 255))) % 256])
    assert hash_bytes(SEED, 3, data) != hash_bytes(SEED, 3, data[:at] + other + data[at + 1 :])


@pytest.mark.parametrize(
    ("seed", "position", "data"),
    [
        (SEED, 0, b"two words\none two\n"),
        (SEED, 8, b"one two\ntwo words\n"),
        (seed_of("b.txt", "utf-8"), 0, b"one two\ntwo words\n"),
        (seed_of("a.txtu", "tf-8"), 0, b"one two\ntwo words\n"),
    ],
    ids=["lines that changed places", "elsewhere", "another file", "names that run together"],
)
def test_the_same_bytes_elsewhere_make_another_hash(seed: int, position: int, data: bytes) -> None:
    assert hash_bytes(seed, position, data) != hash_bytes(SEED, 0, b"one two\ntwo words\n")


def test_the_hash_stays_what_it_is() -> None:
    # It is stored with a transaction, and compared after an upgrade.
    assert (seed_of("a.txt"), hash_bytes(seed_of("a.txt"), 3, b"one two\n")) == (
        14487794477240457685,
        1467367334632091171,
    )
