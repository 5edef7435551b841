"""Days and moments of old files that their writers have counted by another calendar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from trident_py.errors import SpoutError

_GREGORIAN_DAY, _YEAR_1900_DAY = -141_427, -25_567
"""1582-10-15 and 1900-01-01, in days since 1970."""

_DAY_SECONDS = 86_400
_PARTS_OF_SECOND: Mapping[str, int] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SPARK, _LEGACY = b"org.apache.spark.version", (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_SPARK_MAJOR_GREGORIAN = 3


def is_by_old_spark(metadata: Mapping[bytes, bytes] | None) -> bool:
    """Return whether Spark has written a Parquet file with this metadata by the calendar that it had before 3.0."""
    found = metadata or {}
    major = found.get(_SPARK, b"").partition(b".")[0]
    return any(name in found for name in _LEGACY) or (major.isdigit() and int(major) < _SPARK_MAJOR_GREGORIAN)


def check_calendar(path: str, rows: pa.Table) -> None:
    """Check that no date is before 1582-10-15, and no timestamp before 1900: readers disagree about these.

    Raises:
        SpoutError: one is.
    """
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if any(_is_early(leaf) for chunk in column.chunks for leaf in _leaves(chunk)):
            raise SpoutError(
                f"file {path!r}: the field {name!r} has a date before 1582-10-15, or a timestamp before 1900, which "
                f"its writer may have counted by another calendar; to fix this: write the file again by a newer Spark, "
                f"as Parquet, or leave the field out of schema="
            )


def _is_early(column: pa.Array) -> bool:
    if pa.types.is_date(column.type):
        first = pc.min(column.cast(pa.date32()).cast(pa.int32())).as_py()
        return first is not None and first < _GREGORIAN_DAY
    if pa.types.is_timestamp(column.type):
        first = pc.min(column.cast(pa.int64())).as_py()
        return first is not None and first < _YEAR_1900_DAY * _DAY_SECONDS * _PARTS_OF_SECOND[column.type.unit]
    return False


def _leaves(column: pa.Array) -> Iterator[pa.Array]:
    """Yield the columns inside a column which have no others inside."""
    kind = column.type
    if pa.types.is_struct(kind):
        inside = column.flatten()
    elif pa.types.is_map(kind):
        inside = [column.keys, column.items]
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inside = [column.flatten()]
    else:
        inside = []
        yield column
    for each in inside:
        yield from _leaves(each)
