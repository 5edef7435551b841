"""The formats of files that are read as a whole: Parquet, ORC, Avro, and the bytes themselves."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
from attrs import frozen
from pyspark.sql import types as t

from trident_py.errors import SpoutError, TopologyError
from trident_py.rows.avro import avro_fields, avro_reader, fastavro_module
from trident_py.rows.casting import cast_exactly
from trident_py.rows.moments import moment
from trident_py.rows.schema import arrow_schema, arrow_table, schema_of, shown
from trident_py.spouts.files.calendars import check_calendar, is_by_old_spark
from trident_py.spouts.files.content import check_reached
from trident_py.spouts.files.evolution import Evolution
from trident_py.spouts.files.places import Place, WholeFile

CHUNK_ROWS = 65_536
"""The rows of a batch that a task yields at once."""

_CHOSEN = Evolution()
_PATH, _POSITION = t.StructField("_path", t.StringType()), t.StructField("_position", t.LongType())
_BINARY = schema_of("path string, modificationTime timestamp, length bigint, content binary")


@frozen
class Portion:
    """A part of a file that one task reads.

    Attributes:
        number: of the row group; 0 in a file that is one part.
        first: the number of its first row in the file, or of its first byte.
        size: in bytes, about.
    """

    file: WholeFile
    number: int
    first: int
    size: int


class WholeFormat(ABC):
    """A format of files that are read as a whole."""

    fields: t.StructType
    kind: ClassVar[str]
    damages: ClassVar[tuple[type[Exception], ...]] = (OSError, pa.ArrowException)
    """The exceptions for a file that isn't of this format."""

    @abstractmethod
    def portions(self, file: WholeFile, content: pa.NativeFile) -> list[Portion]:
        """Return the parts of a file."""

    @abstractmethod
    def rows(self, portion: Portion, content: pa.NativeFile) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part.

        Raises:
            SpoutError: the fields don't fit.
        """


@frozen
class WholeReader:
    """Reads files of a format in a place, on the driver and in tasks."""

    format: WholeFormat
    place: Place

    def portions(self, file: WholeFile) -> list[Portion]:
        """Return the parts of a file.

        Raises:
            SpoutError: it isn't the one that was defined.
            UnreadableFileError: it isn't of this format.
        """
        self.place.check(file)
        with self._open(file, file.path) as content:
            return self.format.portions(file, content)

    def __call__(self, portions: Sequence[Portion]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some parts.

        Raises:
            SpoutError: a file can't be read, or its fields don't fit.
        """
        for portion in portions:
            with self._open(portion.file, f"{portion.file.path}, part {portion.number}") as content:
                yield from self.format.rows(portion, content)

    @contextmanager
    def _open(self, file: WholeFile, what: str) -> Iterator[pa.NativeFile]:
        try:
            with self.place.open(file) as content:
                yield content
        except self.format.damages as error:
            check_reached(file.path, error)
            raise unreadable(what, self.format.kind, error) from error


class UnreadableFileError(SpoutError):
    """A file isn't of its format, or is damaged."""


def unreadable(place: str, kind: str, error: Exception) -> UnreadableFileError:
    """Return the error for a file that can't be read."""
    return UnreadableFileError(
        f"file {place!r} can't be read as {kind}: {error}; to fix this: replace it by a whole one"
    )


@frozen
class ColumnFormat(WholeFormat):
    """Files with columns.

    Attributes:
        record: the fields of a record.
        evolution: the treatment of a file with other fields.
    """

    record: t.StructType
    evolution: Evolution = _CHOSEN

    @property
    def fields(self) -> t.StructType:  # type: ignore[override]
        """The fields of the record, then the file and the number of the row in it."""
        return t.StructType([*self.record.fields, _PATH, _POSITION])

    def rows(self, portion: Portion, content: pa.NativeFile) -> Iterator[pa.RecordBatch]:
        position = portion.first
        for found in self._tables(portion, content):
            columns = [_column(found, each, portion, position) for each in arrow_schema(self.record)]
            for batch in pa.Table.from_arrays(columns, schema=arrow_schema(self.record)).to_batches(CHUNK_ROWS):
                places = pa.array(np.arange(position, position + batch.num_rows))
                paths = pa.repeat(portion.file.path, batch.num_rows)
                yield pa.RecordBatch.from_arrays([*batch.columns, paths, places], schema=arrow_schema(self.fields))
                position += batch.num_rows

    @abstractmethod
    def _tables(self, portion: Portion, content: pa.NativeFile) -> Iterator[pa.Table]:
        """Yield the rows of a part, with those fields of the record that the file has.

        Raises:
            SpoutError: a date may be of another calendar.
        """


def _column(found: pa.Table, field: pa.Field, portion: Portion, position: int) -> pa.ChunkedArray:
    """Return a column in the type of its field; ``position`` is the number of its first row in the file.

    Raises:
        SpoutError: a value doesn't fit.
    """
    if field.name not in found.column_names:
        return pa.chunked_array([pa.nulls(found.num_rows, field.type)])
    column = found.column(field.name)
    try:
        return cast_exactly(column, field.type)
    except pa.ArrowException as error:
        row = f", row {position + _unfit(column, field.type)}" if _fits(column.slice(0, 0), field.type) else ""
        raise SpoutError(
            f"file {portion.file.path!r}, part {portion.number}{row}: the field {field.name!r} is {column.type}, not "
            f"{field.type}: {error}; to fix this: give FileSpout a schema that fits"
        ) from error


def _unfit(column: pa.ChunkedArray, kind: pa.DataType) -> int:
    """Return the place of the first value that isn't of a type; there is one."""
    begin, count = 0, len(column)
    while count > 1:
        half = count // 2
        if _fits(column.slice(begin, half), kind):
            begin, count = begin + half, count - half
        else:
            count = half
    return begin


def _fits(column: pa.ChunkedArray, kind: pa.DataType) -> bool:
    try:
        cast_exactly(column, kind)
    except pa.ArrowException:
        return False
    return True


@frozen
class ParquetFiles(ColumnFormat):
    """Parquet files; a part is a row group."""

    kind: ClassVar[str] = "parquet"

    def portions(self, file: WholeFile, content: pa.NativeFile) -> list[Portion]:
        opened = pq.ParquetFile(content)
        self.evolution.check(file.path, opened.schema_arrow.names, self.record.names)
        first, found = 0, []
        for number in range(opened.metadata.num_row_groups):
            group = opened.metadata.row_group(number)
            found.append(Portion(file, number, first, group.total_byte_size))
            first += group.num_rows
        return found

    def _tables(self, portion: Portion, content: pa.NativeFile) -> Iterator[pa.Table]:
        opened = pq.ParquetFile(content)
        names = [name for name in self.record.names if name in opened.schema_arrow.names]
        rows = opened.read_row_group(portion.number, columns=names, use_threads=False)
        if is_by_old_spark(opened.metadata.metadata):
            check_calendar(portion.file.path, rows)
        yield rows


def orc_schema(opened: po.ORCFile) -> pa.Schema:
    """Return the fields of an ORC file, with the types of moments that Spark has noted there.

    Spark writes a timestamp without a zone as a number, and one with a zone as a timestamp of ORC, which has none.
    """
    return pa.schema([_as_of_spark(each) for each in opened.schema])


def _as_of_spark(field: pa.Field) -> pa.Field:
    kind, noted = field.type, (field.metadata or {}).get(b"spark.sql.catalyst.type")
    if noted == b"timestamp_ntz":
        kind = pa.timestamp("us")
    elif noted == b"timestamp":
        kind = pa.timestamp(kind.unit, "UTC")
    elif pa.types.is_list(kind):
        kind = pa.list_(_as_of_spark(kind.value_field))
    elif pa.types.is_map(kind):
        kind = pa.map_(kind.key_type, _as_of_spark(kind.item_field))
    elif pa.types.is_struct(kind):
        kind = pa.struct([_as_of_spark(each) for each in kind])
    return pa.field(field.name, kind)


@frozen
class OrcFiles(ColumnFormat):
    """ORC files; one task reads a file, as only its rows tell how many a stripe has."""

    kind: ClassVar[str] = "orc"

    def portions(self, file: WholeFile, content: pa.NativeFile) -> list[Portion]:
        self.evolution.check(file.path, po.ORCFile(content).schema.names, self.record.names)
        return [Portion(file, 0, 0, file.size)]

    def _tables(self, portion: Portion, content: pa.NativeFile) -> Iterator[pa.Table]:
        opened = po.ORCFile(content)
        schema = orc_schema(opened)
        names = [name for name in self.record.names if name in schema.names]
        for number in range(opened.nstripes):
            rows = pa.Table.from_batches([opened.read_stripe(number, columns=names)])
            rows = rows.cast(pa.schema([schema.field(name) for name in rows.column_names]))
            check_calendar(portion.file.path, rows)
            yield rows


def avro_record(content: Any) -> Any:
    """Return the schema of the records of an open Avro file.

    Raises:
        ValueError: its values are not records.
    """
    schema = fastavro_module().block_reader(content).writer_schema
    if not isinstance(schema, dict) or "fields" not in schema:
        raise ValueError("its values are not records")
    return schema


@frozen
class AvroFiles(ColumnFormat):
    """Avro files; one task reads a file, as only its blocks tell where they begin."""

    kind: ClassVar[str] = "avro"
    damages: ClassVar[tuple[type[Exception], ...]] = (
        *WholeFormat.damages,
        *(ValueError, EOFError, LookupError, zlib.error),
    )

    def portions(self, file: WholeFile, content: pa.NativeFile) -> list[Portion]:
        schema = avro_record(content)
        self.evolution.check(file.path, [each["name"] for each in schema["fields"]], self.record.names)
        return [Portion(file, 0, 0, file.size)]

    def _tables(self, portion: Portion, content: pa.NativeFile) -> Iterator[pa.Table]:
        blocks = fastavro_module().block_reader(content)
        fields, read = self._types(portion.file, blocks.writer_schema), avro_reader(blocks.writer_schema)
        rows: list[tuple[Any, ...]] = []
        for block in blocks:
            records = (read(block.bytes_) for _ in range(block.num_records))
            rows += [tuple(each[name] for name in fields.names) for each in records]
            if len(rows) >= CHUNK_ROWS:
                yield arrow_table(rows, fields)
                rows = []
        yield arrow_table(rows, fields)

    def _types(self, file: WholeFile, schema: Any) -> t.StructType:
        try:
            there = {each["name"] for each in schema["fields"]}
            return avro_fields(schema, [name for name in self.record.names if name in there])
        except TopologyError as error:
            raise SpoutError(f"file {file.path!r}: {error}; or leave the field out of schema=") from error


@frozen
class BinaryFiles(WholeFormat):
    """Files of any kind: each is a row, with the fields of Spark's ``binaryFile``."""

    kind: ClassVar[str] = "binary"
    fields: ClassVar[t.StructType] = _BINARY  # type: ignore[misc]

    def portions(self, file: WholeFile, content: pa.NativeFile) -> list[Portion]:
        return [Portion(file, 0, 0, file.size)]

    def rows(self, portion: Portion, content: pa.NativeFile) -> Iterator[pa.RecordBatch]:
        found, at = content.read(), moment(portion.file.modified // 1000)
        row = {"path": portion.file.path, "modificationTime": at, "length": len(found), "content": found}
        yield pa.RecordBatch.from_pylist([row], schema=arrow_schema(_BINARY))


_COLUMNS: Mapping[str, Callable[[t.StructType, Evolution], ColumnFormat]] = {
    "parquet": ParquetFiles,
    "orc": OrcFiles,
    "avro": AvroFiles,
}
WHOLE = (*_COLUMNS, "binary")


def whole_format(
    name: str, schema: str | t.StructType | None, on_decode_error: str, evolution: Evolution = _CHOSEN
) -> WholeFormat:
    """Return the format for the arguments of a user.

    Raises:
        TopologyError: an argument can't work.
    """
    if on_decode_error != "fail":
        raise TopologyError(f"format={name!r} takes no on_decode_error: it has no lines")
    if name == "binary":
        if schema is not None:
            raise TopologyError(f"format='binary' takes no schema: its rows have {', '.join(_BINARY.names)}")
        return BinaryFiles()
    if name == "avro":
        fastavro_module()
    return _COLUMNS[name](record_of(schema), evolution)


def record_of(schema: str | t.StructType | None) -> t.StructType:
    """Return the fields of a record.

    Raises:
        TopologyError: they can't be these.
    """
    fields = schema_of(schema or "")
    if taken := [each.name for each in (_PATH, _POSITION) if each.name in fields.names]:
        raise TopologyError(f"the schema can't have a field {shown(taken[0])}: the spout adds it")
    return fields
