"""Which branches may be run for several transactions at once, and what goes in together coming out apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from tests.unit.trident_py.declared import Append, Nowhere
from tests.unit.trident_py.worker.aggregators import Longest, Total
from trident_py.interfaces.operations import Aggregator
from trident_py.operations.builtin import Count, FilterNull, Max, Sum
from trident_py.planner.plan import plan
from trident_py.planner.sharing import SharedBranch, shared
from trident_py.sinks.kafka.sink import KafkaSink
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.memory import MemoryMapState
from trident_py.streams.stream import Stream
from trident_py.topology import TridentTopology


class Rows(Aggregator[list[int]]):
    def init(self, batch_id: Any, collector: Any) -> list[int]:
        return [0]

    def aggregate(self, value: list[int], row: Any, collector: Any) -> None:
        value[0] += 1

    def complete(self, value: list[int], collector: Any) -> None:
        collector.emit((value[0],))


def identity(frame: DataFrame) -> DataFrame:
    return frame


def branch(declare: Callable[[Stream], object]) -> SharedBranch | None:
    """The shared form of the first branch of what is declared."""
    topology = TridentTopology("shared")
    declare(topology.new_stream("words", FixedBatchSpout("word string, n int", 2)))
    return shared(plan(topology._graph).branches[0], asked)


def asked(condition: Any, fields: StructType) -> bool:
    """Spark's part is tested with Spark."""
    assert fields.names == ["word", "n"]
    return bool(condition == "n > 1")


def counted(stream: Any) -> object:
    return stream.group_by("word").persistent_aggregate(MemoryMapState.factory(), Count(), "count")


ALONE = {
    "transform": lambda words: counted(words.transform(identity, "word string, n int")),
    "a condition of Spark's": lambda words: counted(words.filter("rand() > 0.5")),
    "a sink that Spark writes to": lambda words: words.write_to(Nowhere()),
    "a loose end": lambda words: words.map(lambda row: row, "word string, n int"),
    "by partition": lambda words: counted(words.partition_aggregate(Count(), "rows").map(lambda r: r, "word string")),
    "one value a batch": lambda words: words.aggregate(Sum("n"), "total").partition_persist(
        MemoryMapState.factory(), Append(), ["total"]
    ),
    "the best of a batch": lambda words: counted(words.max_by("n")),
    "told of its batch": lambda words: (
        words.group_by("word")
        .aggregate(Rows(), "rows bigint", in_fields=["n"])
        .partition_persist(MemoryMapState.factory(), Append(), ["rows"])
    ),
    "in tasks of its own": lambda words: counted(words.map(lambda row: row, "word string, n int").resources(cpus=2)),
    "every row everywhere": lambda words: counted(words.broadcast()),
}
TOGETHER = {
    "row functions": lambda words: counted(words.flat_map(lambda row: [row], "word string, n int").peek(print)),
    "a condition of Spark's that looks at a row": lambda words: counted(words.filter("n > 1")),
    "native filters": lambda words: counted(words.filter(FilterNull("word")).project("word")),
    "a reducer": lambda words: words.group_by("word").persistent_aggregate(
        MemoryMapState.factory(), Total(), "x bigint"
    ),
    "a combiner of one's own": lambda words: words.persistent_aggregate(
        MemoryMapState.factory(), Longest(), "x string"
    ),
    "two aggregations": lambda words: (
        words.group_by("word")
        .aggregate(Max("n"), "most")
        .group_by("most")
        .persistent_aggregate(MemoryMapState.factory(), Count(), "count")
    ),
    "an updater": lambda words: words.partition_persist(MemoryMapState.factory(), Append(), ["n"]),
    "a sink that has the rows on the driver": lambda words: words.map(lambda row: row.word, "value string").write_to(
        KafkaSink("host:9092", "words")
    ),
    "places that nothing depends on": lambda words: counted(words.partition_by("word").shuffle().parallelism_hint(3)),
}


@pytest.mark.parametrize("declare", ALONE.values(), ids=ALONE)
def test_what_looks_at_a_batch_as_a_whole_is_run_alone(declare: Callable[[Stream], object]) -> None:
    try:
        found = branch(declare)
    except TypeError as error:
        pytest.fail(str(error))
    assert found is None


@pytest.mark.parametrize("declare", TOGETHER.values(), ids=TOGETHER)
def test_what_goes_row_by_row_and_by_key_is_shared(declare: Callable[[Stream], object]) -> None:
    found = branch(declare)
    assert found is not None
    assert found.source.names == ["_transaction", "word", "n"]


def test_streams_that_meet_are_run_alone() -> None:
    topology = TridentTopology("shared")
    left, right = (topology.new_stream(name, FixedBatchSpout("word string, n int", 2)) for name in ("l", "r"))
    counted(topology.merge(left, right))
    assert shared(plan(topology._graph).branches[0], asked) is None


def test_the_field_in_front_has_a_name_that_no_other_has() -> None:
    topology = TridentTopology("shared")
    stream = topology.new_stream("words", FixedBatchSpout("_transaction string, word string", 2))
    counted(stream.map(lambda row: row, "word string, `_transaction-2` int"))
    found = shared(plan(topology._graph).branches[0], asked)
    assert found is not None
    assert found.source.names == ["_transaction-3", "_transaction", "word"]


@given(batches=st.lists(st.lists(st.text(max_size=3), max_size=5), min_size=1, max_size=6), mix=st.randoms())
def test_what_goes_in_together_comes_out_apart(batches: list[list[str]], mix: Any) -> None:
    found = branch(TOGETHER["an updater"])
    assert found is not None
    tables = [
        pa.table({"word": pa.array(words, pa.string()), "n": pa.array(range(len(words)), pa.int32())})
        for words in batches
    ]
    rows = found.together(dict(enumerate(tables, 7)))
    order = list(range(rows.num_rows))
    mix.shuffle(order)
    apart = found.apart(rows.take(pa.array(order, pa.int64())), range(7, 7 + len(batches)))
    assert {txid: sorted(zip(*part.to_pydict().values(), strict=True)) for txid, part in apart.items()} == {
        txid: sorted(zip(words, range(len(words)), strict=True)) for txid, words in enumerate(batches, 7)
    }


@pytest.mark.parametrize("txids", [[7, 8, 9], [7, 2**40, 2**62]], ids=["close", "far apart"])
def test_rows_of_a_transaction_come_out_in_the_order_of_its_batch(txids: list[int]) -> None:
    found = branch(TOGETHER["an updater"])
    assert found is not None
    mixed = [txids[n * n % 3] for n in range(20_000)]
    made = pa.table({"_transaction": mixed, "n": pa.array(range(20_000), pa.int32())})
    for txid, part in found.apart(made, txids).items():
        assert part["n"].to_pylist() == [n for n, of in enumerate(mixed) if of == txid]


def test_of_one_value_in_all_a_batch_without_rows_gives_the_zero() -> None:
    found = branch(TOGETHER["a combiner of one's own"])
    assert found is not None
    made = pa.table({"_transaction": pa.array([1], pa.int64()), "x": pa.array(["long"])})
    apart = found.apart(made, [0, 1, 2])
    assert {txid: part.to_pydict() for txid, part in apart.items()} == {
        0: {"x": [""]},
        1: {"x": ["long"]},
        2: {"x": [""]},
    }


@pytest.mark.parametrize("number", [3, None])
def test_rows_of_nobody_are_an_error(number: int | None) -> None:
    found = branch(TOGETHER["an updater"])
    assert found is not None
    made = pa.table({"_transaction": pa.array([0, number], pa.int64()), "n": pa.array([1, 2], pa.int32())})
    with pytest.raises(RuntimeError, match=r"a job for the transactions \[0, 1, 2\] gave rows of"):
        found.apart(made, range(3))
