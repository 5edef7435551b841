"""What `DeltaSink` takes, and what it says of itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trident_py import DeltaSink, FixedBatchSpout, IBatchSpout, TopologyError, TridentCollector, TridentTopology
from trident_py.rows.schema import schema_of


def test_it_promises_exactly_once_and_shows_no_secret(tmp_path: Path) -> None:
    sink = DeltaSink("s3://bucket/events", partition_by="day", storage_options={"AWS_SECRET_ACCESS_KEY": "hush"})
    topology = TridentTopology("events")
    topology.new_stream("events", FixedBatchSpout("day date, n int", 1)).write_to(sink)
    said = topology.explain()
    assert "DeltaSink\n      exactly-once: attempts are staged apart" in said
    assert sink.identity() == {"partitions": "day", "keys": ""}
    assert sink.details() == {"table": "s3://bucket/events"}
    assert "hush" not in said + repr(sink)


def test_a_path_is_taken_from_the_directory_of_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert repr(DeltaSink("events")) == f"DeltaSink({str(tmp_path / 'events')!r})"


@pytest.mark.parametrize("uri", ["", 3, None])
def test_what_is_no_table_is_refused(uri: Any) -> None:
    with pytest.raises(TopologyError, match="a table is a path or a URL"):
        DeltaSink(uri)


def test_an_unknown_mode_is_refused() -> None:
    mode: Any = "overwrite"
    with pytest.raises(TopologyError, match="mode must be 'append' or 'merge', not 'overwrite'"):
        DeltaSink("events", mode=mode)


@pytest.mark.parametrize(
    ("partition_by", "message"),
    [("where", "there is no field 'where'"), ("tags", "array<int>, and no table is partitioned")],
)
def test_fields_that_can_not_be_partitions_are_refused(partition_by: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        DeltaSink("events", partition_by=partition_by).check_fields(schema_of("n int, tags array<int>"))


def test_a_table_needs_a_field_for_its_files() -> None:
    with pytest.raises(TopologyError, match="all fields are in partition_by"):
        DeltaSink("events", partition_by=("n", "day")).check_fields(schema_of("n int, day date"))


@pytest.mark.parametrize("arguments", [{"mode": "merge"}, {"keys": "n"}])
def test_keys_and_merging_go_together(arguments: Any) -> None:
    with pytest.raises(TopologyError, match="give keys with mode='merge'"):
        DeltaSink("events", **arguments)


@pytest.mark.parametrize("every", [0, -1, True, "10", 1.5])
def test_what_is_no_number_of_transactions_is_refused(every: Any) -> None:
    with pytest.raises(TopologyError, match="compact_every is a number of transactions, 1 or more"):
        DeltaSink("events", compact_every=every)


def test_compaction_beside_merging_is_refused_with_what_to_do_instead() -> None:
    with pytest.raises(TopologyError, match=r"goes with mode='append'.*by deltalake's optimize\.compact\(\)"):
        DeltaSink("events", mode="merge", keys="n", compact_every=10)


def test_merging_is_refused_behind_an_opaque_spout_and_by_keys_that_do_not_compare() -> None:
    class Drawing(IBatchSpout):
        output_schema = "n int"

        def emit_batch(self, batch_id: int, collector: TridentCollector) -> None: ...

    stream = TridentTopology("events").new_stream("drawn", Drawing())
    with pytest.raises(TopologyError, match="spout 'drawn' is opaque"):
        stream.write_to(DeltaSink("events", mode="merge", keys="n"))
    stream.write_to(DeltaSink("events"))
    with pytest.raises(TopologyError, match="maps don't compare"):
        DeltaSink("events", mode="merge", keys="m").check_fields(schema_of("n int, m map<string, int>"))


def test_where_the_library_is_missing_the_error_says_how_to_install_it() -> None:
    code = """
import sys
sys.modules["deltalake"] = None
from trident_py import ConfigError, DeltaSink
try:
    DeltaSink("events")
except ConfigError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("DeltaSink needs deltalake (")
    assert done.stdout.endswith("pip install 'trident-py[delta]'\n")
