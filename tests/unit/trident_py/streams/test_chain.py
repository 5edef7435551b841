"""Chains of aggregators, as they are declared; see `trident_py.streams.chain`."""

from __future__ import annotations

import pytest

from tests.topologies import fields
from tests.unit.trident_py.worker.aggregators import Longest, Sorted
from trident_py.errors import TopologyError
from trident_py.operations.builtin import Count, Sum
from trident_py.streams.stream import Stream


def test_s14_a_chain_has_the_group_fields_and_then_all_results(words: Stream) -> None:
    chain = words.chained_agg().aggregate(Count(), "count").aggregate(Sum("n"), "total")
    assert fields(chain.chain_end()) == "count bigint, total bigint"
    grouped = words.group_by("word").chained_agg().partition_aggregate(Sorted(), "size int, words array<string>")
    longer = grouped.partition_aggregate(Longest(), "longest string", in_fields="word")
    assert fields(longer.chain_end()) == "word string, size int, words array<string>, longest string"
    assert fields(grouped.chain_end()) == "word string, size int, words array<string>"
    assert not hasattr(words.chained_agg(), "chain_end")
    assert not hasattr(chain, "partition_aggregate")
    assert not hasattr(grouped, "aggregate")


def test_a_chain_behind_unknown_fields_still_knows_its_own(words: Stream) -> None:
    chain = words.transform(lambda frame: frame).group_by("any").chained_agg().aggregate(Sum("x"), "total")
    assert chain.chain_end().schema is None
    with pytest.raises(TopologyError, match="a field 'total'; each needs a name of its own"):
        chain.aggregate(Count(), "total")
