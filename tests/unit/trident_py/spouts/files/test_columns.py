"""The formats of whole files: the rows of a file, and what stops by name."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest
from attrs import evolve

from trident_py import SpoutError
from trident_py.spouts.files.columns import WholeFormat, WholeReader, whole_format
from trident_py.spouts.files.evolution import Evolution
from trident_py.spouts.files.paths import PathPattern
from trident_py.spouts.files.places import LocalFiles

SCHEMA = "name string, n bigint"


def read(path: Path, format: WholeFormat) -> list[pa.RecordBatch]:
    pattern = PathPattern.of(path)
    reader = WholeReader(format, LocalFiles(pattern))
    return [*reader(reader.portions(next(reader.place.find())))]


def rows(path: Path, kind: str) -> list[tuple[Any, ...]]:
    made = whole_format(kind, None if kind == "binary" else SCHEMA, "fail")
    return [tuple(row.values()) for batch in read(path, made) for row in batch.to_pylist()]


def avro(path: Path, schema: Any, *records: Any, codec: str = "null", block_bytes: int = 16_000) -> Path:
    """A file that fastavro writes."""
    with path.open("wb") as file:
        fastavro.writer(file, schema, records, codec=codec, sync_interval=block_bytes)
    return path


AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "extra", "type": ["int", "string"]},
        {"name": "n", "type": ["null", "int"]},
        {"name": "name", "type": "string"},
    ],
}
"""Spark has no type for the first field, which nobody reads."""


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
def test_fields_are_found_by_name_and_a_narrower_type_is_read_as_a_wider_one(tmp_path: Path, kind: str) -> None:
    path, table = (
        tmp_path / "a",
        pa.table({"extra": [1.5, 2.5], "n": pa.array([1, None], pa.int32()), "name": ["x", "y"]}),
    )
    if kind == "avro":
        avro(path, AVRO, {"extra": 1, "n": 1, "name": "x"}, {"extra": "", "n": None, "name": "y"})
    else:
        po.write_table(table, path) if kind == "orc" else pq.write_table(table, path, row_group_size=1)
    assert rows(path, kind) == [("x", 1, str(path), 0), ("y", None, str(path), 1)]


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_blocks_of_avro_are_read_together_and_each_type_is_the_one_of_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str
) -> None:
    monkeypatch.setattr("trident_py.spouts.files.columns.CHUNK_ROWS", 7)
    fields: dict[str, Any] = {
        "n": "long",
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 3},
        "at": {"type": "long", "logicalType": "timestamp-micros"},
        "tags": {"type": "map", "values": {"type": "array", "items": "int"}},
    }
    schema = {"type": "record", "name": "Row", "fields": [{"name": n, "type": k} for n, k in fields.items()]}
    at, price = datetime(2024, 4, 30, 18, 0, 0, 7, UTC), Decimal("12345678901234567890123456789012345.678")
    given = [{"n": n, "price": price, "at": at, "tags": {"a": [n]}} for n in range(50)]
    path = avro(tmp_path / "a.avro", schema, *given, codec=codec, block_bytes=100)
    made = whole_format("avro", "n int, at timestamp, price decimal(38,3), tags map<string, array<int>>", "fail")
    batches = read(path, made)
    found = [row for batch in batches for row in batch.to_pylist(maps_as_pydicts="strict")]
    assert [row.pop("_position") for row in found] == list(range(50))
    assert [{name: row[name] for name in fields} for row in found] == given
    assert len(batches) > 3


def test_a_file_without_rows_has_none(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": pa.array([], pa.int64()), "name": pa.array([], pa.string())}), tmp_path / "a")
    assert rows(tmp_path / "a", "parquet") == []


def test_binary_files_are_rows_as_sparks_binary_file(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"\x00\xff")
    os.utime(path, ns=(0, 1_714_500_000_123_456_789))
    at = datetime(2024, 4, 30, 18, tzinfo=UTC) + timedelta(microseconds=123_456)
    assert rows(path, "binary") == [(str(path), at, 2, b"\x00\xff")]


FOUND, ADDING = Evolution(is_found=True), Evolution(adds=True)


def test_a_file_with_other_fields_than_were_found_stops_by_name_or_is_read_with_nulls(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1], "more": [1.5]}), tmp_path / "a")

    def names(evolution: Evolution, schema: str) -> list[dict[str, Any]]:
        made = whole_format("parquet", schema, "fail", evolution)
        found = [row for batch in read(tmp_path / "a", made) for row in batch.to_pylist()]
        return [{name: value for name, value in row.items() if name[0] != "_"} for row in found]

    with pytest.raises(SpoutError, match="has the field 'more', which was not found at the start; to fix this: start"):
        names(FOUND, "n bigint")
    with pytest.raises(SpoutError, match=r"has no field 'name'; .*schema_evolution='add'"):
        names(Evolution(), "n bigint, name string")
    assert names(ADDING, "n bigint, name string") == [{"n": 1, "name": None}]
    assert names(evolve(ADDING, is_found=True), "name string, n bigint") == [{"n": 1, "name": None}]
    with pytest.raises(SpoutError, match="has no field 'name'"):
        names(ADDING, "name string")


WRONG_PARQUET: dict[str, tuple[Callable[[Path], object], str]] = {
    "no Parquet": (lambda path: path.write_bytes(b"PAR1 and no more"), r"can't be read as parquet: .*whole one"),
    "without a field": (lambda path: pq.write_table(pa.table({"name": ["a"]}), path), "has no field 'n'; it has name"),
    "another type": (
        lambda path: pq.write_table(pa.table({"name": ["a"], "n": ["12"]}), path),
        "part 0: the field 'n' is string, not int64: values of this type would change",
    ),
}


LONG: Any = {"type": "record", "name": "Row", "fields": [{"name": n, "type": "string"} for n in ("name", "n")]}
NO_TYPE: Any = {**AVRO, "fields": [{"name": "n", "type": ["int", "string"]}, AVRO["fields"][2]]}
WRONG_AVRO: dict[str, tuple[Callable[[Path], object], str]] = {
    "no Avro": (lambda path: path.write_bytes(b"Obj"), r"can't be read as avro: .*whole one"),
    "no records": (lambda path: avro(path, "long", 1), "can't be read as avro: its values are not records"),
    "without a field": (
        lambda path: avro(path, {**AVRO, "fields": AVRO["fields"][2:]}),
        "has no field 'n'; it has name",
    ),
    "another type": (
        lambda path: avro(path, LONG, {"name": "a", "n": "12"}),
        "part 0: the field 'n' is string, not int64: values of this type would change",
    ),
    "a type that Spark lacks": (lambda path: avro(path, NO_TYPE), "Spark has no type for .*; or leave the field out"),
    "cut off": (
        lambda path: path.write_bytes(avro(path, AVRO, {"extra": 1, "n": 1, "name": "x" * 99}).read_bytes()[:-30]),
        "part 0.*can't be read as avro",
    ),
}


WRONG = {"parquet": WRONG_PARQUET, "avro": WRONG_AVRO}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, files in WRONG.items() for name in files])
def test_a_file_that_does_not_fit_stops_by_name(tmp_path: Path, kind: str, name: str) -> None:
    make, message = WRONG[kind][name]
    make(tmp_path / f"a.{kind}")
    with pytest.raises(SpoutError, match=rf"a\.{kind}.*{message}"):
        rows(tmp_path / f"a.{kind}", kind)
