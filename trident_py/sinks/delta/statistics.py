"""Statistics by which readers of a Delta table skip files: least and greatest values, and the number of nulls."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow.parquet as pq

TEXT_CHARS_MAX = 32
"""The maximum length of a text in the statistics; longer ones are left out, because a prefix is not an upper bound."""


def statistics(metadata: pq.FileMetaData) -> str:
    """Return the statistics of a Parquet file with this footer, as JSON for Delta's log."""
    names = [
        metadata.schema.column(number).path
        for number in range(metadata.num_columns)
        if metadata.schema.column(number).path == metadata.schema.column(number).name  # not below another field
    ]
    found: Mapping[str, dict[str, Any]] = {"minValues": {}, "maxValues": {}, "nullCount": {}}
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for name in names:
        columns = [group.column(number) for group in groups for number in range(group.num_columns)]
        bounds = [column.statistics for column in columns if column.path_in_schema == name]
        if any(each is None or not each.has_null_count for each in bounds):
            continue
        found["nullCount"][name] = sum(each.null_count for each in bounds)
        _add_bounds(found, name, [each for each in bounds if each.num_values])
    return json.dumps({"numRecords": metadata.num_rows, **found}, ensure_ascii=False)


def _add_bounds(found: Mapping[str, dict[str, Any]], name: str, bounds: Iterable[Any]) -> None:
    values = [value for each in bounds if each.has_min_max for value in (each.min, each.max)]
    if not values or any(not each.has_min_max for each in bounds):
        return
    low, high = _told(min(values)), _told(max(values))
    if low is not None and high is not None:
        found["minValues"][name], found["maxValues"][name] = low, high


def _told(value: object) -> str | int | None:
    """Return the value in JSON form; None: it can't be a bound. A float can't, because NaN has no order."""
    match value:
        case bool() | float():
            return None
        case int():
            return value
        case str():
            return value if len(value) <= TEXT_CHARS_MAX else None
        case datetime.datetime():
            zone = "Z" if value.tzinfo else ""
            return f"{value.replace(tzinfo=None).isoformat(timespec='microseconds')}{zone}"
        case datetime.date():
            return value.isoformat()
    return None
