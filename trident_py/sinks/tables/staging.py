"""Staged files: Spark's tasks write them next to a table, and no reader sees them before a commit names them.

Their paths:

- ``trident-<uuid>/``: the files of one topology.
- ``trident-<uuid>/7/``: those of the leader of epoch 7.
- ``trident-<uuid>/7/0/``: those of the transactions below 1000.
- ``trident-<uuid>/7/0/5-0-….parquet``: one of attempt 0 of transaction 5.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pfs
import pyarrow.parquet as pq
from attrs import define, field, frozen
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StringType, StructField, StructType

from coordinators.values.canonical import NO_ROWS, Fingerprint, Json
from trident_py.errors import FailedException, SinkError
from trident_py.interfaces.sinks import SinkTransaction
from trident_py.rows.row import hash_rows
from trident_py.rows.schema import arrow_schema
from trident_py.sinks.tables.store_errors import store_errors
from trident_py.spark.frames import map_batches, rows_of_frame
from trident_py.worker.failures import by_state

ROW_GROUP_ROWS = 1 << 17
ROW_GROUP_BYTES = 64 << 20
LOOKED_AT_ROWS = 10_000
"""The number of rows by which repetitions in a column are estimated."""

_PER_FOLDER = 1000
_REPORT = StructType(
    [
        StructField("path", StringType()),
        StructField("size", LongType()),
        StructField("rows", LongType()),
        StructField("hash", StringType()),
        StructField("about", StringType()),
    ]
)


@frozen(kw_only=True)
class StagedFile:
    """A written file, as a commit names it.

    Attributes:
        path: relative to the `TableStorage`.
        size: in bytes.
        content: its rows.
        about: more facts that the format of the table needs.
    """

    path: str
    size: int
    content: Fingerprint
    about: Mapping[str, Any]

    @classmethod
    def of(cls, report: Mapping[str, Any]) -> Self:
        """Return the file that a row of `_REPORT` describes."""
        content = Fingerprint(report["rows"], int(report["hash"]))
        return cls(path=report["path"], size=report["size"], content=content, about=json.loads(report["about"]))


class TableStorage(ABC):
    """The place of a table's files; it is sent to Spark's tasks."""

    uri: str

    @abstractmethod
    def files(self) -> pfs.FileSystem:
        """Return the file system at the place, with relative paths; it makes the folders of files that are written."""


def folder(tx: SinkTransaction) -> str:
    """Return the folder of an attempt's files."""
    return f"{home(tx.key.uuid)}/{tx.epoch}/{tx.txid // _PER_FOLDER}"


def stem(tx: SinkTransaction) -> str:
    """Return the beginning of the names of an attempt's files."""
    return f"{tx.txid}-{tx.attempt.attempt_id}-"


def prefix(tx: SinkTransaction) -> str:
    """Return the beginning of the paths of an attempt's files."""
    return f"{folder(tx)}/{stem(tx)}"


def home(uuid: str) -> str:
    """Return the folder of a topology's files."""
    return f"trident-{uuid}"


def of_transaction(uuid: str, txid: int, paths: Collection[str]) -> list[str]:
    """Return the paths that hold rows of a transaction."""
    begin, name = f"{home(uuid)}/", f"{txid}-"
    return [path for path in paths if path.startswith(begin) and path.rpartition("/")[2].startswith(name)]


def stage(storage: TableStorage, frame: DataFrame, task: WriteTask) -> list[StagedFile]:
    """Write the rows of ``frame`` by Spark's tasks.

    Raises:
        FailedException: as `ensure_written` does.
    """
    reports = rows_of_frame(map_batches(frame, frame.columns, task, _REPORT, classify=by_state))
    staged = [StagedFile.of(each) for each in reports.to_pylist()]
    ensure_written(storage, staged)
    return staged


def ensure_written(storage: TableStorage, staged: Collection[StagedFile]) -> None:
    """Check that this process sees the files of Spark's tasks.

    Raises:
        FailedException: it doesn't see all of them. The next attempt writes new files.
    """
    if gone := missing(storage, staged):
        raise FailedException(
            f"Spark's tasks have written {gone[0]!r} below {storage.uri!r}, and it is not there: either a cleanup with "
            f"too short a retention has removed it (VACUUM, remove_orphan_files), or Spark's workers and this process "
            f"see different file systems under this path; to fix this: keep files for longer, or mount a file system "
            f"that they share"
        )


def content_of(staged: Collection[StagedFile]) -> Fingerprint:
    """Return the total of the rows of some files."""
    return sum((each.content for each in staged), NO_ROWS)


def missing(storage: TableStorage, staged: Collection[StagedFile]) -> list[str]:
    """Return the paths of files that do not exist."""
    found = storage.files().get_file_info([each.path for each in staged]) if staged else []
    return [info.path for info in found if info.type != pfs.FileType.File]


def discard(storage: TableStorage, paths: Collection[str]) -> None:
    """Remove files that no commit names."""
    files = storage.files()
    for path in paths:
        with suppress(FileNotFoundError):
            files.delete_file(path)


def staged_by(storage: TableStorage, tx: SinkTransaction) -> list[str]:
    """Return the files that the tasks of an attempt have written so far."""
    return [path for path in _listed(storage.files(), folder(tx)) if path.rpartition("/")[2].startswith(stem(tx))]


def sweep(storage: TableStorage, uuid: str, epoch: int, *, above: int) -> None:
    """Remove the staged files of leaders below ``epoch`` for transactions above ``above``, which no commit needs.

    Other files that are not in the table may belong to older versions of it, which readers may need.
    """
    files = storage.files()
    for by_epoch in _listed(files, home(uuid)):
        if int(by_epoch.rpartition("/")[2]) >= epoch:
            continue
        for thousand in _listed(files, by_epoch):
            if int(thousand.rpartition("/")[2]) >= above // _PER_FOLDER:
                found = _listed(files, thousand)
                discard(storage, [each for each in found if int(each.rpartition("/")[2].partition("-")[0]) > above])


def _listed(files: pfs.FileSystem, directory: str) -> list[str]:
    found = files.get_file_info(pfs.FileSelector(directory, allow_not_found=True))
    return [info.path for info in found]


# --- in Spark's tasks -------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class WriteTask(ABC):
    """Writes the rows of one of Spark's partitions; yields a row of `_REPORT` for each file.

    Attributes:
        storage: the place of the files.
        prefix: the beginning of the files' paths.
        schema: the schema of the rows.
        required: fields that must not be null.
    """

    storage: TableStorage
    prefix: str
    schema: pa.Schema
    required: tuple[str, ...]

    @abstractmethod
    def split(self, rows: pa.Table) -> Iterator[tuple[Hashable, pa.Table]]:
        """Yield the rows of each of the table's partitions, with its values."""

    @abstractmethod
    def in_file(self, rows: pa.Table) -> pa.Table:
        """Return the rows in the form of the files."""

    @abstractmethod
    def about(self, partition: Any, metadata: pq.FileMetaData) -> Mapping[str, Json]:
        """Return the facts that a commit needs to know of a file of these rows, with this footer."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows, and yield a report for each file."""
        try:
            files = self.storage.files()
        except FileNotFoundError as error:
            raise SinkError(
                f"the table {self.storage.uri!r} is gone; to fix this: restore it, or `trident reset` the topology and "
                f"give the sink another table"
            ) from error
        written: dict[Hashable, FileWriter] = {}
        for batch in batches:
            rows = pa.Table.from_batches([batch]).rename_columns(self.schema.names).cast(self.schema)
            self.check_rows(rows)
            with store_errors("a task that writes rows", self.storage.uri):
                self._write(files, written, rows)
        for partition, writer in written.items():
            with store_errors("a task that writes rows", self.storage.uri):
                report = self._report(partition, writer)
            yield report

    def check_rows(self, rows: pa.Table) -> None:
        """Check that the table accepts these rows.

        Raises:
            SinkError: it doesn't.
        """
        for name in self.required:
            if rows[name].null_count:
                raise SinkError(f"field {name!r} is null in a row, and the table {self.storage.uri!r} has it NOT NULL")

    def _write(self, files: pfs.FileSystem, written: dict[Hashable, FileWriter], rows: pa.Table) -> None:
        for partition, part in self.split(rows):
            kept = self.in_file(part)
            if partition not in written:
                written[partition] = FileWriter(files, f"{self.prefix}{uuid4()}.parquet", kept.schema)
            written[partition].write(kept, hash_rows(part))

    def _report(self, partition: Hashable, writer: FileWriter) -> pa.RecordBatch:
        size, metadata = writer.close()
        seen = writer.content
        told = [writer.path, size, seen.rows, str(seen.sum), json.dumps(self.about(partition, metadata))]
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
    _writer: pq.ParquetWriter | None = field(default=None, init=False)
    _footer: list[pq.FileMetaData] = field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        """Open the file."""
        self._stream = self.files.open_output_stream(self.path)

    def write(self, rows: pa.Table, content: Fingerprint) -> None:
        """Add rows; ``content`` is their fingerprint, including the fields that are not in the file."""
        self.content += content
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self._waiting_bytes += rows.nbytes
        if self._waiting_rows >= ROW_GROUP_ROWS or self._waiting_bytes >= ROW_GROUP_BYTES:
            self._write_group()

    def close(self) -> tuple[int, pq.FileMetaData]:
        """End the file; return its size in bytes and its footer."""
        self._write_group()
        self._begun(self.schema.empty_table()).close()
        size = self._stream.tell()
        self._stream.close()
        return size, self._footer[0]

    def _write_group(self) -> None:
        if self._waiting:
            rows = pa.concat_tables(self._waiting)
            self._begun(rows).write_table(rows)
            self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0

    def _begun(self, rows: pa.Table) -> pq.ParquetWriter:
        """Return the writer, which is made with its first rows."""
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._stream, self.schema, metadata_collector=self._footer, use_dictionary=repeating(rows)
            )
        return self._writer


def repeating(rows: pa.Table) -> bool | list[str]:
    """Return the columns that should have a dictionary in the file: columns with repeated values.

    For other columns, a dictionary makes the file larger, and writing takes three times as long. If a column is nested,
    all columns have a dictionary, because its leaves have other names.
    """
    if any(pa.types.is_nested(kind) for kind in rows.schema.types):
        return True
    some = rows.slice(0, LOOKED_AT_ROWS)
    return [
        name
        for name, column in zip(some.column_names, some.columns, strict=True)
        if 2 * pc.count_distinct(column, mode="all").as_py() <= some.num_rows
    ]


def split(rows: pa.Table, columns: Sequence[Values]) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
    """Yield the rows of each partition, with its values, one of each column."""
    if not columns:
        if rows.num_rows:
            yield (), rows
        return
    codes = np.zeros(rows.num_rows, np.int64)
    for column in columns:
        codes = codes * len(column.values) + column.codes
    for code in np.unique(codes).tolist():
        found: list[Any] = []
        rest = code
        for column in reversed(columns):
            rest, place = divmod(rest, len(column.values))
            found.append(column.values[place])
        yield tuple(reversed(found)), rows.take(pa.array(np.flatnonzero(codes == code)))


@frozen
class Values:
    """The values of a column by which rows are divided.

    Attributes:
        values: the distinct values.
        codes: for each row, the position of its value.
    """

    values: Sequence[Any]
    codes: np.ndarray

    @classmethod
    def of(cls, column: pa.ChunkedArray, told: Callable[[Any], Any]) -> Self:
        """Return the values of ``told`` for a column."""
        encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
        values = [told(each) for each in encoded.dictionary.to_pylist()]
        places = {value: place for place, value in enumerate(dict.fromkeys(values))}
        return cls(list(places), np.array([places[value] for value in values], np.int64)[encoded.indices.to_numpy()])
