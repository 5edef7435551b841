"""The files of a transaction: Spark's tasks write them below the table; no reader sees them before its log has them.

::

    events/                                  the table
        _delta_log/
        trident-<uuid>/                      of each topology that writes here
            7/                               by the leader of epoch 7
                0/                           of the transactions below 1000
                    5-0-…-….parquet          attempt 0 of transaction 5
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from typing import Any, Self
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.fs as pfs
import pyarrow.parquet as pq
from attrs import define, field, frozen
from deltalake.fs import DeltaStorageHandler
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StringType, StructField, StructType

from coordinators.attempt import CommitToken
from coordinators.fingerprint import NO_ROWS, Fingerprint
from trident_py.errors import SinkError
from trident_py.interfaces.sinks import SinkTransaction
from trident_py.rows.row_hash import hash_rows
from trident_py.rows.schema import arrow_schema
from trident_py.sinks.delta.statistics import statistics
from trident_py.spark.frames import map_batches, rows_of_frame

ROW_GROUP_ROWS = 1 << 17
ROW_GROUP_BYTES = 64 << 20
_PER_FOLDER = 1000
_REPORT = StructType(
    [
        StructField("path", StringType()),
        StructField("size", LongType()),
        StructField("rows", LongType()),
        StructField("hash", StringType()),
        StructField("partition", StringType()),
        StructField("stats", StringType()),
    ]
)


@frozen(kw_only=True)
class StagedFile:
    """A file that was written, as a commit names it.

    Attributes:
        path: below the table.
        size: in bytes.
        content: its rows.
        partition: its value of each field that the table is partitioned by, as text.
        stats: JSON.
    """

    path: str
    size: int
    content: Fingerprint
    partition: Mapping[str, str | None]
    stats: str

    @classmethod
    def of(cls, report: Mapping[str, Any]) -> Self:
        """Return the file that a row of `_REPORT` tells of, as its task gave it."""
        return cls(
            path=report["path"],
            size=report["size"],
            content=Fingerprint(report["rows"], int(report["hash"])),
            partition=json.loads(report["partition"]),
            stats=report["stats"],
        )


@frozen
class Storage:
    """Where a table is.

    Attributes:
        uri: the table's.
        options: of the store, secrets among them.
    """

    uri: str
    options: Mapping[str, str] = field(factory=dict, repr=False)

    def files(self) -> pfs.FileSystem:
        """Return all that is below the table, by relative paths."""
        return pfs.PyFileSystem(DeltaStorageHandler(self.uri, dict(self.options)))


def folder(tx: SinkTransaction) -> str:
    """Return where the files of an attempt are."""
    return f"{_home(tx.key.uuid)}/{tx.epoch}/{tx.txid // _PER_FOLDER}"


def stem(tx: SinkTransaction) -> str:
    """Return what the names of the files of an attempt begin with."""
    return f"{tx.txid}-{tx.attempt.attempt_id}-"


def _home(uuid: str) -> str:
    return f"trident-{uuid}"


def of_transaction(uuid: str, txid: int, paths: Collection[str]) -> list[str]:
    """Return those of these paths that hold rows of a transaction."""
    begin, name = f"{_home(uuid)}/", f"{txid}-"
    return [path for path in paths if path.startswith(begin) and path.rpartition("/")[2].startswith(name)]


def stage(
    storage: Storage, tx: SinkTransaction, frame: DataFrame, partition_by: Sequence[str], required: Collection[str]
) -> list[StagedFile]:
    """Have Spark's tasks write the rows of ``frame``; fields in ``required`` must not be null.

    Raises:
        SinkError: what tasks have written isn't where this process looks.
    """
    task = WriteTask(
        storage=storage,
        prefix=f"{folder(tx)}/{stem(tx)}",
        schema=arrow_schema(frame.schema),
        partition_by=tuple(partition_by),
        required=tuple(required),
    )
    reports = rows_of_frame(map_batches(frame, frame.columns, task, _REPORT))
    staged = [StagedFile.of(each) for each in reports.to_pylist()]
    if gone := missing(storage, staged):
        raise SinkError(
            f"Spark's tasks have written {gone[0]!r} below {storage.uri!r}, and it is not there: its workers and this "
            f"process see different file systems under this path; mount one that they share"
        )
    return staged


def read(storage: Storage, staged: Collection[StagedFile], fields: StructType) -> pa.Table:
    """Return the rows of some files, on the driver; they have all fields."""
    files, schema = storage.files(), arrow_schema(fields)
    tables = [pq.read_table(each.path, filesystem=files, partitioning=None) for each in staged]
    return pa.concat_tables([schema.empty_table(), *(table.cast(schema) for table in tables)])


def content_of(staged: Collection[StagedFile]) -> Fingerprint:
    """Return all rows of some files."""
    return sum((each.content for each in staged), NO_ROWS)


def missing(storage: Storage, staged: Collection[StagedFile]) -> list[str]:
    """Return the files that are not there."""
    found = storage.files().get_file_info([each.path for each in staged]) if staged else []
    return [info.path for info in found if info.type != pfs.FileType.File]


def discard(storage: Storage, paths: Collection[str]) -> None:
    """Remove files that no commit names."""
    files = storage.files()
    for path in paths:
        with suppress(FileNotFoundError):
            files.delete_file(path)


def staged_by(storage: Storage, tx: SinkTransaction) -> list[str]:
    """Return the files of an attempt, as far as its tasks have come."""
    return [path for path in _listed(storage.files(), folder(tx)) if path.rpartition("/")[2].startswith(stem(tx))]


def sweep(storage: Storage, uuid: str, epoch: int, last: CommitToken | None) -> None:
    """Remove what leaders below ``epoch`` have staged and nobody can commit any more.

    That is all of transactions above the last one. What else is not in the table may have been, and be needed by
    those who read an older version of it.
    """
    files, txid = storage.files(), last.txid if last else 0
    for by_epoch in _listed(files, _home(uuid)):
        if int(by_epoch.rpartition("/")[2]) >= epoch:
            continue
        for thousand in _listed(files, by_epoch):
            if int(thousand.rpartition("/")[2]) >= txid // _PER_FOLDER:
                found = _listed(files, thousand)
                discard(storage, [each for each in found if int(each.rpartition("/")[2].partition("-")[0]) > txid])


def _listed(files: pfs.FileSystem, directory: str) -> list[str]:
    found = files.get_file_info(pfs.FileSelector(directory, allow_not_found=True))
    return [info.path for info in found]


# --- in Spark's tasks -------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class WriteTask:
    """Writes the rows of a partition of Spark's; gives a row of `_REPORT` for each file."""

    storage: Storage
    prefix: str
    schema: pa.Schema
    partition_by: tuple[str, ...]
    required: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write them."""
        files = self.storage.files()
        kept = [name for name in self.schema.names if name not in self.partition_by]
        written: dict[tuple[str | None, ...], FileWriter] = {}
        for batch in batches:
            rows = pa.Table.from_batches([batch]).rename_columns(self.schema.names).cast(self.schema)
            for name in self.required:
                if rows[name].null_count:
                    raise SinkError(
                        f"field {name!r} is null in a row, and the table {self.storage.uri!r} has it NOT NULL"
                    )
            for partition, part in _split(rows, self.partition_by):
                if partition not in written:
                    path = f"{self.prefix}{uuid4()}.parquet"
                    written[partition] = FileWriter(files, path, part.select(kept).schema)
                written[partition].write(part.select(kept), hash_rows(part))
        for partition, writer in written.items():
            yield self._report(dict(zip(self.partition_by, partition, strict=True)), writer)

    def _report(self, partition: Mapping[str, str | None], writer: FileWriter) -> pa.RecordBatch:
        size, metadata = writer.close()
        seen = writer.content
        told = [writer.path, size, seen.rows, str(seen.sum), json.dumps(partition), statistics(metadata)]
        return pa.RecordBatch.from_arrays(
            [pa.array([value], kind) for value, kind in zip(told, arrow_schema(_REPORT).types, strict=True)],
            _REPORT.names,
        )


@define
class FileWriter:
    """A Parquet file in row groups of a good size."""

    files: pfs.FileSystem
    path: str
    schema: pa.Schema
    content: Fingerprint = field(default=NO_ROWS, init=False)
    _waiting: list[pa.Table] = field(factory=list, init=False)
    _waiting_rows: int = field(default=0, init=False)
    _waiting_bytes: int = field(default=0, init=False)
    _stream: Any = field(init=False)
    _writer: pq.ParquetWriter = field(init=False)
    _footer: list[pq.FileMetaData] = field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        """Begin the file."""
        self._stream = self.files.open_output_stream(self.path)
        self._writer = pq.ParquetWriter(self._stream, self.schema, metadata_collector=self._footer)

    def write(self, rows: pa.Table, content: Fingerprint) -> None:
        """Take rows, and what they are with the fields that are not in the file."""
        self.content += content
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self._waiting_bytes += rows.nbytes
        if self._waiting_rows >= ROW_GROUP_ROWS or self._waiting_bytes >= ROW_GROUP_BYTES:
            self._write_group()

    def close(self) -> tuple[int, pq.FileMetaData]:
        """End the file; returns its size and its footer."""
        self._write_group()
        self._writer.close()
        size = self._stream.tell()
        self._stream.close()
        return size, self._footer[0]

    def _write_group(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting))
            self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0


def _split(rows: pa.Table, names: Sequence[str]) -> Iterator[tuple[tuple[str | None, ...], pa.Table]]:
    """Return the rows of each partition, by its values as text."""
    if not names or not rows.num_rows:
        if rows.num_rows:
            yield (), rows
        return
    values: list[list[str | None]] = []
    codes = np.zeros(rows.num_rows, np.int64)
    for name in names:
        encoded = rows[name].combine_chunks().dictionary_encode(null_encoding="encode")
        encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
        values.append([partition_text(each) for each in encoded.dictionary.to_pylist()])
        codes = codes * len(values[-1]) + encoded.indices.to_numpy()
    for code in np.unique(codes).tolist():
        numbers: list[str | None] = []
        rest = code
        for each in reversed(values):
            rest, place = divmod(rest, len(each))
            numbers.append(each[place])
        yield tuple(reversed(numbers)), rows.take(pa.array(np.flatnonzero(codes == code)))


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
    return str(value)
