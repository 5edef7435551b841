"""What a spout emitted: how large it is, and by what a replay is compared with it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from coordinators.values.canonical import NO_ROWS, Fingerprint
from trident_py.engine.plane.emitted import SMALL_ROWS, EmittedBatch, ReadRows, ReportedOffsets, Splits, fingerprints_of
from trident_py.rows.schema import arrow_table, schema_of

NUMBERS = schema_of("n bigint")


def rows(*values: int | None) -> pa.Table:
    return arrow_table([(value,) for value in values], NUMBERS)


def splits(*, reports_offsets: bool = False) -> Splits:
    return Splits((1, 2), lambda split: iter(()), reports_offsets)


@given(st.lists(st.none() | st.integers(-9, 9), max_size=6), st.integers(0, 6))
def test_a_fingerprint_does_not_depend_on_how_rows_were_emitted(values: list[Any], cut: int) -> None:
    whole = EmittedBatch(NUMBERS, (rows(*values),))
    pieces = EmittedBatch(NUMBERS, (rows(*values[cut:]), rows(*values[:cut])))
    assert whole.fingerprint() == pieces.fingerprint()
    assert whole.known_rows == pieces.known_rows == whole.table.num_rows == len(values)


def test_what_tasks_read_has_the_fingerprint_that_they_tell() -> None:
    batch = EmittedBatch(NUMBERS, (splits(), rows(1)))
    assert batch.fingerprint() is None
    told = Fingerprint(2, 5, "rows")
    own = EmittedBatch(NUMBERS, (rows(1),)).fingerprint()
    assert own is not None
    assert batch.fingerprint(told) == own + told
    assert batch.tasks == 2


def test_what_a_reader_told_on_the_driver_stands_for_its_rows() -> None:
    batch = EmittedBatch(NUMBERS, (ReadRows(rows(1, 2), 7),))
    assert batch.fingerprint() == Fingerprint(2, 7, "read")
    assert batch.table == rows(1, 2)


def test_fingerprints_at_once_are_those_of_each_batch() -> None:
    emitted = [
        EmittedBatch(NUMBERS, (rows(1, 2),)),
        EmittedBatch(NUMBERS, (rows(),)),
        EmittedBatch(NUMBERS, (rows(3),)),
    ]
    others = [
        EmittedBatch(NUMBERS, (ReadRows(rows(1, 2), 7),)),
        EmittedBatch(NUMBERS, (rows(1), rows(2))),
        EmittedBatch(NUMBERS),
        EmittedBatch(NUMBERS, (rows(1),), is_sifted=True),
    ]
    for batches in (emitted, *([*emitted, other] for other in others)):
        assert fingerprints_of(batches) == [batch.fingerprint() for batch in batches]


def test_a_batch_is_small_where_it_is_in_memory_and_has_few_rows_and_bytes() -> None:
    def is_small(*chunks: Any) -> bool:
        return EmittedBatch(NUMBERS, chunks).is_small

    assert is_small()
    assert is_small(rows(*range(SMALL_ROWS)))
    assert not is_small(rows(*range(SMALL_ROWS)), rows(1))
    assert not is_small(splits())
    text = schema_of("text string")
    assert not EmittedBatch(text, (arrow_table([("x" * (1 << 20),)], text),)).is_small


def test_only_rows_in_memory_are_the_same_whenever_they_are_read() -> None:
    assert EmittedBatch(NUMBERS, (rows(1), ReadRows(rows(2), 3))).is_settled
    assert not EmittedBatch(NUMBERS, (rows(1), splits())).is_settled


def test_a_batch_that_tells_where_it_ends_is_read_by_a_job_of_its_own() -> None:
    assert EmittedBatch(NUMBERS, (splits(reports_offsets=True),)).is_read_once
    assert not EmittedBatch(NUMBERS, (splits(), rows(1))).is_read_once
    read = EmittedBatch(NUMBERS, (splits(),), reported=ReportedOffsets(("a",), 12))
    assert read.known_rows == 12


def test_nothing_emitted_is_a_batch_without_rows() -> None:
    batch = EmittedBatch(NUMBERS)
    assert (batch.fingerprint(), batch.table.num_rows, batch.tasks) == (NO_ROWS, 0, 0)
