"""What the text of a partition in a Delta log says."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trident_py.sinks.delta.staging import partition_text
from trident_py.spouts.delta.log import _value

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1)
TYPES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.decimal128(38, 10), st.decimals(allow_nan=False, allow_infinity=False, places=10, max_value=10**27)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(UTC))),
    (pa.string(), TEXT),
    (pa.binary(), TEXT.map(str.encode)),
]


@pytest.mark.parametrize(("kind", "values"), TYPES, ids=[str(kind) for kind, _ in TYPES])
@given(data=st.data())
def test_the_text_of_a_partition_says_its_value(kind: pa.DataType, values: st.SearchStrategy[Any], data: Any) -> None:
    value = data.draw(values)
    text = partition_text(value)
    assert text
    found = _value(text, kind)
    assert (found, str(found)) == (value, str(value)) or (found == value and not isinstance(value, float))
    assert pa.scalar(found, kind).as_py() == value


@given(st.binary(min_size=1))
def test_bytes_that_delta_rs_has_written_are_those_bytes(value: bytes) -> None:
    assert _value("".join(f"\\u{each:04X}" for each in value), pa.binary()) == value
