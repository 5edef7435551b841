"""The odd values of all types in one batch, through Spark into databases: in a shared job, and staged by tasks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.unit.trident_py.states.sql.everywhere import url as url
from tests.values.odd import ODD, same
from tests.values.sql import plain, selected
from tests.values.store import refusals
from tests.values.test_sql import NAMES
from trident_py import SQLSink, TridentTopology
from trident_py.rows.schema import schema_of
from trident_py.spouts import FixedBatchSpout
from trident_py.testing import LocalCoordination, run_batches

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NAMED = {f"v{number}": ddl for number, ddl in enumerate(ODD)}
DDL = ", ".join(["n int", *(f"{name} {ddl}" for name, ddl in NAMED.items())])


def columns(store: str) -> dict[str, list[Any]]:
    """The values of each field that the store takes."""
    taken: dict[str, list[Any]] = {}
    for name, ddl in NAMED.items():
        refused = refusals(store).get(ddl, {})
        assert not isinstance(refused, str)
        taken[name] = [value for each, value in ODD[ddl].items() if each not in refused]
    return taken


def rows_of(taken: dict[str, list[Any]]) -> Iterator[tuple[Any, ...]]:
    yield from ((n, *row) for n, row in enumerate(zip_longest(*taken.values())))


def check(url: str, table: str, taken: dict[str, list[Any]]) -> None:
    names = ", ".join(NAMED)
    found = sorted(selected(url, f"SELECT n, {names} FROM {table}"), key=lambda row: row[0])  # noqa: S608
    rows = list(rows_of(taken))
    assert len(found) == len(rows)
    for row, stored in zip(rows, found, strict=True):
        for name, value, its in zip(NAMED, row[1:], stored[1:], strict=True):
            kind = schema_of(f"v {NAMED[name]}").fields[0].dataType
            now = plain(url, kind, its)
            assert same(now, value), (NAMED[name], value, now)


@pytest.mark.parametrize("way", ["shared job", "large batch"])
def test_odd_values_reach_the_table_of_a_sink_as_they_are(spark: SparkSession, url: str, way: str) -> None:
    taken = columns(f"SQLSink {NAMES[url.partition(':')[0]]['database']}")
    topology = TridentTopology("values")
    rows = topology.new_stream("rows", FixedBatchSpout(DDL, 1_000, *rows_of(taken)))
    rows = rows.transform(lambda frame: frame) if way == "large batch" else rows
    rows.write_to(SQLSink(url, "odd"))
    coordination = LocalCoordination()
    run_batches(topology, coordination, spark)
    run_batches(topology, coordination, spark)
    check(url, "odd", taken)
