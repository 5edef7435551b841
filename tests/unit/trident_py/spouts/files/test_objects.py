"""Objects of a store as files: which ones a pattern has, what is read of them, and what stops by name."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any
from uuid import uuid4

import fastavro
import obstore
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import json_copy
from tests.servers.object_server import ObjectServer
from tests.unit.trident_py.spouts.collecting import CONF, CONTEXT, emitted, halves
from trident_py import FailedException, FileSpout, SpoutError, TopologyError
from trident_py.rows.schema import fields_text, schema_of

ROWS = [{"name": f"é {n}", "n": n} for n in range(40)]
TABLE = pa.Table.from_pylist(ROWS)


class Bucket:
    """A bucket, and a spout of it from one batch to the next."""

    def __init__(self, server: ObjectServer, directory: Path) -> None:
        self.server, self.directory = server, directory
        name = f"test-{uuid4().hex}"
        server.make_bucket(name)
        self.url, self.options, self.txid = f"{server.scheme}://{name}", server.storage_options, 0
        self.store = server.objects(name)

    def put(self, key: str, data: bytes) -> str:
        obstore.put(self.store, key, data)
        return f"{self.url}/{key}"

    def spout(self, pattern: str, **arguments: Any) -> FileSpout:
        place = {"directory": self.directory, **arguments}
        return FileSpout(f"{self.url}/{pattern}", storage_options=self.options, **place)

    def batch(self, coordinator: Any) -> Any:
        """The definition of the next batch; empty: there is none."""
        self.txid += 1
        return json_copy(coordinator.initialize_transaction(self.txid, None, None)) if coordinator.is_ready(1) else {}

    def rows(self, pattern: str, **arguments: Any) -> list[tuple[Any, ...]]:
        """All rows that are there."""
        coordinator, emitter = halves(self.spout(pattern, **arguments))
        return emitted(emitter, TransactionAttempt(1, 0), self.batch(coordinator))


@pytest.fixture(params=["s3_server", pytest.param("azure_server", marks=pytest.mark.slow)])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket:
    return Bucket(request.getfixturevalue(request.param), tmp_path)


def encoded(kind: str) -> bytes:
    sink = pa.BufferOutputStream()
    match kind:
        case "parquet":
            pq.write_table(TABLE, sink, row_group_size=7)
        case "orc":
            po.write_table(TABLE, sink)
        case "avro":
            fields = [{"name": "name", "type": "string"}, {"name": "n", "type": "long"}]
            fastavro.writer(sink, {"type": "record", "name": "R", "fields": fields}, ROWS, sync_interval=100)
        case "json":
            sink.write(TABLE.to_pandas().to_json(orient="records", lines=True).encode())
        case _:
            sink.write(TABLE.to_pandas().to_csv(index=False).encode())
    data: bytes = sink.getvalue().to_pybytes()
    return data


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro", "json", "csv"])
def test_each_format_is_read_from_objects_with_a_schema_or_without(
    objects: Bucket, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trident_py.spouts.files.whole_lines.PART_BYTES", 64)
    monkeypatch.setattr("trident_py.spouts.files.objects.BUFFER_BYTES", 50)
    url = objects.put("in/a b/é=1", encoded(kind))
    options = {"options": {"header": True}} if kind == "csv" else {}
    found = objects.rows("in/*/*", format=kind, schema="name string, n bigint", **options)
    assert [row[:2] for row in found] == [tuple(row.values()) for row in ROWS]
    assert {row[2] for row in found} == {url}
    assert len({row[3] for row in found}) == len(ROWS)
    spout = objects.spout("in/*/*", format=kind, **options)
    wanted = "name string, n " + ("string" if kind == "csv" else "bigint")
    assert fields_text(schema_of(spout.output_schema)).startswith(wanted)


def test_values_of_folders_and_whole_objects_are_rows_too(objects: Bucket) -> None:
    objects.put("day=2026-11-28/a.json", b'{"n": 1}\n')
    objects.put("day=2026-11-28/b.json.gz", gzip.compress(b'{"n": 2}'))
    (row, packed) = objects.rows("day=*/*", format="json", schema="n int, day string", partition_by="day")
    assert (row[:2], packed[:2]) == ((1, "2026-11-28"), (2, "2026-11-28"))
    url = objects.put("b.bin", b"\x00\xff")
    ((path, _, length, content),) = objects.rows("*.bin", format="binary")
    assert (path, length, content) == (url, 2, b"\x00\xff")


def test_only_new_objects_are_in_the_next_batch_also_after_a_restart(objects: Bucket) -> None:
    objects.put("logs/a", b"a\n")
    objects.put("logs/deep/b", b"b\n")
    coordinator, emitter = halves(objects.spout("logs/**"))
    first = objects.batch(coordinator)
    objects.put("logs/c", b"c\n")
    cursors: Any = json_copy(dict(coordinator.moved(first)))
    coordinator, emitter = halves(objects.spout("logs/**"))
    coordinator.restore(cursors)
    assert [row[0] for row in emitted(emitter, TransactionAttempt(1, 0), first)] == ["a", "b"]
    assert [row[0] for row in emitted(emitter, TransactionAttempt(2, 0), objects.batch(coordinator))] == ["c"]
    assert not coordinator.is_ready(3)


@pytest.mark.parametrize("format", ["text", "parquet"])
def test_an_object_that_was_replaced_or_deleted_stops_by_name(objects: Bucket, format: str) -> None:
    data, schema = (b"a\n", {}) if format == "text" else (encoded("parquet"), {"schema": "n bigint"})
    url = objects.put("a", data)
    coordinator, emitter = halves(objects.spout("a", format=format, **schema))
    batch = objects.batch(coordinator)
    objects.put("a", data + b"b\n")
    with pytest.raises(SpoutError, match=f"object '{url}' was replaced or removed after a batch was defined"):
        emitted(emitter, TransactionAttempt(1, 0), batch)
    with pytest.raises(SpoutError, match=f"file '{url}' was changed"):
        coordinator.is_ready(2)
    obstore.delete(objects.store, "a")
    with pytest.raises(SpoutError, match=f"object '{url}' (is gone|was replaced or removed)"):
        emitted(emitter, TransactionAttempt(1, 0), batch)


def test_a_store_that_does_not_answer_is_waited_for(objects: Bucket) -> None:
    objects.options = {**objects.options, objects.server.endpoint: "http://127.0.0.1:9"}
    coordinator, _ = halves(objects.spout("*"))
    with pytest.raises(FailedException, match=rf"'{objects.url}' can't be read now: .*error sending request"):
        coordinator.is_ready(1)


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("s3://bucket", {}, "is not a pattern of objects, such as"),
        ("s3://bucket/logs/", {}, "is not a pattern of objects, such as"),
        ("http://bucket/logs/*", {}, "the schemes are s3, s3a, gs"),
        ("s3://bucket/*", {"AWS_BAD": "hush"}, "s3://bucket can't be read with these storage_options: .*aws_bad"),
        ("logs/*", {"AWS_REGION": "x"}, "local files, which take no storage_options"),
    ],
)
def test_a_url_or_option_that_can_not_work_is_refused(url: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(TopologyError, match=message) as caught:
        FileSpout(url, storage_options=options)
    assert "hush" not in str(caught.value)


def test_names_that_were_read_are_kept_in_a_store_that_each_leader_sees(objects: Bucket) -> None:
    def spout(folder: str = "state", **arguments: Any) -> FileSpout:
        return objects.spout("in/*", directory=f"{objects.url}/{folder}", **arguments)

    cursors: dict[str, Any] = {}
    for number, name in enumerate("abc", 1):
        objects.put(f"in/{name}", b"line\n")
        coordinator, _ = halves(spout(order="name"))
        coordinator.restore(json_copy(cursors))
        spout().ensure_recoverable(cursors, CONF, CONTEXT)
        batch = objects.batch(coordinator)
        assert [path for path, *_ in batch["files"]] == [f"{objects.url}/in/{name}"]
        cursors |= coordinator.moved(batch)
        coordinator.success(number)
    kept = [each["path"] for page in obstore.list(objects.store, "state") for each in page]
    assert kept == [f"state/wordcount-files/lines/{name}" for name, _ in cursors["shards"]]
    with pytest.raises(SpoutError, match=r"elsewhere/wordcount-files/lines lacks .*which has the names of files"):
        spout("elsewhere").ensure_recoverable(cursors, CONF, CONTEXT)
    obstore.delete(objects.store, kept[0])
    coordinator, _ = halves(spout())
    coordinator.restore(json_copy(cursors))
    with pytest.raises(SpoutError, match=r"state/wordcount-files/lines lacks .*restore it from a backup"):
        coordinator.is_ready(4)


def test_a_look_at_another_bucket_after_a_greatest_name_is_refused(objects: Bucket) -> None:
    coordinator, _ = halves(objects.spout("in/*", order="name"))
    with pytest.raises(
        SpoutError, match=r"is 's3://other/a', which is not in (s3|az)://.*give the spout of another bucket"
    ):
        list(coordinator.search.place.find("s3://other/a"))
