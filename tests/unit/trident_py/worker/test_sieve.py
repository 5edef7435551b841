"""The pass that finds the rows over which a row function raises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from attrs import frozen

from trident_py import FixedBatchSpout, MemoryMapState, Stream, Sum, TridentTopology, counter
from trident_py.planner.plan import plan
from trident_py.rows.schema import schema_of
from trident_py.worker.counters import CountScope, count_scope
from trident_py.worker.failures import TaskFailed
from trident_py.worker.pipeline import CHUNK_ROWS
from trident_py.worker.sieve import BAD, POSITION, Quarantine, Raised, Sieve, hashes, positioned


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
        "left": ["map(positive at test_sieve.py:21)"]
    }
    assert sieves(numbers(TridentTopology("t"))) == {}


@frozen
class Negative:
    """Raises with this text over a negative number."""

    text: str

    def __call__(self, row: Any) -> tuple[int]:
        counter("tried").add(1)
        if row.n < 0:
            raise ValueError(self.text)
        return (row.n,)


def quarantine(
    text: str = "negative", fixed: Sequence[tuple[int, Raised]] | None = None, most: int = 1000
) -> Quarantine:
    stream = numbers(TridentTopology("t")).filter(lambda row: row.n != 0).map(Negative(text), "n bigint")
    stream.persistent_aggregate(MemoryMapState.factory(), Sum("n"), "total")
    (branch,) = plan(stream._graph).branches
    ((_, (pipeline,)),) = branch.row_functions().items()
    return Quarantine(pipeline=pipeline, fixed=fixed, most=most)


def table(*values: int) -> pa.Table:
    return pa.table({"n": pa.array(values, pa.int64())})


def passed(stage: Quarantine, *values: int) -> tuple[list[int], list[dict[str, Any]]]:
    """The good rows and the bad ones; the last of the latter is the number of all."""
    with count_scope(CountScope()):
        made = pa.Table.from_batches(stage(table(*values).to_batches())).to_pylist()
    return [row["n"] for row in made if row[BAD] is None], [row[BAD] for row in made if row[BAD]]


def test_good_rows_pass_in_their_order_and_each_bad_one_names_what_raised() -> None:
    values = [n if n % 500 else -n - 1 for n in range(1, 3000)]
    good, bad = passed(quarantine(), *values)
    assert good == [n for n in values if n > 0]
    assert [each["row"] and each["row"]["n"] for each in bad] == [-501, -1001, -1501, -2001, -2501, None]
    assert bad[-1]["_tried"] == len(values)
    assert bad[0]["_operation"].startswith("map(")
    assert bad[0]["_error"].startswith("ValueError: negative\nin map(")


def test_what_functions_count_over_rows_that_raise_is_not_counted() -> None:
    with count_scope(CountScope()) as scope:
        list(quarantine()(table(*range(1, 100), -1).to_batches()))
    ((counts),) = scope.counts.values()
    assert counts == {"tried": 99}


def test_fixed_rows_are_left_out_although_they_pass_and_as_often_as_they_were() -> None:
    (known,) = hashes(table(5), schema_of("n bigint"))
    stage = quarantine(fixed=[(known, Raised("map(f)", "then")), (known, Raised("map(f)", "too"))])
    good, bad = passed(stage, 5, 1, 5, 5)
    assert good == [1, 5]
    assert [(each["row"]["n"], each["_error"]) for each in bad[:-1]] == [(5, "then"), (5, "too")]


def test_another_row_that_raises_than_the_fixed_ones_fails() -> None:
    with pytest.raises(ValueError, match="negative"):
        passed(quarantine(fixed=[]), 1, -1)


def test_more_bad_rows_than_allowed_fail_the_task_at_once() -> None:
    with pytest.raises(TaskFailed, match=r"more than 2 rows make .*: ValueError: negative in map\("):
        passed(quarantine(most=2), 1, -1, -1, -1)
