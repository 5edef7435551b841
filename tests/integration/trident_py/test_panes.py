"""The aggregation by panes: Spark's expressions and Python give the same values, with and without a shared job."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from pyspark.sql import SparkSession

from tests.unit.trident_py.graph.test_panes import ROWS, SCHEMA, listed, of_rows, panes
from trident_py.graph.flow import Flow
from trident_py.graph.panes import PaneAggregation
from trident_py.operations.builtin import Max, NativeAggregator, Sum
from trident_py.rows.row import rows_of
from trident_py.windows.windows import PanedWindow, SessionWindow, SlidingDuration, TumblingDuration

pytestmark = pytest.mark.spark


def of_spark(spark: SparkSession, made: PaneAggregation) -> list[tuple[Any, ...]]:
    flow = made.build(Flow.of(spark.createDataFrame(ROWS, SCHEMA), SCHEMA), None)
    assert flow.schema.names == ([made.tag] if made.tag else []) + made.fields(SCHEMA).names
    return listed([row for batch in flow.native().toArrow().to_batches() for row in rows_of(batch)])


@pytest.mark.parametrize("window", [TumblingDuration(7), SlidingDuration(7, 2), SessionWindow(64)], ids=repr)
@pytest.mark.parametrize("aggregator", [Sum("n"), Max("n")])
def test_spark_and_python_give_the_same_values(
    spark: SparkSession, window: PanedWindow, aggregator: NativeAggregator[Any]
) -> None:
    made = panes(window, aggregator)
    assert of_spark(spark, made) == of_rows(made)
    shared = evolve(made, tag="batch")
    assert of_spark(spark, shared) == of_rows(shared)
