"""Times of rows: datetimes in UTC, and the same as whole microseconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_YEAR_1, _YEAR_9999 = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
_FIRST_MICROS, _LAST_MICROS = ((each - _EPOCH) // _MICROSECOND for each in (_YEAR_1, _YEAR_9999))


def moment(micros: int) -> datetime:
    """Return a time in microseconds since the epoch as a datetime, or the nearest one that there is."""
    return _EPOCH + timedelta(microseconds=min(max(micros, _FIRST_MICROS), _LAST_MICROS))


def micros_of(at: datetime) -> int:
    """Return a datetime with a time zone in microseconds since the epoch."""
    return (at - _EPOCH) // _MICROSECOND


def micros_in(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of timestamps with a time zone in microseconds since the epoch."""
    return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())


def in_millis(micros: int | None) -> int | None:
    """Return a time in milliseconds since the epoch, rounded up."""
    return None if micros is None else -(-micros // 1000)
