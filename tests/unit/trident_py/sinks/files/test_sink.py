"""`FileSink` as it is declared; what it does with Spark is in tests/integration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trident_py import (
    Count,
    FileSink,
    FixedBatchSpout,
    IBatchSpout,
    MapGet,
    MemoryMapState,
    SinkError,
    TopologyError,
    TridentTopology,
)
from trident_py.interfaces.collector import TridentCollector
from trident_py.sinks.files.sink import written


class Opaque(IBatchSpout):
    output_schema = "word string"

    def emit_batch(self, batch_id: int, collector: TridentCollector) -> None: ...


@pytest.fixture
def topology() -> TridentTopology:
    return TridentTopology("words")


def test_a_spout_that_may_give_other_rows_is_refused_where_the_sink_is_declared(topology: TridentTopology) -> None:
    exact = topology.new_stream("fixed", FixedBatchSpout("word string", 2))
    opaque = topology.new_stream("events", Opaque()).filter(lambda row: True)
    before = topology.explain()
    for stream in (opaque, topology.merge(exact, opaque)):
        with pytest.raises(TopologyError, match=r"write_to.*spout 'events' is opaque.*FileSink keeps.*Replay.EXACT"):
            stream.write_to(FileSink("words"))
    exact.write_to(FileSink("words"))
    assert before != topology.explain()


def test_what_a_state_answers_may_change_and_be_written(topology: TridentTopology) -> None:
    words = topology.new_stream("words", FixedBatchSpout("word string", 2))
    counts = words.group_by("word").persistent_aggregate(MemoryMapState.factory(), Count(), "count")
    words.state_query(counts, "word", MapGet(), "known bigint").write_to(FileSink("words"))
    assert "what was committed first stays, also if a replay has other rows" in topology.explain()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        *(
            ({"path": f"{scheme}://bucket/words"}, f"'{scheme}://.*in an object store.*with DeltaSink or IcebergSink")
            for scheme in ("s3", "s3a", "gs", "abfs", "abfss", "az")
        ),
        ({"path": ""}, "a path is a string"),
        ({"path": "words", "format": "avro"}, "format must be one of"),
        ({"path": "words", "options": {"a": None}}, "an option is"),
    ],
)
def test_arguments_that_cannot_work_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        FileSink(**arguments)


def test_fields_that_it_cannot_write_are_refused_where_it_is_declared(topology: TridentTopology) -> None:
    words = topology.new_stream("words", FixedBatchSpout("word string, n int", 2))
    with pytest.raises(TopologyError, match=r"write_to.*there is no field 'day'; there are 'word', 'n'"):
        words.write_to(FileSink("words", partition_by=("day",)))
    with pytest.raises(TopologyError, match="text files hold one string field"):
        words.write_to(FileSink("words", format="text"))


def test_a_start_that_finds_another_format_or_other_folders_is_refused_and_one_with_another_path_is_told() -> None:
    sink = FileSink("/data/words", format="json", partition_by=("day", "word"), options={"compression": "gzip"})
    assert sink.identity() == {"format": "json", "folders": "day, word"}
    assert sink.details() == {"path": "/data/words"}
    assert repr(sink) == "FileSink('/data/words', format='json')"


def test_rows_of_tasks_that_this_process_cannot_see_the_files_of_are_an_error(tmp_path: Path) -> None:
    for name in ("_SUCCESS", "part-00000-x.json", "day=1/part-00002-x.json", "day=2/.part-00001-x.json.crc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = written(tmp_path, [2])
    assert found == [tmp_path / "day=1" / "part-00002-x.json", tmp_path / "part-00000-x.json"]
    with pytest.raises(SinkError, match=r"tasks \[1, 3\] have written rows below .*see different file systems"):
        written(tmp_path, [3, 2, 1])
    with pytest.raises(SinkError, match=r"tasks \[0\]"):
        written(tmp_path / "nowhere", [0])
