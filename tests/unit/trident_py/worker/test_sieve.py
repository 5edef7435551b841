"""The pass that finds the rows over which a row function raises."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from trident_py import FixedBatchSpout, MemoryMapState, Stream, Sum, TridentTopology
from trident_py.planner.plan import plan
from trident_py.worker.pipeline import CHUNK_ROWS
from trident_py.worker.sieve import POSITION, Sieve, positioned


def positive(row: Any) -> tuple[int]:
    if row.n < 0:
        raise ValueError(f"{row.n} is negative")
    return (row.n,)


def numbers(topology: TridentTopology, name: str = "numbers") -> Stream:
    return topology.new_stream(name, FixedBatchSpout("n bigint", 2, (1,)))


def sieves(stream: Stream) -> dict[str, list[str]]:
    """The titles of the row functions of the branch that ends in a sum of ``stream``, by spout."""
    stream.persistent_aggregate(MemoryMapState.factory(), Sum("n"), "total")
    (branch,) = plan(stream._graph).branches
    return {spout: [each.title for each in found] for spout, found in branch.row_functions().items()}


def found(stream: Stream, *values: int) -> list[int]:
    stream.persistent_aggregate(MemoryMapState.factory(), Sum("n"), "total")
    (branch,) = plan(stream._graph).branches
    ((_, pipelines),) = branch.row_functions().items()
    rows = positioned(pa.table({"n": pa.array(values, pa.int64())}))
    return [row for part in Sieve(pipelines)(iter(rows.to_batches())) for row in part.column(POSITION).to_pylist()]


def test_the_rows_over_which_any_function_of_a_chain_raises_are_found() -> None:
    stream = numbers(TridentTopology("t")).map(positive, "n bigint")
    stream = stream.flat_map(lambda row: [(12 // (row.n - 3),)] * 2, "n bigint").filter(
        lambda row: bool(1 // (row.n + 1))
    )
    assert found(stream, 4, -1, 3, 4, 100, 4, 1, -7) == [1, 2, 7]


def test_positions_are_those_in_the_whole_batch() -> None:
    stream = numbers(TridentTopology("t")).map(positive, "n bigint")
    values = [1] * (2 * CHUNK_ROWS + 3)
    values[0] = values[CHUNK_ROWS + 1] = values[-1] = -1
    assert found(stream, *values) == [0, CHUNK_ROWS + 1, len(values) - 1]
    assert found(numbers(TridentTopology("t")).map(positive, "n bigint"), 1, 2) == []


def test_a_value_that_does_not_fit_the_declared_type_is_found() -> None:
    stream = numbers(TridentTopology("t")).map(lambda row: ("a" if row.n == 2 else row.n,), "n bigint")
    assert found(stream, 1, 2, 3) == [1]


def test_the_chain_ends_where_rows_of_several_streams_or_batches_meet() -> None:
    topology = TridentTopology("t")
    left, right = numbers(topology, "left").map(positive, "n bigint"), numbers(topology, "right")
    assert sieves(topology.merge(left, right).map(positive, "n bigint")) == {
        "left": ["map(positive at test_sieve.py:15)"]
    }
    assert sieves(numbers(TridentTopology("t"))) == {}
