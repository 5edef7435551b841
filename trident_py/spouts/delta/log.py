"""The log of a Delta table: the files that each version has added."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pfs
import pyarrow.parquet as pq
from attrs import frozen
from deltalake import DeltaTable
from pyspark.sql.types import StructType

from trident_py.errors import FailedException, SpoutError
from trident_py.rows.schema import arrow_schema
from trident_py.sinks.delta.staging import Storage, partition_text

_ESCAPED = re.compile(r"(\\u00[0-9A-Fa-f]{2})+")


@frozen
class DataFile:
    """A file of rows that a version has added.

    Attributes:
        path: relative to the table, or a URL.
        size: in bytes.
        partition: the values that all of its rows have, as text, by field.
    """

    path: str
    size: int
    partition: Mapping[str, str | None]


@frozen
class DeltaLog:
    """The versions of a table."""

    storage: Storage

    def exists(self) -> bool:
        """Return whether the table exists."""
        return DeltaTable.is_deltatable(self.storage.uri, storage_options=dict(self.storage.options))

    def table(self, version: int | None = None) -> DeltaTable:
        """Return the table, as it is now or was at a version."""
        return DeltaTable(self.storage.uri, version=version, storage_options=dict(self.storage.options))

    def fields(self) -> StructType:
        """Return the current fields of the table.

        Raises:
            SpoutError: its files use other names of columns.
        """
        table = self.table()
        if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
            raise SpoutError(
                f"the Delta table {self.storage.uri!r} has other names of columns in its files (column mapping), "
                f"which this spout can't read; to fix this: copy it to a table without column mapping"
            )
        return StructType.fromJson(json.loads(table.schema().to_json()))

    def snapshot(self, version: int) -> list[DataFile]:
        """Return all files of a version, in the order of their paths.

        Raises:
            SpoutError: a file has deleted rows.
        """
        table = self.table(version)
        if pa.table(table.deletion_vectors()).num_rows:
            raise self._unreadable(version, "has deletion vectors")
        rows = pa.table(table.get_add_actions()).to_pylist()
        found = [
            DataFile(
                unquote(row["path"]),
                row["size_bytes"],
                {name: partition_text(each) for name, each in (row.get("partition") or {}).items()},
            )
            for row in rows
        ]
        return sorted(found, key=lambda file: file.path)

    def added(self, version: int) -> list[DataFile]:
        """Return the files with new rows that a version has added, in the order of its log.

        Raises:
            SpoutError: the version has removed rows, or the log doesn't have it any more.
        """
        name = f"_delta_log/{version:020}.json"
        try:
            with self.storage.files().open_input_stream(name) as stream:
                actions = [json.loads(line) for line in stream.read().decode().splitlines() if line.strip()]
        except FileNotFoundError as error:
            raise SpoutError(
                f"the log of the Delta table {self.storage.uri!r} doesn't have version {version} any more: it was "
                f"cleaned up (delta.logRetentionDuration) before it was read; to fix this: start a new topology, "
                f"which first reads all rows of the table"
            ) from error
        changes = [(kind, action[kind]) for action in actions for kind in ("add", "remove") if kind in action]
        new = [(kind, file) for kind, file in changes if file.get("dataChange", True)]
        if any(kind == "remove" for kind, _ in new):
            raise self._unreadable(version, "removes rows, by a delete, an update, a merge or an overwrite")
        if any(file.get("deletionVector") for _, file in new):
            raise self._unreadable(version, "has deletion vectors")
        return [DataFile(unquote(file["path"]), file["size"], file.get("partitionValues") or {}) for _, file in new]

    def _unreadable(self, version: int, what: str) -> SpoutError:
        return SpoutError(
            f"version {version} of the Delta table {self.storage.uri!r} {what}, and this spout reads added rows only, "
            f"no changes of others; to fix this: only append to the table that it reads, or begin after that version "
            f"with a new topology and start_version={version + 1}"
        )


@frozen
class FileReader:
    """Reads the rows of a file, in a task."""

    storage: Storage
    fields: StructType

    def __call__(self, file: DataFile) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file, with null for fields that it lacks.

        Raises:
            SpoutError: the file is gone, or a value doesn't have the field's type.
            FailedException: it can't be reached.
        """
        try:
            yield from self._read(file)
        except FileNotFoundError as error:
            log = self.storage.files().get_file_info("_delta_log")
            if log.type == pfs.FileType.NotFound:
                raise FailedException(f"the Delta table {self.storage.uri!r} is not there just now: {error}") from error
            raise SpoutError(
                f"{file.path!r} of the Delta table {self.storage.uri!r} is gone, before it was read: a vacuum has "
                f"removed it; to fix this: restore it, or continue with a new topology and start_version="
            ) from error
        except OSError as error:
            raise FailedException(f"{file.path!r} of {self.storage.uri!r} can't be read just now: {error}") from error

    def _read(self, file: DataFile) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema(self.fields)
        with self.storage.files().open_input_file(file.path) as stream:
            # Spark writes INT96, which pyarrow takes for nanoseconds by default: of the years 1677 to 2262 only
            parquet = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")
            there = [name for name in schema.names if name in parquet.schema_arrow.names]
            for batch in parquet.iter_batches(columns=there):
                columns = [self._column(batch, each, file, is_there=each.name in there) for each in schema]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _column(self, batch: pa.RecordBatch, field: pa.Field, file: DataFile, *, is_there: bool) -> Any:
        text = file.partition.get(field.name)
        try:
            if is_there:
                return batch.column(field.name).cast(field.type)
            if not text:  # which is null, of each type
                return pa.nulls(batch.num_rows, field.type)
            return pa.repeat(pa.scalar(_value(text, field.type), field.type), batch.num_rows)
        except (ArithmeticError, NotImplementedError, ValueError) as error:
            found = batch.schema.field(field.name).type if is_there else f"the partition {text!r}"
            raise SpoutError(
                f"field {field.name!r} was {field.type} in the Delta table {self.storage.uri!r} when the topology was "
                f"declared, and is {found} in {file.path!r}: {error}; to fix this: start a new topology, which reads "
                f"the table as it is now"
            ) from error


def _value(text: str, kind: pa.DataType) -> Any:
    """Return the value of a partition's text, in the type of its field."""
    if pa.types.is_boolean(kind):
        return text == "true"
    if pa.types.is_integer(kind):
        return int(text)
    if pa.types.is_floating(kind):
        return float(text)
    if pa.types.is_decimal(kind):
        return Decimal(text)
    if pa.types.is_date(kind):
        return datetime.date.fromisoformat(text)
    if pa.types.is_timestamp(kind):
        moment = datetime.datetime.fromisoformat(text)
        return moment.replace(tzinfo=moment.tzinfo or datetime.UTC) if kind.tz else moment
    if pa.types.is_binary(kind):
        return _binary(text)
    return text


def _binary(text: str) -> bytes:
    """Return the bytes of a partition: delta-rs writes each byte as six characters, other writers use UTF-8."""
    if _ESCAPED.fullmatch(text):
        return bytes(int(digits, 16) for digits in text.split("\\u")[1:])
    return text.encode()
