"""Batches and requests by Python on the driver."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pyarrow as pa
import pytest

from trident_py.engine.plane.emitted import EmittedBatch, ReadRows, Splits
from trident_py.engine.rows.row_engine import in_memory, request_on_rows
from trident_py.graph.rowwise import flat_map_rows
from trident_py.rows.schema import schema_of
from trident_py.worker.failures import TaskFailed

NUMBERS = schema_of("n bigint")


def reading(split: int) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"more": ["x"] * split, "n": pa.array(range(split), pa.int32())})


def hashing(split: int) -> Generator[pa.RecordBatch, None, int]:
    yield from reading(split)
    return 2**63 + split


def failing(split: int) -> Iterator[pa.RecordBatch]:
    yield from reading(split)
    raise ValueError(f"split {split} is gone")


def batch(read: Any, **options: Any) -> EmittedBatch:
    table = pa.table({"n": pa.array([7], pa.int64())})
    return EmittedBatch(NUMBERS, (table, Splits((1, 2), read, **options)))


def test_what_tasks_would_read_is_read_in_order_and_has_the_declared_fields_and_types() -> None:
    read, _ = in_memory(batch(reading))
    assert read.table.to_pydict() == {"n": [7, 0, 0, 1]}
    assert read.is_settled


def test_what_readers_tell_of_their_rows_is_summed_as_tasks_would() -> None:
    read, notes = in_memory(batch(hashing, fingerprinting=True))
    [told] = [chunk for chunk in read.chunks if isinstance(chunk, ReadRows)]
    assert told.hash == (2 * 2**63 + 3) % 2**64 == 3
    assert notes == (str(2**63 + 1), str(2**63 + 2))


def test_what_a_reader_raises_is_told_as_by_a_task() -> None:
    with pytest.raises(TaskFailed, match="split 1 is gone"):
        in_memory(batch(failing))


def test_a_request_goes_through_an_operation_row_by_row() -> None:
    twice = flat_map_rows("flat_map(twice)", lambda row: [(row.n,), (row.n,)], "n bigint")
    assert list(request_on_rows(twice, [([(1,), (2,)], NUMBERS)])) == [(1,), (1,), (2,), (2,)]
    assert list(request_on_rows(twice, [([], NUMBERS)])) == []
