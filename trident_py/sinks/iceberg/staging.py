"""The files of an Iceberg table: what Spark's tasks write, by the table's partitions, and how a snapshot names each."""

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
    """Makes the folder of a file on a disk; stores of objects have none."""

    def open_output_stream(self, path: str, *arguments: Any, **options: Any) -> pa.NativeFile:
        if isinstance(self.base_fs, pfs.LocalFileSystem):
            self.create_dir(path.rpartition("/")[0], recursive=True)
        return super().open_output_stream(path, *arguments, **options)


@frozen
class IcebergStorage(TableStorage):
    """Where the files of a table are.

    Attributes:
        uri: of the folder.
        properties: of the store, secrets among them; not those of the catalog.
    """

    uri: str
    properties: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, metadata: TableMetadata, properties: Mapping[str, Any]) -> IcebergStorage:
        """Return that of a table; these are the properties of its files and of its catalog."""
        uri = metadata.properties.get("write.data.path") or f"{metadata.location.rstrip('/')}/data"
        return cls(uri.rstrip("/"), {key: each for key, each in properties.items() if key.startswith(_OF_STORES)})

    def files(self) -> pfs.FileSystem:
        """Return all that is there, by relative paths."""
        scheme, netloc, path = PyArrowFileIO.parse_location(self.uri)
        return _MakingFolders(path, PyArrowFileIO(dict(self.properties)).fs_by_scheme(scheme, netloc))


@frozen
class PartitionColumn:
    """A column that a table is partitioned by.

    Attributes:
        name: of the column.
        source: its type.
        field: what is made of its values.
    """

    name: str
    source: IcebergType
    field: PartitionField

    @classmethod
    def all_of(cls, spec: PartitionSpec, schema: Schema) -> tuple[PartitionColumn, ...]:
        """Return those of a table; a column inside another one has a dot in its name."""
        return tuple(
            cls(schema.find_column_name(each.source_id) or "", schema.find_type(each.source_id), each)
            for each in spec.fields
        )

    def __str__(self) -> str:
        """Write it as a definition has it: ``day``, ``hour(at)``, ``bucket(16, user)``."""
        name, _, width = str(self.field.transform).rstrip("]").partition("[")
        if name == "identity":
            return self.name
        return f"{name}({width}, {self.name})" if width else f"{name}({self.name})"

    @property
    def result(self) -> PrimitiveType:
        """The type of what is made."""
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
        """Return a partition as a manifest has it."""
        return None if told is None else from_bytes(self.result, bytes.fromhex(told))


@frozen(kw_only=True)
class WriteIceberg(WriteTask):
    """Writes the rows of a partition of Spark's, with the ids that the fields have in the table.

    Attributes:
        partitions: of the table.
        table: its fields.
        layout: tells these two from what others make of them later.
    """

    partitions: tuple[PartitionColumn, ...]
    table: Schema
    layout: str

    def split(self, rows: pa.Table) -> Iterator[tuple[tuple[str | None, ...], pa.Table]]:
        """Divide them by what the table's partitions make of them."""
        return split(rows, [each.values(rows) for each in self.partitions])

    def in_file(self, rows: pa.Table) -> pa.Table:
        """Return all fields that the rows have, in the table's order and types."""
        wanted = schema_to_pyarrow(self.table)
        schema = pa.schema([each for each in wanted if each.name in rows.column_names])
        return rows.select(schema.names).cast(schema)

    def about(self, partition: tuple[str | None, ...], metadata: pq.FileMetaData) -> Mapping[str, Json]:
        """Return its partition, and its footer: so a commit needs to read no file."""
        footer = io.BytesIO()
        metadata.write_metadata_file(footer)
        told = base64.b64encode(footer.getvalue()).decode()
        return {"layout": self.layout, "partition": list(partition), "footer": told}


def data_file(staged: StagedFile, uri: str, metadata: TableMetadata) -> DataFile:
    """Return a staged file as a manifest names it, with its statistics."""
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
    """Return the field that a partition is made of, and how: ``bucket(16, user)`` is ``bucket[16]`` of ``user``."""
    found = None if text in names else _MADE_OF.fullmatch(text)
    if found is None:
        return text, "identity"
    transform, width, column = found.groups()
    return column, f"{transform}[{width}]" if width else transform
