"""Which record a message names when Kafka refuses all that were sent together."""

from __future__ import annotations

import pytest

from trident_py.sinks.kafka.records import Record, suspect

PLAIN = Record("t", b"plain", b"k", -1, 0, None)
NO_KEY = PLAIN._replace(key=None, value=b"no key")
LATE = PLAIN._replace(timestamp=2, value=b"late")
LARGE = PLAIN._replace(value=b"x" * 100)
ELSEWHERE = PLAIN._replace(partition=7, value=b"elsewhere")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("INVALID_RECORD", NO_KEY),
        ("INVALID_TIMESTAMP", LATE),
        ("MSG_SIZE_TOO_LARGE", LARGE),
        ("RECORD_LIST_TOO_LARGE", LARGE),
        ("_UNKNOWN_PARTITION", ELSEWHERE),
        ("POLICY_VIOLATION", None),
    ],
)
def test_the_record_that_fits_the_error_is_named(error: str, expected: Record | None) -> None:
    assert suspect(error, iter([PLAIN, NO_KEY, LATE, LARGE, ELSEWHERE, PLAIN])) == expected


def test_where_none_fits_none_is_named() -> None:
    assert suspect("INVALID_RECORD", iter([PLAIN])) is None
    assert suspect("INVALID_TIMESTAMP", iter([])) is None
