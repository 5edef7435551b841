"""Somebody who reads stores all the time, through a library that isn't ours, in a process of its own.

    python -m tests.faults.looking LIBRARY STORES

``STORES`` is JSON: by the name of a store, where it is. Each look at one is a line of JSON: the store, and what
was seen there, or the error. It ends when its standard input does. Runs in Spark's other environment, too, so it
needs nothing but that library.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

PAUSE_SECONDS = 0.2

Measures: TypeAlias = "tuple[int, int, int]"
"""Of rows: how many, the sum of their ids, and that of the squares."""

Seen: TypeAlias = "list[list[int | None]]"
"""For each transaction, or for all rows where the store doesn't tell which row is whose (None): its txid, then
`Measures`."""

_MEASURES = ("count(*)", "coalesce(sum(id), 0)", "coalesce(sum(id * id), 0)")
_SELECTED = ", ".join(_MEASURES)


def psql(dsn: str) -> Seen:
    """Read the table with PostgreSQL's own client."""
    query = f"SELECT {_SELECTED} FROM (SELECT CAST(id AS bigint) AS id FROM words) AS rows"  # noqa: S608 - a constant
    done = subprocess.run(["psql", "--no-psqlrc", "-Atc", query, dsn], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return [[None, *map(int, done.stdout.split("|"))]]


def duckdb_files(path: str) -> Seen:
    """Read the directory with DuckDB."""
    import duckdb

    rows = duckdb.read_parquet(f"{path}/**/*.parquet", hive_partitioning=True).project("txid, CAST(id AS bigint) AS id")
    found = rows.aggregate(f"txid, {_SELECTED}", "txid").fetchall()
    return [list(map(int, row)) for row in found]


def delta_rs(path: str) -> Seen:
    """Read the Delta table with delta-rs."""
    from deltalake import DeltaTable

    return _all_of(DeltaTable(path).to_pyarrow_table(columns=["id"])["id"].to_pylist())


def pyiceberg(path: str) -> Seen:
    """Read the Iceberg table with pyiceberg."""
    from tests.unit.trident_py.sinks.iceberg.tables import table_at

    return _all_of(table_at(Path(path)).scan(selected_fields=("id",)).to_arrow()["id"].to_pylist())


def spark_files(path: str) -> Seen:
    """Read the directory with Spark."""
    rows = _spark().read.parquet(path).selectExpr("txid", "CAST(id AS bigint) AS id")
    return [list(row) for row in _aggregated(rows.groupBy("txid"))]


def spark_delta(path: str) -> Seen:
    """Read the Delta table with Spark and Delta's own connector."""
    rows = _spark().read.format("delta").load(path).selectExpr("CAST(id AS bigint) AS id")
    return [[None, *row] for row in _aggregated(rows)]


def measures(ids: Iterable[int]) -> Measures:
    """Return what a look sees of rows with those ids."""
    numbers = [*ids]
    return len(numbers), sum(numbers), sum(each * each for each in numbers)


def _all_of(ids: Iterable[str]) -> Seen:
    return [[None, *measures(map(int, ids))]]


def _aggregated(rows: Any) -> list[Any]:
    from pyspark.sql import functions as f

    return list(rows.agg(*map(f.expr, _MEASURES)).collect())


@cache
def _spark() -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.builder.appName("looking").getOrCreate()


LIBRARIES: Mapping[str, Mapping[str, Callable[[str], Seen]]] = {
    "psql": {"table": psql},
    "duckdb": {"files": duckdb_files},
    "delta-rs": {"delta": delta_rs},
    "pyiceberg": {"iceberg": pyiceberg},
    "spark": {"files": spark_files, "delta": spark_delta},
}


def look(read: Callable[[str], Seen], where: str) -> dict[str, Any]:
    """Return what is seen, or the error."""
    try:
        return {"seen": read(where)}
    except Exception as error:  # noqa: BLE001 - whatever a library raises is what a user would see
        return {"error": f"{type(error).__name__}: {error}"[:2000]}


def main(library: str, stores: str) -> None:
    """Look at each store in turn until the standard input ends."""
    places = json.loads(stores)
    while not select.select([sys.stdin], [], [], PAUSE_SECONDS)[0]:
        for store, where in places.items():
            sys.stdout.write(json.dumps({"store": store, **look(LIBRARIES[library][store], where)}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
