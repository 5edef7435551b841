"""Odd values in Delta and Iceberg tables: as values, partitions and keys; read by deltalake and pyiceberg."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from attrs import define, field
from deltalake import DeltaTable, write_deltalake

from tests.unit.trident_py.sinks.delta import tables as delta
from tests.unit.trident_py.sinks.iceberg import tables as iceberg
from tests.unit.trident_py.spouts.delta.test_spout import run
from tests.values.odd import ODD, same
from tests.values.reading import spark_value, type_of
from tests.values.store import Store, check_type
from trident_py import DeltaSink, IcebergSink
from trident_py.rows.schema import arrow_schema, arrow_table, schema_of


@define
class TableStore(Store):
    """A table in a folder of a test's own, a new one for each batch."""

    directory: Path
    path: Path = field(init=False)
    ddl: str = field(init=False)

    def new(self, ddl: str) -> str:
        """Return the fields of a new place."""
        self.path, self.ddl = self.directory / uuid4().hex, ddl
        return f"n int, v {ddl}"

    def by_number(self, table: pa.Table) -> list[Any]:
        """Return the values of ``v`` in the order of ``n``."""
        rows = table.select(["n", "v"]).to_pylist()
        return [spark_value(row["v"], type_of(self.ddl)) for row in sorted(rows, key=lambda row: row["n"])]


@define
class DeltaValues(TableStore):
    """`DeltaSink` with a field of the type, read by deltalake."""

    options: dict[str, Any] = field(factory=dict)

    def write(self, ddl: str, values: Sequence[Any]) -> None:
        schema = self.new(ddl)
        names = {"partition_by": self.options.get("partition_by", ()), "keys": self.options.get("keys", ())}
        mode = "merge" if names["keys"] else "append"
        DeltaSink(self.path, mode=mode, **names).check_fields(schema_of(schema))  # type: ignore[arg-type]
        leader = delta.Leader(self.path, schema=schema, **names)
        leader.commit(1, *enumerate(values))

    def read(self) -> list[Any]:
        return self.by_number(DeltaTable(self.path).to_pyarrow_table())


@define
class DeltaKeys(DeltaValues):
    """`DeltaSink` that merges by the field, each value in a transaction of its own, twice: one row a key."""

    given: list[Any] = field(factory=list)

    def write(self, ddl: str, values: Sequence[Any]) -> None:
        schema, self.given = self.new(ddl), list(values)
        DeltaSink(self.path, mode="merge", keys="v").check_fields(schema_of(schema))
        leader = delta.Leader(self.path, schema=schema, keys=("v",))
        for txid, value in enumerate([*values, *values], 1):
            leader.commit(txid, (txid, value))

    def read(self) -> list[Any]:
        """Return, for each value, the key that it has in the table, once."""
        rows = DeltaTable(self.path).to_pyarrow_table().to_pylist()
        keys = [spark_value(row["v"], type_of(self.ddl)) for row in rows]
        found = [[key for key in keys if self.same(key, value, self.ddl)] for value in self.given]
        assert all(len(each) == 1 for each in found), f"keys of {self.given}: {keys}"
        return [each[0] for each in found]

    def same(self, stored: Any, value: Any, ddl: str) -> bool:
        """-0.0 is the key 0.0."""
        return same(stored, value) or (stored == value == 0 and isinstance(value, float))


@define
class IcebergValues(TableStore):
    """`IcebergSink` with a field of the type, read by pyiceberg; lists of structs by pyarrow.

    pyiceberg 0.12 reads a null that should be a list of structs as an empty list, also of its own files.
    """

    partition_by: tuple[str, ...] = ()

    def write(self, ddl: str, values: Sequence[Any]) -> None:
        schema = self.new(ddl)
        sink = IcebergSink("web.events", catalog=iceberg.catalog_at(self.path), partition_by=self.partition_by)
        sink.check_fields(schema_of(schema))
        leader = iceberg.Leader(self.path, schema=schema, partition_by=self.partition_by)
        leader.commit(1, *enumerate(values))

    def read(self) -> list[Any]:
        scan = iceberg.table_at(self.path).scan()
        if "array<struct" not in self.ddl:
            return self.by_number(scan.to_arrow())
        files = [each.file.file_path.removeprefix("file://") for each in scan.plan_files()]
        return self.by_number(pa.concat_tables([pq.ParquetFile(each).read() for each in files]))


@define
class DeltaSource(TableStore):
    """`DeltaSpout` of a table that deltalake has written: its first batch, and one of its versions."""

    start_version: int | None = None
    partition_by: list[str] = field(factory=list)

    def write(self, ddl: str, values: Sequence[Any]) -> None:
        schema = schema_of(self.new(ddl))
        table = arrow_table(list(enumerate(values)), schema)
        write_deltalake(self.path, table.cast(arrow_schema(schema)), partition_by=self.partition_by)

    def read(self) -> list[Any]:
        batches = run(self.path, start_version=self.start_version).batches()
        rows = sorted((row for batch in batches for row in batch), key=lambda row: row[0])
        return [spark_value(value, type_of(self.ddl)) for _, value in rows]


@pytest.mark.parametrize("ddl", ODD)
def test_values_of_a_delta_table_stay_as_they_are(tmp_path: Path, ddl: str) -> None:
    check_type(DeltaValues(tmp_path), "DeltaSink", ddl)


@pytest.mark.parametrize("ddl", ODD)
def test_partitions_of_a_delta_table_stay_as_they_are(tmp_path: Path, ddl: str) -> None:
    check_type(DeltaValues(tmp_path, options={"partition_by": ("v",)}), "DeltaSink, partitions", ddl)


@pytest.mark.parametrize("ddl", ODD)
def test_keys_of_a_delta_table_stay_as_they_are_and_are_there_once(tmp_path: Path, ddl: str) -> None:
    check_type(DeltaKeys(tmp_path), "DeltaSink, keys", ddl)


@pytest.mark.parametrize("ddl", ODD)
@pytest.mark.parametrize("start", [None, 0], ids=["first batch", "versions"])
def test_values_of_a_delta_table_are_given_as_they_are(tmp_path: Path, ddl: str, start: int | None) -> None:
    check_type(DeltaSource(tmp_path, start_version=start), "DeltaSpout", ddl)


@pytest.mark.parametrize("ddl", ODD)
def test_values_of_an_iceberg_table_stay_as_they_are(tmp_path: Path, ddl: str) -> None:
    check_type(IcebergValues(tmp_path), "IcebergSink", ddl)


@pytest.mark.parametrize("ddl", ODD)
def test_partitions_of_an_iceberg_table_stay_as_they_are(tmp_path: Path, ddl: str) -> None:
    check_type(IcebergValues(tmp_path, partition_by=("v",)), "IcebergSink, partitions", ddl)
