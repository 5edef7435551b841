"""Counters: to whom belongs what is counted, what a stage tells of it, and which of several reports counts."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from threading import Thread

import pyarrow as pa
import pytest

from trident_py import counter
from trident_py.errors import CounterError
from trident_py.worker.counters import (
    COUNTS,
    Counter,
    CountingStage,
    CountScope,
    NodeCounts,
    UncountedStage,
    building,
    built_node,
    count_scope,
    counting_at,
    counting_for,
    drawn_at,
    is_counting,
    of_reports,
    summed,
)
from trident_py.worker.failures import TaskFailed

FIELDS = pa.schema([pa.field("n", pa.int64(), nullable=False)])


def batches(*numbers: int) -> Iterator[pa.RecordBatch]:
    """A batch of one row for each."""
    return (pa.record_batch([pa.array([number])], schema=FIELDS) for number in numbers)


def counted(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A stage that counts its rows, if they are positive."""
    for each in rows:
        if each.column(0)[0].as_py() > 0:
            counter("rows").add()
        yield each


def report(partition: int, count: int, txid: int | None = None) -> str:
    return json.dumps({"partition": partition, "counts": [[txid, "node 1", {"rows": count}]]})


def test_what_is_counted_belongs_to_the_transaction_and_to_the_node_that_it_is_called_for() -> None:
    with count_scope(CountScope(node="a")) as scope:
        assert is_counting()
        counter("rows").add()
        counting_for(7)
        counting_at("b")
        counter("rows").add(3)
        counter("rows").add(-1)
        counter("lines").add(2)
    assert scope.counts == {(None, "a"): {"rows": 1}, (7, "b"): {"rows": 2, "lines": 2}}
    assert scope.by_node == {"a": NodeCounts({"rows": 1}), "b": NodeCounts({"rows": 2, "lines": 2})}


def test_outside_of_a_transaction_it_is_an_error_on_other_threads_too() -> None:
    found: list[BaseException] = []

    def count() -> None:
        try:
            counter("rows").add()
        except CounterError as error:
            found.append(error)

    count()
    with count_scope(CountScope()) as scope:
        another = Thread(target=count)
        another.start()
        another.join()
    assert not scope.counts
    assert not is_counting()
    assert [str(error).partition("; ")[0] for error in found] == [
        "counter('rows').add was called outside of a transaction"
    ] * 2
    counting_at("nobody")
    counting_for(7)


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_name_is_a_string(name: object) -> None:
    with pytest.raises(TypeError, match="the name of a counter"):
        counter(name)  # type: ignore[arg-type]


def test_only_whole_numbers_are_counted() -> None:
    with count_scope(CountScope()), pytest.raises(TypeError, match=r"counter\('rows'\) counts whole numbers, not 0.5"):
        counter("rows").add(0.5)  # type: ignore[arg-type]


def test_a_counter_travels() -> None:
    assert pickle.loads(pickle.dumps(counter("rows"))) == Counter("rows")  # noqa: S301 - our own


def test_while_a_value_is_drawn_it_is_its_maker_that_counts() -> None:
    def made() -> Iterator[int]:
        for number in range(2):
            counter("made").add()
            yield number

    with count_scope(CountScope()) as scope:
        for _ in drawn_at("reader", made()):
            counting_at("user")
            counter("used").add()
    assert scope.by_node == {"reader": NodeCounts({"made": 2}), "user": NodeCounts({"used": 2})}


def test_what_is_built_knows_its_node() -> None:
    assert built_node() == ""
    with building("node 1"):
        assert built_node() == "node 1"
    assert built_node() == ""


def test_a_stage_gives_its_rows_and_in_a_last_one_what_it_has_counted() -> None:
    given = list(CountingStage(counted, FIELDS)(batches(1, 2, -1)))
    assert [each.schema.names for each in given] == [["n", COUNTS]] * 4
    assert [each.column("n").to_pylist() for each in given] == [[1], [2], [-1], [None]]
    assert [each.column(COUNTS).null_count for each in given] == [1, 1, 1, 0]
    assert of_reports(given[-1].column(COUNTS).to_pylist()) == {(None, ""): NodeCounts({"rows": 2})}


def test_a_stage_that_counts_nothing_tells_nothing() -> None:
    assert len(list(CountingStage(counted, FIELDS)(batches(-1, -2)))) == 2


def test_where_nobody_listens_a_stage_ends_as_soon_as_it_counts() -> None:
    assert len(list(UncountedStage(counted)(batches(-1, -2)))) == 2
    given = UncountedStage(counted)(batches(-1, 1, -1))
    assert next(given).column("n").to_pylist() == [-1]
    with pytest.raises(TaskFailed) as raised:
        next(given)
    assert raised.value.failure.counts
    assert not raised.value.failure.kind.counts


def test_a_task_that_ran_twice_counts_once() -> None:
    reports = [report(0, 5), report(1, 7), report(0, 6)]
    assert of_reports(reports) == {(None, "node 1"): NodeCounts({"rows": 12}, tasks=2)}


def test_transactions_are_told_apart() -> None:
    found = of_reports([report(0, 5, txid=7), report(1, 1, txid=8), report(2, 1, txid=7)])
    assert found == {(7, "node 1"): NodeCounts({"rows": 6}, tasks=2), (8, "node 1"): NodeCounts({"rows": 1})}


def test_sums_are_by_name() -> None:
    assert summed({"a": 1, "b": 2}, {"b": -2, "c": 3}) == {"a": 1, "b": 0, "c": 3}
