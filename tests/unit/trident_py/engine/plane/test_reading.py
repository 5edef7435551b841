"""The rows of a split, and what its reader returned behind the last one."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pyarrow as pa
import pytest

from trident_py.engine.plane.reading import SplitRead, as_declared
from trident_py.errors import SpoutError

ROWS = [pa.record_batch({"n": [1, 2]}), pa.record_batch({"n": [3]})]


def reader(returned: Any) -> Generator[pa.RecordBatch, None, Any]:
    yield from ROWS
    return returned


@pytest.mark.parametrize("returned", [0, 2**64 - 1, "at byte 7"])
def test_what_a_generator_returns_is_known_when_its_rows_are_read(returned: str | int) -> None:
    read = SplitRead(reader(returned))
    assert list(read) == ROWS
    assert read.returned == returned


def test_plain_rows_return_nothing() -> None:
    read = SplitRead(ROWS)
    assert list(read) == ROWS
    assert read.returned == ""


@pytest.mark.parametrize("returned", ["text", None])
def test_what_is_no_number_is_no_hash(returned: Any) -> None:
    read = SplitRead(reader(returned))
    list(read)
    with pytest.raises(SpoutError, match="whole number"):
        _ = read.hash
    numbered = SplitRead(reader(7))
    list(numbered)
    assert numbered.hash == 7


def test_rows_of_a_reader_are_cast_if_no_value_changes() -> None:
    given, declared = pa.record_batch({"n": [1, 2], "d": [0.5, None]}), pa.schema({"d": pa.float32(), "n": pa.int32()})
    rows = as_declared(given, declared)
    assert rows.schema == declared
    assert rows.to_pydict() == {"d": [0.5, None], "n": [1, 2]}
    with pytest.raises(SpoutError, match="field 'n' is int64, declared is bool: values of this type would change"):
        as_declared(given, pa.schema({"n": pa.bool_()}))
