"""Fields with values in the names of folders, such as ``day=2026-11-28``: as Spark, Hive and others write them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Self
from urllib.parse import unquote

import pyarrow as pa
from attrs import frozen
from pyspark.sql import types as t

from trident_py.errors import SpoutError, TopologyError
from trident_py.rows.schema import arrow_schema, names_of, schema_of, shown
from trident_py.spouts.files.columns import Portion, WholeFormat
from trident_py.spouts.files.formats import LineFormat, Lines
from trident_py.spouts.files.places import WholeFile

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
"""The value in the name of a folder that stands for NULL."""

_TYPES = (t.StringType, t.IntegralType, t.FractionalType, t.BooleanType, t.DateType)


@frozen
class FolderFields:
    """The fields of a record, of which some are in the names of folders.

    Attributes:
        record: all fields.
        names: the names of those whose values are in the names of folders.
    """

    record: t.StructType
    names: frozenset[str]

    @classmethod
    def found(cls, in_files: t.StructType, names: str | Sequence[str]) -> Self:
        """Return the fields that were found in files, then texts from the names of folders."""
        if twice := sorted(set(in_files.names).intersection(names_of(names))):
            raise TopologyError(
                f"partition_by names {twice[0]!r}, which the files have themselves; to fix this: leave it out of "
                f"partition_by, or give the fields to read as schema="
            )
        folders = [t.StructField(name, t.StringType()) for name in names_of(names)]
        return cls.of(t.StructType([*in_files, *folders]), names)

    @classmethod
    def of(cls, schema: str | t.StructType | None, names: str | Sequence[str]) -> Self:
        """Return the fields for the arguments of a user.

        Raises:
            TopologyError: an argument can't work.
        """
        if schema is None:
            raise TopologyError("partition_by names fields of the schema, and there is no schema=")
        record = schema_of(schema)
        found = {names} if isinstance(names, str) else set(names)
        if unknown := sorted(found - set(record.names)):
            raise TopologyError(
                f"partition_by names {shown(unknown[0])}, and the schema has {', '.join(record.names)}; to fix this: "
                f"add the field to the schema, with its type"
            )
        for each in record:
            if each.name in found and not isinstance(each.dataType, _TYPES):
                raise TopologyError(
                    f"the field {each.name!r} is {each.dataType.simpleString()}, which the name of a folder can't be; "
                    f"to fix this: declare it as string, and convert it in a map"
                )
        if found == set(record.names):
            raise TopologyError("partition_by names all fields of the schema; the files have at least one themselves")
        return cls(record, frozenset(found))

    @property
    def in_files(self) -> t.StructType:
        """The other fields, with values in the files."""
        return t.StructType([each for each in self.record if each.name not in self.names])

    def joined(self, columns: Sequence[pa.Array], path: str, rows: int) -> list[pa.Array]:
        """Return the columns of all fields, given those from a file, which has so many of the rows.

        Raises:
            SpoutError: a folder is missing, or its name has no such value.
        """
        given, folders = iter(columns), _folders(path)
        return [
            pa.repeat(self._value(each, path, folders), rows) if each.name in self.names else next(given)
            for each in arrow_schema(self.record)
        ]

    def _value(self, field: pa.Field, path: str, folders: dict[str, str]) -> pa.Scalar:
        text = folders.get(field.name)
        if text is None:
            raise SpoutError(
                f"file {path!r} is in no folder {field.name + '=…'!r}; to fix this: move it into one, or leave it out "
                f"of the pattern"
            )
        try:
            return pa.scalar(None if text == NULL_FOLDER else text, pa.string()).cast(field.type)
        except pa.ArrowException as error:
            raise SpoutError(
                f"file {path!r}: {text!r} in the name of its folder is not {field.type}, as {field.name!r} is: "
                f"{error}; to fix this: rename the folder, or give FileSpout a schema that fits"
            ) from error


def _folders(path: str) -> dict[str, str]:
    """Return the values in the names of a file's folders, of the innermost one if a name comes several times."""
    parts = (part.partition("=") for part in os.path.dirname(path).split(os.sep))
    return {unquote(name): unquote(value) for name, equals, value in parts if equals}


@frozen
class LinesInFolders(LineFormat):
    """Lines of files, with values in the names of their folders.

    Attributes:
        format: the format of the lines.
        folders: all fields of a record.
    """

    format: LineFormat
    folders: FolderFields

    @property
    def kind(self) -> str:  # type: ignore[override]
        """That of the lines."""
        return self.format.kind

    @property
    def record(self) -> t.StructType:  # type: ignore[override]
        """All fields."""
        return self.folders.record

    @property
    def places(self) -> tuple[t.StructField, ...]:  # type: ignore[override]
        """The fields behind the record."""
        return self.format.places

    def records(self, path: str, data: bytes) -> Lines:
        return self.format.records(path, data)

    def read(self, lines: Lines) -> tuple[Sequence[pa.Array], Lines]:
        """Read the lines, and add the values of the folders."""
        columns, kept = self.format.read(lines)
        return self.folders.joined(columns, lines.path, len(kept)), kept


@frozen
class FilesInFolders(WholeFormat):
    """Files that are read as a whole, with values in the names of their folders.

    Attributes:
        format: the format of the files.
        folders: all fields of a record.
    """

    format: WholeFormat
    folders: FolderFields

    @property
    def kind(self) -> str:  # type: ignore[override]
        """That of the files."""
        return self.format.kind

    @property
    def fields(self) -> t.StructType:  # type: ignore[override]
        """The fields of the record, then the file and the number of the row in it."""
        return t.StructType([*self.folders.record.fields, *self.format.fields.fields[-2:]])

    def portions(self, file: WholeFile, content: pa.NativeFile) -> list[Portion]:
        return self.format.portions(file, content)

    def rows(self, portion: Portion, content: pa.NativeFile) -> Iterator[pa.RecordBatch]:
        """Read the rows, and add the values of the folders."""
        for batch in self.format.rows(portion, content):
            columns = self.folders.joined(batch.columns[:-2], portion.file.path, batch.num_rows)
            yield pa.RecordBatch.from_arrays([*columns, *batch.columns[-2:]], schema=arrow_schema(self.fields))


def in_folders(format: LineFormat | WholeFormat, folders: FolderFields) -> LineFormat | WholeFormat:
    """Return the format of files that have the other values in the names of their folders."""
    if isinstance(format, WholeFormat):
        return FilesInFolders(format, folders)
    return LinesInFolders(format, folders)
