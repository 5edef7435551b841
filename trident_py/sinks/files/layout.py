"""The layout of rows in files: the format, its options, and the fields that become folders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TypeAlias

from attrs import field, frozen
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as t

from trident_py.errors import TopologyError
from trident_py.rows.schema import names_of, select, shown
from trident_py.spark.frames import column

FORMATS = ("parquet", "json", "csv", "orc", "text")
TXID = "txid"
"""The folder of each transaction; readers see it as a field of this name."""

HIDDEN = ("_", ".")
"""The beginnings of names that readers ignore."""

Find: TypeAlias = Callable[[Column, t.DataType], Column | None]
"""Returns the condition that finds unfit values of a type; None: all values of the type fit."""

Option: TypeAlias = str | int | float | bool

_AS_THEY_ARE: Mapping[str, Option] = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreLeadingWhiteSpace": False,
    "ignoreTrailingWhiteSpace": False,
    "escape": '"',
    "timeZone": "UTC",
}
"""Options for json and csv, which otherwise lose microseconds, blanks, and the seconds of a time zone's offset.

Quotes are doubled as in RFC 4180. The time zone also applies to timestamps in the names of folders. Other formats
ignore the rest of these options.
"""

_DEFAULT_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_BYTE_ORDER_MARK = "\ufeff"
_YEAR_1, _YEAR_10000 = -719_162, 2_932_897
"""The first days of these years, in days since 1970."""

_GREGORIAN = -141_427
"""1582-10-15, which follows 1582-10-04 in the calendar of orc."""

_DAY_SECONDS, _SECOND_MICROS = 86_400, 1_000_000

_NAME_BYTES_MAX = 255
_ESCAPED = r"""[\x01-\x1f"#%'*/:=?\\\x7f{\[\]^]"""
"""The characters that Spark writes as three characters in the name of a folder."""

_UNFIT_CHARS = 100
"""The number of characters shown of a refused value."""

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
class Unfit:
    """Values of a field that a file, or the name of a folder, would not return unchanged.

    Attributes:
        where: the condition that finds them.
        why: the effect on a reader, and the fix.
    """

    name: str
    where: Column
    why: str

    @property
    def first(self) -> Column:
        """An aggregate: the beginning of one of these values as text, or null."""
        value = column(self.name).cast("string")
        return F.max(F.when(self.where, F.coalesce(F.substring(value, 1, _UNFIT_CHARS), F.lit("NULL"))))


@frozen
class Layout:
    """The layout of rows in files.

    Attributes:
        format: one of Spark's formats.
        partition_by: fields that become folders, ``field=value``, instead of columns in the files.
        options: the options of Spark's writer for this format.

    Raises:
        TopologyError: an attribute is not valid.
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
                    f"readers ignore folders like '{name}=…'; to fix this: rename field {name!r} to partition by it"
                )

    def check(self, fields: t.StructType) -> None:
        """Check that rows of these fields can be written.

        Raises:
            TopologyError: they can't.
        """
        folders = select(fields, self.partition_by).fields
        columns = [each for each in fields.fields if each.name not in self.partition_by]
        if taken := [each.name for each in fields.fields if each.name.lower() == TXID]:
            raise TopologyError(f"readers find the transaction in a field 'txid'; to fix this: rename {taken[0]!r}")
        if nested := [each.name for each in folders if isinstance(each.dataType, _NESTED)]:
            raise TopologyError(
                f"field {nested[0]!r} is {fields[nested[0]].dataType.simpleString()}, which can't be the name of a "
                f"folder"
            )
        if binary := [each.name for each in folders if isinstance(each.dataType, t.BinaryType)]:
            raise TopologyError(
                f"field {binary[0]!r} is binary, which the name of a folder can't hold; to fix this: map it to its "
                f"hex digits"
            )
        if not columns:
            raise TopologyError(f"all fields are in partition_by; leave one for the files, of {fields.names}")
        self._check_columns(columns)

    def _check_columns(self, columns: Sequence[t.StructField]) -> None:
        if self.format == "text" and [type(each.dataType) for each in columns] != [t.StringType]:
            found = ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in columns)
            raise TopologyError(f"text files hold one string field in addition to those in partition_by, not {found}")
        for each in columns:
            if self.format == "csv" and isinstance(each.dataType, (*_NESTED, t.BinaryType)):
                raise TopologyError(
                    f"csv files can't hold field {each.name!r}, which is {each.dataType.simpleString()}"
                )

    def unfit(self, fields: t.StructType) -> list[Unfit]:
        """Return the conditions for values of these fields that readers would not get back unchanged."""
        files = [each for each in fields.fields if each.name not in self.partition_by]
        found = [each for field in select(fields, self.partition_by).fields for each in _unfit_in_folders(field)]
        if self.format == "orc":
            found += [each for field in files for each in _unfit_in_orc(field)]
        if self.format in ("csv", "json"):
            found += [each for field in files for each in _beyond_the_years(field)]
        if self.format == "csv" and isinstance(files[0].dataType, t.StringType):
            found.append(_at_the_start(files[0].name))
        if self.format == "csv" and len(files) == 1 and "nullValue" not in self.options:
            why = "an empty line is no row of a csv file; have another field, or set the option nullValue"
            found.append(Unfit(files[0].name, column(files[0].name).isNull(), why))
        if self.format == "text":
            found += _unfit_in_lines(files[0].name, str(self.options.get("lineSep", "")))
        return found

    def write(self, frame: DataFrame, directory: Path) -> None:
        """Run the job of ``frame``, and write its rows into ``directory``, which Spark makes."""
        writer = frame.write.format(self.format).options(**{**_AS_THEY_ARE, **self.options})
        writer.partitionBy(*self.partition_by).save(f"file://{directory}")

    def read(self, session: SparkSession, base: Path, folders: Sequence[Path], fields: t.StructType) -> DataFrame:
        """Return the rows of some folders below ``base`` as they were written; damaged rows fail the job."""
        strict = {"mode": "FAILFAST", "multiLine": self.format == "csv", **_AS_THEY_ARE, **self.options}
        reader = session.read.format(self.format).schema(fields).options(**strict)
        found = reader.option("basePath", f"file://{base}").load([f"file://{folder}" for folder in folders])
        return found.select(*map(column, fields.names))


def _beyond_the_years(field: t.StructField) -> list[Unfit]:
    def beyond(value: Column, kind: t.DataType) -> Column | None:
        early, fits = (_is_before(value, kind, day) for day in (_YEAR_1, _YEAR_10000))
        return None if early is None or fits is None else early | ~fits

    why = "readers know the years 1 to 9999; filter such rows, or map the field to a string"
    return _unfit_anywhere(field, beyond, why)


def _unfit_in_orc(field: t.StructField) -> list[Unfit]:
    def julian(value: Column, kind: t.DataType) -> Column | None:
        return _is_before(value, kind, _GREGORIAN)

    def just_before_1970(value: Column, kind: t.DataType) -> Column | None:
        if not isinstance(kind, t.TimestampType):
            return None
        return (F.unix_micros(value) > F.lit(-_SECOND_MICROS)) & (F.unix_micros(value) < F.lit(0))

    return [
        *_unfit_anywhere(field, julian, "readers of orc disagree about days before 1582-10-15; use parquet"),
        *_unfit_anywhere(
            field, just_before_1970, "orc gives fractions of a second before 1970 back wrongly; use parquet"
        ),
    ]


def _is_before(value: Column, kind: t.DataType, day: int) -> Column | None:
    """Return the condition that ``value`` in a file is before this day since 1970; None: its type has no days."""
    match kind:
        case t.TimestampType():  # as a date it would be one of the session's time zone
            return F.unix_micros(value) < F.lit(day * _DAY_SECONDS * _SECOND_MICROS)
        case t.DateType() | t.TimestampNTZType():
            return F.unix_date(value.cast("date")) < F.lit(day)
    return None


def _unfit_anywhere(field: t.StructField, find: Find, why: str) -> list[Unfit]:
    where = _anywhere(column(field.name), field.dataType, find)
    return [] if where is None else [Unfit(field.name, where, why)]


def _anywhere(value: Column, kind: t.DataType, find: Find) -> Column | None:
    """Return the condition that ``find`` finds a value in ``value`` or nested in it; None: it never can."""
    match kind:
        case t.ArrayType():
            return _in_elements(value, kind.elementType, find)
        case t.MapType():
            keys = _in_elements(F.map_keys(value), kind.keyType, find)
            return _either([keys, _in_elements(F.map_values(value), kind.valueType, find)])
        case t.StructType():
            return _either([_anywhere(value.getField(each.name), each.dataType, find) for each in kind.fields])
    return find(value, kind)


def _in_elements(value: Column, kind: t.DataType, find: Find) -> Column | None:
    if _anywhere(value, kind, find) is None:
        return None
    return F.exists(value, lambda each: F.coalesce(*_found([_anywhere(each, kind, find)]), F.lit(False)))


def _either(conditions: Sequence[Column | None]) -> Column | None:
    found = [F.coalesce(each, F.lit(False)) for each in _found(conditions)]
    return reduce(or_, found) if found else None


def _found(conditions: Sequence[Column | None]) -> list[Column]:
    return [each for each in conditions if each is not None]


def _unfit_in_folders(field: t.StructField) -> list[Unfit]:
    found = _beyond_the_years(field)
    if isinstance(field.dataType, t.StringType):
        value = column(field.name)
        why = "a folder's name gives it back as NULL; map it to another text"
        found.append(Unfit(field.name, value.isin("", _DEFAULT_FOLDER), why))
        found.append(Unfit(field.name, value.contains("\0"), "no folder's name has a NUL; map it to another text"))
        room = _NAME_BYTES_MAX - len(f"{field.name}=".encode())
        bytes_in_name = F.octet_length(F.regexp_replace(value, _ESCAPED, "%00"))
        why = f"a folder's name has at most {_NAME_BYTES_MAX} bytes; map it to a shorter text"
        found.append(Unfit(field.name, bytes_in_name > room, why))
    return found


def _unfit_in_lines(name: str, separator: str) -> list[Unfit]:
    value = column(name)
    ends = value.contains(separator) if separator else value.contains("\n") | value.contains("\r")
    return [
        Unfit(name, value.isNull(), "a line of text can't tell it from an empty one; filter such rows, or use json"),
        Unfit(name, ends, "its lines would be several rows; map it to one line, or use json"),
    ]


def _at_the_start(name: str) -> Unfit:
    why = "readers drop a byte order mark at the start of a file; have another field first, or use json"
    return Unfit(name, column(name).startswith(_BYTE_ORDER_MARK), why)
