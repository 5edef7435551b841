"""The files of an Iceberg table: their writing by Spark's tasks, by partition, and their entries in a snapshot."""

from __future__ import annotations

import base64
import io
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import pyarrow as pa
import pyarrow.fs as pfs
import pyarrow.parquet as pq
from attrs import field, frozen
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.io.pyarrow import (
    PyArrowFileIO,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record
from pyiceberg.types import IcebergType, PrimitiveType

from coordinators.values.canonical import Json
from trident_py.errors import SinkError
from trident_py.rows.schema import shown
from trident_py.sinks.tables.staging import StagedFile, TableStorage, Values, WriteTask, split

_MADE_OF = re.compile(r"(year|month|day|hour|bucket|truncate)\((?:(\d+), ?)?(.+)\)")
_OF_STORES = ("s3.", "adls.", "gcs.", "hdfs.", "client.")


class _MakingFolders(pfs.SubTreeFileSystem):  # type: ignore[misc]
    """Makes the folder of a file on a disk; object stores have no folders."""

    def open_output_stream(self, path: str, *arguments: Any, **options: Any) -> pa.NativeFile:
        if isinstance(self.base_fs, pfs.LocalFileSystem):
            self.create_dir(path.rpartition("/")[0], recursive=True)
        return super().open_output_stream(path, *arguments, **options)


@frozen
class IcebergStorage(TableStorage):
    """The place of a table's files.

    Attributes:
        uri: the address of the folder.
        properties: the properties of the store, including secrets; not those of the catalog.
    """

    uri: str
    properties: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, metadata: TableMetadata, properties: Mapping[str, Any]) -> IcebergStorage:
        """Return the storage of a table; ``properties`` are those of its files and of its catalog."""
        uri = metadata.properties.get("write.data.path") or f"{metadata.location.rstrip('/')}/data"
        return cls(uri.rstrip("/"), {key: each for key, each in properties.items() if key.startswith(_OF_STORES)})

    def files(self) -> pfs.FileSystem:
        """Return the file system below the folder, with relative paths."""
        scheme, netloc, path = PyArrowFileIO.parse_location(self.uri)
        return _MakingFolders(path, PyArrowFileIO(dict(self.properties)).fs_by_scheme(scheme, netloc))


@frozen
class PartitionColumn:
    """A column that a table is partitioned by.

    Attributes:
        name: the name of the column.
        source: its type.
        field: the transform of its values.
    """

    name: str
    source: IcebergType
    field: PartitionField

    @classmethod
    def all_of(cls, spec: PartitionSpec, schema: Schema) -> tuple[PartitionColumn, ...]:
        """Return the partition columns of a table; the name of a column inside another one contains a dot."""
        return tuple(
            cls(schema.find_column_name(each.source_id) or "", schema.find_type(each.source_id), each)
            for each in spec.fields
        )

    def __str__(self) -> str:
        """Return it as written in a definition: ``day``, ``hour(at)``, ``bucket(16, user)``."""
        name, _, width = str(self.field.transform).rstrip("]").partition("[")
        if name == "identity":
            return self.name
        return f"{name}({width}, {self.name})" if width else f"{name}({self.name})"

    @property
    def result(self) -> PrimitiveType:
        """The type of the partition's values."""
        return cast("PrimitiveType", self.field.transform.result_type(self.source))

    def values(self, rows: pa.Table) -> Values:
        """Return the partitions of rows, each as bytes in hexadecimal digits; None: null."""
        made: Callable[[Any], Any] = self.field.transform.transform(self.source)
        column = rows[self.name]
        if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
            column = column.cast(pa.int32() if pa.types.is_date(column.type) else pa.int64())

        def told(value: Any) -> str | None:
            try:
                partition = made(value)
                return None if partition is None else to_bytes(self.result, partition).hex()
            except (ArithmeticError, TypeError, ValueError, struct.error) as error:
                raise SinkError(
                    f"field {self.name!r} has the value {shown(value)}, of which Iceberg can't make the partition "
                    f"{self}: {error}; to fix this: change such values before the sink, or partition the table "
                    f"otherwise"
                ) from error

        return Values.of(column, told)

    def value(self, told: str | None) -> Any:
        """Return a partition in the form of a manifest."""
        return None if told is None else from_bytes(self.result, bytes.fromhex(told))


@frozen(kw_only=True)
class WriteIceberg(WriteTask):
    """Writes the rows of one of Spark's partitions, with the ids of the table's fields.

    Attributes:
        partitions: the partitions of the table.
        table: its fields.
        layout: identifies these partitions and fields; it changes if another program changes them.
    """

    partitions: tuple[PartitionColumn, ...]
    table: Schema
    layout: str

    def split(self, rows: pa.Table) -> Iterator[tuple[tuple[str | None, ...], pa.Table]]:
        """Divide the rows by their partitions."""
        return split(rows, [each.values(rows) for each in self.partitions])

    def in_file(self, rows: pa.Table) -> pa.Table:
        """Return all fields that the rows have, in the table's order and types."""
        wanted = schema_to_pyarrow(self.table)
        schema = pa.schema([each for each in wanted if each.name in rows.column_names])
        return rows.select(schema.names).cast(schema)

    def about(self, partition: tuple[str | None, ...], metadata: pq.FileMetaData) -> Mapping[str, Json]:
        """Return the partition and the footer of a file, so that a commit needs to read no file."""
        footer = io.BytesIO()
        metadata.write_metadata_file(footer)
        told = base64.b64encode(footer.getvalue()).decode()
        return {"layout": self.layout, "partition": list(partition), "footer": told}


def data_file(staged: StagedFile, uri: str, metadata: TableMetadata) -> DataFile:
    """Return a staged file in the form of a manifest, with its statistics."""
    footer = pq.read_metadata(io.BytesIO(base64.b64decode(staged.about["footer"])))
    schema, spec = metadata.schema(), metadata.spec()
    statistics = data_file_statistics_from_parquet_metadata(
        parquet_metadata=footer,
        stats_columns=compute_statistics_plan(schema, metadata.properties),
        parquet_column_mapping=parquet_path_to_id_mapping(schema),
    )
    partitions = zip(PartitionColumn.all_of(spec, schema), staged.about["partition"], strict=True)
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{uri}/{staged.path}",
        file_format=FileFormat.PARQUET,
        partition=Record(*(column.value(told) for column, told in partitions)),
        file_size_in_bytes=staged.size,
        sort_order_id=None,
        spec_id=metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )


def made_of(text: str, names: list[str]) -> tuple[str, str]:
    """Return the field and the transform of a partition: ``bucket(16, user)`` is ``bucket[16]`` of ``user``."""
    found = None if text in names else _MADE_OF.fullmatch(text)
    if found is None:
        return text, "identity"
    transform, width, column = found.groups()
    return column, f"{transform}[{width}]" if width else transform
