from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from coordinators.values.attempt import TransactionAttempt
from trident_py.engine.rows.row_engine import rows_of_branch, spark_needed
from trident_py.errors import TopologyError
from trident_py.graph.graph import RowFlow
from trident_py.operations.builtin import Count, Sum
from trident_py.planner.plan import plan
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.memory import MemoryMapState
from trident_py.streams.stream import Stream
from trident_py.topology import TridentTopology

NUMBERS = "n int"


def declared(declare: Callable[[Stream], object]) -> TridentTopology:
    topology = TridentTopology("t")
    declare(topology.new_stream("numbers", FixedBatchSpout(NUMBERS, 2, (1,))))
    return topology


NOTHING: dict[str, Callable[[Stream], object]] = {
    "rows": lambda stream: stream.map(lambda row: (row.n,), "m int").filter(bool).project("m"),
    "aggregate": lambda stream: stream.group_by("n").aggregate(Count(), "count").aggregate(Sum("count"), "sum"),
    "state": lambda stream: stream.group_by("n").persistent_aggregate(MemoryMapState.factory(), Count(), "count"),
    "partitions": lambda stream: stream.shuffle().parallelism_hint(3).map(lambda row: (row.n,), "m int"),
}


@pytest.mark.parametrize("what", NOTHING)
def test_what_python_can_do_needs_no_spark(what: str) -> None:
    assert spark_needed(plan(declared(NOTHING[what])._graph)) is None


def test_what_only_spark_can_do_is_named_the_first_of_it() -> None:
    topology = declared(
        lambda stream: stream.map(lambda row: (row.n,), "m int").transform(lambda frame: frame).filter("m > 1")
    )
    needed = spark_needed(plan(topology._graph))
    assert needed is not None
    assert needed.startswith("transform(")


def test_a_function_that_cannot_be_copied_is_refused() -> None:
    lock = threading.Lock()
    with pytest.raises(TopologyError, match=r"topology 't', peek\(.*it can't be pickled into tasks: .*lock"):
        spark_needed(plan(declared(lambda stream: stream.peek(lambda row: lock.locked()))._graph))


def test_a_branch_makes_of_a_batch_what_its_state_takes() -> None:
    def ask(*_: Any) -> RowFlow:
        raise AssertionError

    planned = plan(declared(NOTHING["state"])._graph)
    given = {"numbers": arrow_table([(1,), (2,), (1,)], schema_of(NUMBERS)).to_batches()}
    made = rows_of_branch(planned.branches[0], given, TransactionAttempt(1, 0), ask).table()
    assert made.to_pydict() == {"n": [1, 2], "count": [2, 1]}
