"""What `IcebergSink` takes, and what it says of itself."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest

from trident_py import FixedBatchSpout, IBatchSpout, IcebergSink, TopologyError, TridentCollector, TridentTopology
from trident_py.rows.schema import schema_of

CATALOG = {"type": "sql", "uri": "postgresql://me:hush@host/catalog"}


def test_it_promises_exactly_once_and_shows_no_secret() -> None:
    sink = IcebergSink("web.events", catalog=CATALOG, partition_by="day(at)")
    topology = TridentTopology("events")
    topology.new_stream("events", FixedBatchSpout("at timestamp, n int", 1)).write_to(sink)
    said = topology.explain()
    assert "IcebergSink\n      exactly-once: attempts are staged apart" in said
    assert repr(sink) == "IcebergSink('web.events')"
    assert sink.details() == {"table": "web.events"}
    assert "hush" not in said + repr(sink)


def test_rows_of_an_opaque_spout_are_taken_as_a_batch_that_comes_again_with_others_replaces_its_files() -> None:
    class Drawing(IBatchSpout):
        output_schema = "n int"

        def emit_batch(self, batch_id: int, collector: TridentCollector) -> None: ...

    topology = TridentTopology("events")
    topology.new_stream("drawn", Drawing()).write_to(IcebergSink("web.events", catalog="prod"))
    assert "exactly-once" in topology.explain()


@pytest.mark.parametrize("table", ["", "events", "web.", ".events", 3, None])
def test_what_is_no_table_is_refused(table: Any) -> None:
    with pytest.raises(TopologyError, match="a table is named with its namespace"):
        IcebergSink(table, catalog="prod")


@pytest.mark.parametrize("catalog", ["", {}, None, 3])
def test_what_is_no_catalog_is_refused(catalog: Any) -> None:
    with pytest.raises(TopologyError, match="catalog is a name or properties"):
        IcebergSink("web.events", catalog=catalog)


@pytest.mark.parametrize("age", [timedelta(), timedelta(days=-1), 5, "5 days"])
def test_what_is_no_age_of_snapshots_is_refused(age: Any) -> None:
    with pytest.raises(TopologyError, match="expire_after is a timedelta above zero"):
        IcebergSink("web.events", catalog="prod", expire_after=age)


def test_replacing_rows_is_refused_by_name_with_who_can() -> None:
    mode: Any = "merge"
    with pytest.raises(TopologyError, match=r"mode of IcebergSink is 'append', not 'merge' .*DeltaSink\(mode='merge'"):
        IcebergSink("web.events", catalog="prod", mode=mode)


@pytest.mark.parametrize(
    ("partition_by", "message"),
    [
        ("day(when)", "there is no field 'when'"),
        (("n", "tags"), "array<int>, and no table is partitioned"),
        (5, "a list of names"),
    ],
)
def test_fields_that_can_not_be_partitions_are_refused(partition_by: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        IcebergSink("web.events", catalog="prod", partition_by=partition_by).check_fields(
            schema_of("n int, tags array<int>")
        )


def test_where_the_library_is_missing_the_error_says_how_to_install_it() -> None:
    code = """
import sys
sys.modules["pyiceberg"] = None
from trident_py import ConfigError, IcebergSink
try:
    IcebergSink("web.events", catalog="prod")
except ConfigError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("IcebergSink needs pyiceberg (")
    assert done.stdout.endswith("pip install 'trident-py[iceberg]'\n")
