"""Checks `IcebergSink` on a table of a SQLite catalog, in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.unit.trident_py.sinks.iceberg.tables import NAME, catalog_at, table_at
from trident_py import IcebergSink
from trident_py.testing import Report, check_sink


def check(path: Path) -> Report:
    """What the kit finds."""

    def read() -> list[tuple[str, int]]:
        rows = table_at(path).scan(selected_fields=("word", "n")).to_arrow().to_pylist()
        return [(row["word"], row["n"]) for row in rows]

    return check_sink(lambda: IcebergSink(NAME, catalog=catalog_at(path)), read, schema="word string, n bigint")


if __name__ == "__main__":
    report = check(Path(sys.argv[1]))
    sys.stdout.write(str(report))
    sys.exit(0 if report.ok else 1)
