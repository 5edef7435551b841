"""The branches that resident tasks can run, and what they make of rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from trident_py.engine.resident.programs import shipped
from trident_py.interfaces.operations import Function
from trident_py.operations.builtin import Count
from trident_py.planner.plan import plan
from trident_py.planner.sharing import SharedBranch, shared
from trident_py.rows.row import rows_of
from trident_py.sinks.kafka.sink import KafkaSink
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.memory import MemoryMapState
from trident_py.streams.stream import Stream
from trident_py.topology import TridentTopology
from trident_py.worker.resident import Program


class Echo(Function):
    def execute(self, row: Any, collector: Any) -> None:
        collector.emit((row.word,))


def shared_branches(*declare: Callable[[Stream], object]) -> Mapping[int, SharedBranch]:
    topology = TridentTopology("resident")
    words = topology.new_stream("words", FixedBatchSpout("word string, n int", 2))
    for each in declare:
        each(words)
    found = (shared(branch, lambda *_: True) for branch in plan(topology._graph).branches)
    return {number: branch for number, branch in enumerate(found) if branch}


def counted(stream: Any) -> object:
    return stream.group_by("word").persistent_aggregate(MemoryMapState.factory(), Count(), "count")


def written(stream: Any) -> object:
    return stream.write_to(KafkaSink("localhost:1", "topic"))


CASES: dict[str, tuple[Callable[[Any], object], list[tuple[Any, ...]]]] = {
    "a count": (counted, [(5, "a", 2), (6, "a", 1)]),
    "a sink of rows": (
        lambda s: written(s.map(lambda row: (row.word * 2,), "value string")),
        [(5, "aa"), (5, "aa"), (6, "aa")],
    ),
}


def rows(*rows: tuple[int, str, int]) -> list[pa.RecordBatch]:
    """Return rows with a txid."""
    kinds = [pa.int64(), pa.string(), pa.int32()]
    columns = [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    return pa.table(columns, names=["txid", "word", "n"]).to_batches()  # type: ignore[no-any-return]


def made(program: Program, *given: tuple[int, str, int]) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in rows_of(program(rows(*given))))


@pytest.mark.parametrize("case", CASES)
def test_a_program_keeps_the_transactions_apart(case: str) -> None:
    declare, expected = CASES[case]
    ((_, branch),) = shipped(shared_branches(declare))
    assert made(cloudpickle.loads(branch.program), (5, "a", 1), (5, "a", 2), (6, "a", 3)) == expected
    assert branch.keeps_nothing


def test_a_program_may_run_again_with_other_rows() -> None:
    ((_, branch),) = shipped(shared_branches(counted))
    program = cloudpickle.loads(branch.program)
    assert made(program, (5, "a", 1)) == [(5, "a", 1)]
    assert made(program, (6, "b", 1)) == [(6, "b", 1)]


def test_a_function_that_can_t_be_pickled_is_left_to_its_first_job() -> None:
    lock = threading.Lock()
    branches = shared_branches(lambda s: counted(s.filter(lambda row: lock.locked())), counted)
    assert [number for number, _ in shipped(branches)] == [1]


def test_only_branches_without_spark_are_sent_and_objects_are_copied() -> None:
    branches = shared_branches(
        lambda s: counted(s.filter("n > 1")), lambda s: counted(s.each("word", Echo(), "echo string").project("word"))
    )
    assert {number: each.keeps_nothing for number, each in shipped(branches)} == {1: False}
