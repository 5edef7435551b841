"""Rows of TridentTopology and of what is visible from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.trident_py.test_streams import EDGES, WORDS, Batch, same
from trident_py import (
    BatchCoordinator,
    Count,
    Emitter,
    FixedBatchSpout,
    IBatchSpout,
    ITridentSpout,
    MemoryMapState,
    Stream,
    TopologyError,
    TransactionAttempt,
    TridentCollector,
    TridentTopology,
)
from trident_py.planner.plan import plan


class Both(IBatchSpout, ITridentSpout[None]):
    """A source of two kinds."""

    output_schema = "n int"

    def emit_batch(self, batch_id: int, collector: TridentCollector) -> None:
        raise AssertionError("it is no batch spout")

    def get_coordinator(self, *_: object) -> BatchCoordinator[None]:
        raise AssertionError("nothing is started here")

    def get_emitter(self, *_: object) -> Emitter[None]:
        raise AssertionError("nothing is started here")


def test_T6_a_source_of_two_kinds_is_the_kind_that_says_more() -> None:
    topology, source = TridentTopology("both"), Both()
    topology.new_stream("numbers", source)
    (spout,) = plan(topology._graph).spouts
    assert spout.spout is source
    with pytest.raises(TopologyError, match=r"a spout is an instance of one of ITridentSpout, IBatchSpout, .*'lines'"):
        topology.new_stream("lines", "lines")  # type: ignore[arg-type]


@pytest.mark.spark
def test_T16_a_join_that_preserves_has_nulls_for_the_keys_of_a_missing_partner(batch: Batch) -> None:
    left, right = EDGES[:4], [*EDGES[3:], ("b", 7)]

    def declare(how: Any) -> Any:
        def declared(topology: TridentTopology, one: Stream, other: Stream) -> Stream:
            return topology.join(one, "word", other, "key", ["w", "n", "m", "k"], how, preserve=True)

        return declared

    inner = [(word, n, m, key) for word, n in left for key, m in right if word == key]
    only_left = [(word, n, None, None) for word, n in left if word not in {key for key, _ in right}]
    only_right = [(None, None, m, key) for key, m in right if key not in {word for word, _ in left}]
    theirs = [(m, key) for key, m in right]
    for how, expected in (
        ("inner", inner),
        ("left", [*inner, *only_left]),
        ("outer", [*inner, *only_left, *only_right]),
    ):
        assert same(batch(declare(how), (WORDS, left), ("m int, key string", theirs)), expected)


def test_T18_a_drpc_stream_can_t_be_joined_with_a_stream_of_a_spout() -> None:
    topology = TridentTopology("mixed")
    words = topology.new_stream("words", FixedBatchSpout("word string", 1))
    asked, other = topology.new_drpc_stream("count"), topology.new_drpc_stream("other")
    declarations: list[Callable[[], Stream]] = [
        lambda: topology.join(asked, "args", words, "word", ["word"]),
        lambda: topology.merge(words, asked),
        lambda: topology.merge(asked, other),
    ]
    for declare in declarations:
        with pytest.raises(TopologyError, match=r"'mixed', .*a DRPC stream can't be combined with streams of spouts"):
            declare()
    assert topology.join(asked, "args", asked, "args", ["word"]).schema is not None


def declared() -> TridentTopology:
    topology = TridentTopology("wordcount")
    words = topology.new_stream("lines", FixedBatchSpout("word string, n int", 1))
    counts = words.group_by("word").persistent_aggregate(MemoryMapState.factory(), Count(), "count")
    topology.new_drpc_stream("all").map(lambda row: (len(row.args),), "n int")
    topology.merge(words, words.filter("n > 1")).name("both").shuffle().persistent_aggregate(
        MemoryMapState.factory(), Count(), "total"
    )
    counts.new_values_stream().project("count")
    return topology


def test_T20_L3_a_topology_is_planned_the_same_way_however_often() -> None:
    once = declared()
    explained, names = once.explain(), [branch.name for branch in plan(once._graph).branches]
    for _ in range(10):
        again = declared()
        assert again.explain() == once.explain() == explained
        assert [branch.name for branch in plan(again._graph).branches] == names
        assert [branch.name for branch in plan(once._graph).branches] == names


def test_P12_an_attempt_is_a_value() -> None:
    attempt = TransactionAttempt(7, 0)
    assert attempt == TransactionAttempt(txid=7, attempt_id=0)
    assert hash(attempt) == hash(TransactionAttempt(7, 0))
    assert str(attempt) == "7:0"
    assert attempt not in (TransactionAttempt(7, 1), TransactionAttempt(8, 0))
    later = [TransactionAttempt(7, 2), TransactionAttempt(8, 0)]
    assert sorted([*reversed(later), attempt]) == [attempt, *later]
