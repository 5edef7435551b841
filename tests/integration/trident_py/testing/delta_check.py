"""Checks `DeltaSink` on a table; a process of its own, as deltalake must not be in use where one is forked."""

from __future__ import annotations

import sys
from pathlib import Path

from deltalake import DeltaTable

from trident_py import DeltaSink
from trident_py.testing import Report, check_sink


def check(path: Path) -> Report:
    """What the kit finds."""

    def read() -> list[tuple[str, int]]:
        rows = DeltaTable(path).to_pyarrow_table(columns=["word", "n"]).to_pylist()
        return [(row["word"], row["n"]) for row in rows]

    return check_sink(lambda: DeltaSink(path), read, schema="word string, n bigint")


if __name__ == "__main__":
    report = check(Path(sys.argv[1]))
    sys.stdout.write(str(report))
    sys.exit(0 if report.ok else 1)
