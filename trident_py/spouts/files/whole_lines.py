"""Lines and records of files that are read as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pyarrow as pa
from attrs import frozen
from pyspark.sql import types as t

from trident_py.rows.schema import arrow_schema
from trident_py.spouts.files.columns import Portion, WholeFormat
from trident_py.spouts.files.content import UNREADABLE, all_of, content_of, is_compressed
from trident_py.spouts.files.formats import LineFormat, Lines
from trident_py.spouts.files.lines import line_end, lines_between, sliced
from trident_py.spouts.files.places import WholeFile

PART_BYTES = 16 * 1024 * 1024
"""A task reads the lines that begin in so many bytes of a file."""


@frozen
class OfLines(WholeFormat):
    """Files in a format of lines.

    Attributes:
        format: the format of a line or record.
    """

    format: LineFormat

    @property
    def kind(self) -> str:  # type: ignore[override]
        """The kind of the lines."""
        return self.format.kind

    @property
    def fields(self) -> t.StructType:  # type: ignore[override]
        """The fields of the rows."""
        return self.format.fields


@frozen
class WholeLines(OfLines):
    """Lines of files that are complete. The part of a file has the lines that begin in it."""

    def portions(self, file: WholeFile, content: pa.NativeFile) -> list[Portion]:
        """Cut the file anywhere, unless it is compressed."""
        if is_compressed(file.path):
            return [Portion(file, 0, 0, file.size)]
        starts = range(0, file.size, PART_BYTES)
        return [Portion(file, number, at, min(PART_BYTES, file.size - at)) for number, at in enumerate(starts)]

    def rows(self, portion: Portion, content: pa.NativeFile) -> Iterator[pa.RecordBatch]:
        """Yield the lines that begin in the part."""
        path, schema = portion.file.path, arrow_schema(self.fields)
        bytes_, start = content_of(content, path), portion.first
        end, last = (None, None) if is_compressed(path) else (start + portion.size, portion.file.size)
        if last is not None and start:
            start = line_end(bytes_, start - 1, last) or last
        if end is not None and start >= end:
            return
        for position, block in lines_between(bytes_, start, end, last):
            found = pa.RecordBatch.from_arrays(self.format.columns(Lines.of(path, position, block)), schema=schema)
            yield from sliced(found)


@frozen
class WholeRecords(OfLines):
    """Files of records that may contain line ends. A task reads a whole file into its memory."""

    damages: ClassVar[tuple[type[Exception], ...]] = (*WholeFormat.damages, *UNREADABLE, ValueError, RecursionError)

    def portions(self, file: WholeFile, content: pa.NativeFile) -> list[Portion]:
        return [Portion(file, 0, 0, file.size)]

    def rows(self, portion: Portion, content: pa.NativeFile) -> Iterator[pa.RecordBatch]:
        """Yield the records."""
        path = portion.file.path
        columns = self.format.columns(self.format.records(path, all_of(content, path)))
        yield from sliced(pa.RecordBatch.from_arrays(columns, schema=arrow_schema(self.fields)))
