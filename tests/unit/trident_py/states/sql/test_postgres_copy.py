from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from trident_py.errors import StateError
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.states.sql.postgres_database import POSTGRESQL, copied
from trident_py.states.sql.stored import StoredRows


def lines(ddl: str, rows: list[tuple[Any, ...]], keys: tuple[int, ...] = ()) -> list[str]:
    fields = schema_of(ddl)
    columns = [POSTGRESQL.column_of(field) for field in fields.fields]
    return (
        copied(StoredRows(columns, arrow_table(rows, fields).to_batches()[0], keys), 7).tobytes().decode().splitlines()
    )


@pytest.mark.parametrize(
    ("ddl", "value", "text"),
    [
        ("x bigint", -(2**63), "-9223372036854775808"),
        ("x boolean", True, "true"),
        ("x double", 0.1 + 0.2, "0.30000000000000004"),
        ("x double", float("-inf"), "-inf"),
        ("x double", float("nan"), "nan"),
        ("x float", 0.1, "0.10000000149011612"),  # what its column, of double precision, stores
        ("x decimal(20,2)", Decimal("-0.05"), "-0.05"),
        ("x date", date(31, 2, 28), "0031-02-28"),
        ("x timestamp", datetime(2024, 2, 29, 12, 0, 0, 7, UTC), "2024-02-29 12:00:00.000007Z"),
        ("x string", "", ""),
        ("x string", "\\N", "\\\\N"),
        ("x string", "a\tb\r\n\\.\n", "a\\tb\\r\\n\\\\.\\n"),
        ("x binary", b"\x00\\\xff", "\\\\x005cff"),
        ("x array<string>", ['"\n'], '["\\\\"\\\\n"]'),
        ("x bigint", None, "\\N"),
        ("x string", None, "\\N"),
        ("x array<string>", None, "\\N"),
    ],
)
def test_a_value_is_written_as_copy_reads_it(ddl: str, value: Any, text: str) -> None:
    assert lines(ddl, [(value,)]) == [f"{text}\t[]\t7"]


def test_each_row_is_a_line_with_its_columns_its_key_and_the_task() -> None:
    rows = [("a\tb", 1, 0.5), (None, 2, None)]
    assert lines("word string, n bigint, x double", rows, keys=(0, 1)) == [
        'a\\tb\t1\t0.5\t["a\\\\tb",1]\t7',
        "\\N\t2\t\\N\t[null,2]\t7",
    ]


def test_a_part_of_a_batch_is_written_without_what_is_beside_it() -> None:
    fields = schema_of("n bigint")
    batch = arrow_table([(n,) for n in range(10)], fields).to_batches()[0].slice(3, 2)
    part = StoredRows([POSTGRESQL.column_of(fields.fields[0])], batch, ())
    assert copied(part, 1).tobytes() == b"3\t[]\t1\n4\t[]\t1\n"


@pytest.mark.parametrize(
    ("ddl", "kind", "value", "text"),
    [
        ("x string", pa.large_string(), "C:\\new\ttable", "C:\\\\new\\ttable"),
        ("x string", pa.string_view(), "\\N", "\\\\N"),
        ("x string", pa.dictionary(pa.int32(), pa.large_string()), "a\\101b", "a\\\\101b"),
        ("x string", pa.dictionary(pa.int8(), pa.string()), None, "\\N"),
        ("x binary", pa.large_binary(), b"\\\xff", "\\\\x5cff"),
        ("x binary", pa.binary_view(), b"\t", "\\\\x09"),
        ("x binary", pa.binary(2), b"\x00\xff", "\\\\x00ff"),
        ("x array<string>", pa.large_list(pa.large_string()), ["\n"], '["\\\\n"]'),
        ("x array<string>", pa.list_view(pa.string_view()), ["a"], '["a"]'),
        (
            "x timestamp",
            pa.timestamp("s", "Europe/Berlin"),
            datetime(2024, 2, 29, tzinfo=UTC),
            "2024-02-29 00:00:00.000000Z",
        ),
    ],
)
def test_each_type_that_arrow_has_for_a_field_is_copied_as_the_same_text(
    ddl: str, kind: pa.DataType, value: Any, text: str
) -> None:
    """Spark's setting useLargeVarTypes: texts went into COPY without escapes."""
    column = POSTGRESQL.column_of(schema_of(ddl).fields[0])
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    array = pa.array([value], plain)
    array = array.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else array
    part = StoredRows([column], pa.record_batch([array], ["x"]), ())
    assert copied(part, 7).tobytes().decode() == f"{text}\t[]\t7\n"


def test_a_type_of_arrow_that_is_not_known_is_refused_by_name() -> None:
    column = POSTGRESQL.column_of(schema_of("x bigint").fields[0])
    part = StoredRows([column], pa.record_batch([pa.array([1], pa.duration("us"))], ["x"]), ())
    with pytest.raises(StateError, match=r"field 'x' is bigint, and Spark hands it over as Arrow's duration"):
        copied(part, 7)
