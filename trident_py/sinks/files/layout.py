"""How rows stand in files: the format, its options, and the fields that folders are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from attrs import field, frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from trident_py.errors import TopologyError
from trident_py.rows.schema import names_of, select, shown
from trident_py.spark.frames import column

FORMATS = ("parquet", "json", "csv", "orc", "text")
TXID = "txid"
"""The folder that each transaction has; readers see it as a field of this name."""

HIDDEN = ("_", ".")
"""What names begin with that readers pass over."""

Option: TypeAlias = str | int | float | bool

_AS_THEY_ARE: Mapping[str, Option] = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreLeadingWhiteSpace": False,
    "ignoreTrailingWhiteSpace": False,
}
"""For json and csv, which lose microseconds and blanks otherwise; the other formats know no such options."""

_NESTED = (t.ArrayType, t.MapType, t.StructType)


def visible_files(directory: Path) -> list[Path]:
    """Return all files below ``directory`` that a reader of it sees, in the order of their paths."""
    seen = (file for file in directory.rglob("*") if file.is_file())
    return sorted(file for file in seen if not any(map(_is_hidden, file.relative_to(directory).parts)))


def _is_hidden(name: str) -> bool:
    return name.startswith(HIDDEN)


def _options(options: Mapping[str, Option] | None) -> dict[str, Option]:
    given = dict(options or {})
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, str | int | float | bool):
            raise TopologyError(f"an option is a name with a text, number or bool, not {shown(name)}: {shown(value)}")
    return given


@frozen
class Layout:
    """How rows stand in files.

    Attributes:
        format: one of Spark's.
        partition_by: fields that are folders, ``field=value``, instead of columns in the files.
        options: those of Spark's writer for this format.

    Raises:
        TopologyError: it can't be.
    """

    format: str = field()
    partition_by: tuple[str, ...] = field(converter=names_of, default=())
    options: Mapping[str, Option] = field(converter=_options, factory=dict)

    @format.validator
    def _check_format(self, _: object, value: object) -> None:
        if value not in FORMATS:
            raise TopologyError(f"format must be one of {', '.join(FORMATS)}, not {shown(value)}")

    @partition_by.validator
    def _check_folders(self, _: object, names: Sequence[str]) -> None:
        for name in names:
            if not name or name.startswith(HIDDEN):
                raise TopologyError(
                    f"readers pass over folders like '{name}=…'; rename field {name!r} to partition by it"
                )

    def check(self, fields: t.StructType) -> None:
        """See whether rows of these fields can be written.

        Raises:
            TopologyError: they can't.
        """
        folders = select(fields, self.partition_by).fields
        columns = [each for each in fields.fields if each.name not in self.partition_by]
        if taken := [each.name for each in fields.fields if each.name.lower() == TXID]:
            raise TopologyError(f"readers find the transaction in a field 'txid'; rename {taken[0]!r}")
        if nested := [each.name for each in folders if isinstance(each.dataType, _NESTED)]:
            raise TopologyError(
                f"field {nested[0]!r} is {fields[nested[0]].dataType.simpleString()}, and no folder's name"
            )
        if not columns:
            raise TopologyError(f"all fields are in partition_by; leave one for the files, of {fields.names}")
        self._check_columns(columns)

    def _check_columns(self, columns: Sequence[t.StructField]) -> None:
        if self.format == "text" and [type(each.dataType) for each in columns] != [t.StringType]:
            found = ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in columns)
            raise TopologyError(f"text files hold one string field besides those in partition_by, not {found}")
        for each in columns:
            if self.format == "csv" and isinstance(each.dataType, (*_NESTED, t.BinaryType)):
                raise TopologyError(
                    f"csv files can't hold field {each.name!r}, which is {each.dataType.simpleString()}"
                )

    def write(self, frame: DataFrame, directory: Path) -> None:
        """Run the job of ``frame``, and write its rows into ``directory``, which Spark makes."""
        writer = frame.write.format(self.format).options(**{**_AS_THEY_ARE, **self.options})
        writer.partitionBy(*self.partition_by).save(f"file://{directory}")

    def read(self, session: SparkSession, base: Path, folders: Sequence[Path], fields: t.StructType) -> DataFrame:
        """Return the rows of some folders below ``base``, as they were written; damaged ones fail the job."""
        strict = {"mode": "FAILFAST", "multiLine": self.format == "csv", **_AS_THEY_ARE, **self.options}
        reader = session.read.format(self.format).schema(fields).options(**strict)
        found = reader.option("basePath", f"file://{base}").load([f"file://{folder}" for folder in folders])
        return found.select(*map(column, fields.names))
