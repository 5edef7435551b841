"""The partition of a row's spout, carried to the window by Spark: the same as in a resident task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.unit.trident_py.graph.test_tracing import PATHS, SCHEMA, SLOW, Parted, at, windowed
from trident_py.engine.resident.programs import program_of
from trident_py.graph.graph import NeedsSpark
from trident_py.planner.plan import Branch, plan
from trident_py.planner.sharing import shared
from trident_py.rows.schema import arrow_schema, schema_of
from trident_py.spark.frames import frame_of_rows
from trident_py.streams.stream import Stream
from trident_py.topology import TridentTopology

pytestmark = pytest.mark.spark

ROWS = [*SLOW, (None, 3, 1, at(0)), ("ü/ ", None, 1, at(1)), (None, None, 2, at(2)), ("3", None, 1, at(3))]
ODD = ["%0/3", "ü%2F /%0", "%0/%0", "3/%0"]
ALL_PATHS: dict[str, Callable[[Stream], Stream]] = {
    **PATHS,
    "a condition of Spark": lambda stream: stream.filter("n > 0").project("at", "n"),
}


def branch(path: str) -> Branch:
    topology = TridentTopology("parted")
    windowed(ALL_PATHS[path](topology.new_stream("parted", Parted(SCHEMA, 1))))
    return plan(topology._graph).branches[0]


def listed(rows: pa.Table) -> list[Any]:
    return sorted(map(str, rows.to_pylist()))


@pytest.mark.parametrize("path", ALL_PATHS)
def test_spark_carries_the_same_partitions_with_and_without_a_shared_job(spark: SparkSession, path: str) -> None:
    made, schema = branch(path), schema_of(SCHEMA)
    frame = spark.createDataFrame(ROWS, schema)
    alone = made.build({"parted": frame}).toArrow()
    names = [*(f"t/{number}" for number in (0, 1, 0, 1, 0)), *ODD]
    assert sorted(alone.column("_trident_partition").to_pylist()) == sorted(names)
    both = shared(made, lambda *_: True)
    assert both is not None
    whole = frame.toArrow().cast(arrow_schema(schema))
    given = both.together({5: whole, 6: whole.slice(0, 3)})
    parts = both.apart(both.build(frame_of_rows(spark, given, both.source).coalesce(1)).toArrow(), [5, 6])
    assert listed(parts[5]) == listed(alone)
    assert parts[6].num_rows == 3
    try:
        in_python = both.apart(program_of(both)(given.to_batches()), [5, 6])
    except NeedsSpark:
        assert path == "a condition of Spark"
    else:
        assert [listed(each) for each in in_python.values()] == [listed(each) for each in parts.values()]
