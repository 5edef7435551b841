from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinators.values.attempt import TransactionAttempt
from trident_py.errors import TopologyError
from trident_py.graph.graph import RowFlow
from trident_py.graph.sample import Sample, sample_of
from trident_py.rows.row import rows_of
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.topology import TridentTopology

SCHEMA = schema_of("word string, n int, tags map<string, double>")
WORDS = [("a", n % 3, {"x": 0.5}) for n in range(300)]


def batches(rows: Sequence[Any], size: int) -> Iterable[pa.RecordBatch]:
    yield from arrow_table(rows, SCHEMA).to_batches(max_chunksize=size)


def kept(sample: Sample, rows: Sequence[Any], attempt: TransactionAttempt | None, size: int = 7) -> list[Any]:
    """What is kept on the driver, where rows come in batches of some size."""
    flow = sample.on_rows([RowFlow.of(list(batches(rows, size)), SCHEMA)], attempt)
    return rows_of(flow.table())


def counted(rows: Iterable[Any]) -> Counter[str]:
    return Counter(map(repr, rows))


@given(st.integers(), st.integers(1, 400), st.randoms(use_true_random=False))
def test_the_same_rows_are_kept_in_each_replay_in_whatever_order_and_pieces(
    seed: int, size: int, shuffled: Random
) -> None:
    words = WORDS[:60]
    sample, other = sample_of("sample", 0.3, seed), list(words)
    shuffled.shuffle(other)
    first = kept(sample, words, TransactionAttempt(7, 0))
    assert counted(kept(sample, other, TransactionAttempt(7, 3), size)) == counted(first)


def test_about_the_fraction_of_rows_is_kept_also_of_equal_ones() -> None:
    for fraction in (0.1, 0.5, 0.9):
        sample = sample_of("sample", fraction, 42)
        found = [len(kept(sample, WORDS, TransactionAttempt(txid, 0))) / len(WORDS) for txid in range(1, 21)]
        assert abs(sum(found) / 20 - fraction) < 0.03
        assert len(set(found)) > 1  # another transaction, others


def test_another_seed_keeps_others_and_zero_and_one_keep_none_and_all() -> None:
    attempt = TransactionAttempt(1, 0)
    assert kept(sample_of("sample", 0.5, 1), WORDS, attempt) != kept(sample_of("sample", 0.5, 2), WORDS, attempt)
    assert kept(sample_of("sample", 0, 1), WORDS, attempt) == []
    assert kept(sample_of("sample", 1, -1), WORDS, attempt) == WORDS


def test_what_is_kept_stays_in_order() -> None:
    rows = [("a", n, None) for n in range(100)]
    numbers = [row.n for row in kept(sample_of("sample", 0.5, 3), rows, None)]
    assert numbers == sorted(numbers)
    assert numbers


@pytest.mark.parametrize(("fraction", "seed"), [(-0.1, 1), (1.1, 1), (float("nan"), 1), (True, 1), ("0.5", 1)])
def test_a_fraction_is_a_number_from_0_to_1(fraction: Any, seed: int) -> None:
    words = TridentTopology("samples").new_stream("s", FixedBatchSpout("word string", 1))
    with pytest.raises(TopologyError, match=r"topology 'samples', sample\(.*a fraction is a number from 0 to 1, not"):
        words.sample(fraction, seed)


@pytest.mark.parametrize("seed", [None, 1.5, "1", True])
def test_a_seed_is_an_int(seed: Any) -> None:
    words = TridentTopology("samples").new_stream("s", FixedBatchSpout("word string", 1))
    with pytest.raises(TopologyError, match="a seed is an int, not"):
        words.sample(0.5, seed)


def test_the_plan_says_that_python_does_it() -> None:
    topology = TridentTopology("samples")
    topology.new_stream("s", FixedBatchSpout("word string", 1)).sample(0.5, 42)
    assert [line.split() for line in topology.explain().splitlines() if "sample(" in line] == [
        ["sample(0.5,", "42)", "Python", "word", "string"]
    ]
