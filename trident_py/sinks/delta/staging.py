"""The files of a Delta table: their writing by Spark's tasks, and their entries in the table's log."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pfs
import pyarrow.parquet as pq
from attrs import field, frozen
from deltalake.fs import DeltaStorageHandler
from pyspark.sql.types import StructType

from coordinators.values.canonical import Json
from trident_py.errors import SinkError
from trident_py.rows.schema import arrow_schema
from trident_py.sinks.delta.statistics import statistics
from trident_py.sinks.tables.staging import StagedFile, TableStorage, Values, WriteTask, split


@frozen
class Storage(TableStorage):
    """The place of a table.

    Attributes:
        uri: the address of the table.
        options: the options of the store, including secrets.
    """

    uri: str
    options: Mapping[str, str] = field(factory=dict, repr=False)

    def files(self) -> pfs.FileSystem:
        """Return the file system below the table, with relative paths.

        Raises:
            FileNotFoundError: the table's directory does not exist.
        """
        if "://" not in self.uri and not os.path.isdir(self.uri):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.uri)
        return pfs.PyFileSystem(DeltaStorageHandler(self.uri, dict(self.options)))


def read(storage: Storage, staged: Collection[StagedFile], fields: StructType | None = None) -> pa.Table:
    """Read the rows of some files on the driver, with these fields, or those of the first file."""
    files = storage.files()
    tables = [pq.read_table(each.path, filesystem=files, partitioning=None) for each in staged]
    schema = arrow_schema(fields) if fields else tables[0].schema
    return pa.concat_tables([schema.empty_table(), *(table.cast(schema) for table in tables)])


@frozen(kw_only=True)
class WriteDelta(WriteTask):
    """Writes the rows of one of Spark's partitions; the values of the table's partition fields are not in the files.

    Attributes:
        partition_by: the fields by which the files are divided.
        partitions: the partition fields of the table; files of rows to be merged are not divided by them.
    """

    partition_by: tuple[str, ...]
    partitions: tuple[str, ...] = ()

    def check_rows(self, rows: pa.Table) -> None:
        """Check that the table accepts these rows, and that its partitions can have their values.

        Raises:
            SinkError: they can't be written.
        """
        super().check_rows(rows)
        for name in dict.fromkeys([*self.partition_by, *self.partitions]):
            if bad := _no_partition(rows[name]):
                raise SinkError(
                    f"field {name!r} has the value {bad}, and the Delta table {self.storage.uri!r} is partitioned by "
                    f"it; to fix this: change such values before the sink, or partition by another field"
                )

    def split(self, rows: pa.Table) -> Iterator[tuple[tuple[str | None, ...], pa.Table]]:
        """Divide the rows by their partition values as text."""
        return split(rows, [Values.of(rows[name], partition_text) for name in self.partition_by])

    def in_file(self, rows: pa.Table) -> pa.Table:
        """Return the rows without the partition fields."""
        return rows.select([name for name in self.schema.names if name not in self.partition_by])

    def about(self, partition: tuple[str | None, ...], metadata: pq.FileMetaData) -> Mapping[str, Json]:
        """Return the partition and the statistics of a file, as JSON."""
        return {
            "partition": dict(zip(self.partition_by, partition, strict=True)),
            "stats": statistics(metadata),
            "required": list(self.required),
        }


def _no_partition(column: pa.ChunkedArray) -> str:
    """Return a value that readers of a partition would read as another one or as null; empty: no such value."""
    if pa.types.is_decimal(column.type):
        bad = next(
            (
                each
                for each in column.unique().to_pylist()
                if each is not None and each < 0 and each != each.to_integral_value()
            ),
            None,
        )
        return (
            "" if bad is None else f"{bad}, which deltalake can't read as a partition: it is below zero and no integer"
        )
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    if is_text and pc.any(pc.equal(column, "")).as_py():
        return "'', which is null as a partition of Delta's"
    return ""


def partition_text(value: object) -> str | None:
    """Return a partition's value as Delta stores it; an empty text is null there."""
    match value:
        case None | "":
            return None
        case bool():
            return "true" if value else "false"
        case datetime():
            zone = "Z" if value.tzinfo else ""
            return f"{value.replace(tzinfo=None).isoformat(sep='T' if zone else ' ', timespec='microseconds')}{zone}"
        case date():
            return value.isoformat()
        case Decimal():
            return format(value, "f")
        case bytes():  # a sink writes none; delta-rs returns them as the text in the log
            return value.decode() or None
    return str(value)
