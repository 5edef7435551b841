"""The formats of lines: text, JSON and CSV. Each converts the lines of a block to columns."""

from __future__ import annotations

import csv
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from attrs import evolve, field, frozen
from pyarrow import csv as arrow_csv
from pyspark.sql import types as t

from trident_py.errors import SpoutError, TopologyError
from trident_py.rows.json_values import check_json_type, converter, json_places, unknown_field
from trident_py.rows.row import column_values
from trident_py.rows.schema import arrow_array, arrow_schema, schema_of, shown
from trident_py.spouts.files.columns import WHOLE, WholeFormat, record_of, whole_format
from trident_py.spouts.files.evolution import Evolution

FORMATS = ("text", "json", "csv", *WHOLE)
ON_ERROR = ("fail", "null", "skip", "quarantine")

_LF, _CR = 10, 13
_BOM = b"\xef\xbb\xbf"
_PATH, _POSITION = t.StructField("_path", t.StringType()), t.StructField("_position", t.LongType())
_UNDECODED = t.StructField("_undecoded", t.BinaryType())
"""A line that is no record, to be quarantined."""


@frozen
class Lines:
    """Whole lines of a file.

    Attributes:
        position: the position of the block in the file.
        starts: the beginning of each line in the block.
        ends: the end of the text of each line.
        undecoded: the beginnings of those that are no records.
    """

    path: str
    position: int
    block: bytes
    starts: np.ndarray
    ends: np.ndarray
    undecoded: frozenset[int] = frozenset()

    @classmethod
    def of(cls, path: str, position: int, block: bytes) -> Lines:
        """Return the lines of ``block``; only the last may lack a line feed."""
        data = np.frombuffer(block, np.uint8)
        ends = np.flatnonzero(data == _LF)
        starts = np.concatenate(([0], ends + 1))
        if block.endswith(b"\n"):
            starts = starts[:-1]
        returns = (ends > 0) & (data[ends - 1] == _CR)
        ends = ends - returns
        if len(starts) > len(ends):
            ends = np.append(ends, len(block))
        return cls(path, position, block, starts, ends)

    def __len__(self) -> int:
        """Return the number of lines."""
        return len(self.starts)

    def texts(self) -> Iterator[bytes]:
        """Yield the text of each line."""
        return (self.block[start:end] for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True))

    def some(self, chosen: slice | np.ndarray) -> Lines:
        """Return the lines at these places."""
        return Lines(self.path, self.position, self.block, self.starts[chosen], self.ends[chosen])

    def without_bom(self) -> Lines:
        """Return the lines without the byte order mark at the beginning of a file."""
        begins = not self.position and len(self) and not self.starts[0]
        if not (begins and self.block.startswith(_BOM)):
            return self
        starts = self.starts.copy()
        starts[0] = min(len(_BOM), self.ends[0])
        return Lines(self.path, self.position, self.block, starts, self.ends)

    @property
    def place(self) -> str:
        """The first line, for messages."""
        return f"file {self.path!r}, the line at byte {self.position + int(self.starts[0])}"


class LineFormat(ABC):
    """The format of the lines of a file."""

    kind: ClassVar[str]
    record: t.StructType
    places: tuple[t.StructField, ...] = (_PATH, _POSITION)

    @property
    def fields(self) -> t.StructType:
        """The fields of the rows: those of the record, the path of the file, and the position of the line.

        The last one may be the line itself, if it is no record and is to be quarantined.
        """
        return t.StructType([*self.record.fields, *self.places])

    @abstractmethod
    def read(self, lines: Lines) -> tuple[Sequence[pa.Array], Lines]:
        """Return the columns of the record, and the lines that they are of.

        Raises:
            SpoutError: a line can't be read, and may not be left out.
        """

    def records(self, path: str, data: bytes) -> Lines:
        """Return the records of a whole file, each as a line, which may contain line ends.

        Raises:
            ValueError: the file can't be divided into records.
        """
        return Lines.of(path, 0, data)

    def columns(self, lines: Lines) -> list[pa.Array]:
        """Return all columns of these lines, as in `fields`."""
        columns, kept = self.read(lines)
        places = [pa.repeat(kept.path, len(kept)), pa.array(kept.starts + kept.position, pa.int64())]
        if _UNDECODED in self.places:
            begun = zip(kept.starts.tolist(), kept.texts(), strict=True)
            places.append(pa.array([text if at in kept.undecoded else None for at, text in begun], pa.binary()))
        return [*columns, *places]


@frozen
class TextLines(LineFormat):
    """Lines of text.

    Attributes:
        encoding: the encoding of the files.
        errors: how to treat a line that is not in that encoding, as in ``open``.
    """

    encoding: str
    errors: str
    kind: ClassVar[str] = "text"
    fields: ClassVar[t.StructType] = schema_of("value string, path string, position bigint")

    def read(self, lines: Lines) -> tuple[Sequence[pa.Array], Lines]:
        """Return the texts."""
        if self.encoding == "utf-8" and _is_utf8(lines.block):
            offsets = np.zeros(len(lines) + 1, np.int32)
            np.cumsum(lines.ends - lines.starts, out=offsets[1:])
            text = lines.block.replace(b"\r\n", b"\n").translate(None, b"\n")
            return [pa.StringArray.from_buffers(len(lines), pa.py_buffer(offsets), pa.py_buffer(text))], lines
        return [pa.array(self._decoded(lines), pa.string())], lines

    def _decoded(self, lines: Lines) -> Iterator[str]:
        for start, text in zip(lines.starts.tolist(), lines.texts(), strict=True):
            try:
                yield text.decode(self.encoding, self.errors)
            except UnicodeDecodeError as error:
                raise SpoutError(
                    f"file {lines.path!r} is not {self.encoding} at byte {lines.position + start + error.start} "
                    f"({error.reason}); to fix this: give FileSpout its encoding=, or errors='replace'"
                ) from error


def _is_utf8(block: bytes) -> bool:
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


@frozen
class RecordLines(LineFormat):
    """Lines with a record each; empty lines are skipped.

    Attributes:
        record: the fields of a record.
        on_error: the treatment of a line that can't be read: one of `ON_ERROR`.
    """

    record: t.StructType
    on_error: str

    @property
    def places(self) -> tuple[t.StructField, ...]:  # type: ignore[override]
        return (_PATH, _POSITION, _UNDECODED) if self.on_error == "quarantine" else (_PATH, _POSITION)

    @abstractmethod
    def parse(self, lines: Lines) -> list[pa.Array]:
        """Return the columns of the record, with a value for each line; raise any exception if a line is wrong."""

    def read(self, lines: Lines) -> tuple[Sequence[pa.Array], Lines]:
        """Read all lines at once; if some can't be read, find them by halving."""
        given = lines.without_bom()
        there = given.some(np.flatnonzero(given.ends > given.starts))
        parts, kept, undecoded = [self._nothing(0)], list[Lines](), set[int]()
        waiting = [there] if len(there) else []
        while waiting:
            some = waiting.pop()
            try:
                parts.append(self.parse(some))
            except Exception as error:
                if len(some) > 1:
                    middle = len(some) // 2
                    waiting += [some.some(slice(middle, None)), some.some(slice(middle))]
                    continue
                if self.on_error == "fail":
                    raise SpoutError(
                        f"{some.place}: it is not {self.kind} of {self.record.simpleString()}: {error}; to fix this: "
                        f"correct it, or set on_decode_error='null' or 'skip' to continue without it"
                    ) from error
                if self.on_error == "skip":
                    continue
                parts.append(self._nothing(1))
                undecoded.add(int(some.starts[0]))
            kept.append(some)
        columns = [pa.concat_arrays(column) for column in zip(*parts, strict=True)]
        read = np.concatenate([np.zeros(0, np.int64), *(each.starts for each in kept)])
        return columns, evolve(there.some(np.isin(there.starts, read)), undecoded=frozenset(undecoded))

    def _nothing(self, count: int) -> list[pa.Array]:
        return [pa.nulls(count, each.type) for each in arrow_schema(self.record)]


@frozen
class JsonLines(RecordLines):
    """A JSON object in each line; fields that it lacks are NULL.

    Attributes:
        is_exact: whether an object may not have other fields; else they are left out.
        is_multiline: whether a file is an object, or an array of them, with line ends anywhere.
    """

    is_exact: bool = False
    is_multiline: bool = False
    kind: ClassVar[str] = "json"

    def records(self, path: str, data: bytes) -> Lines:
        """Return the objects."""
        begin = len(_BOM) if data.startswith(_BOM) else 0
        places = np.array(json_places(data[begin:]), np.int64).reshape(-1, 2) + begin
        return Lines(path, 0, data, places[:, 0], places[:, 1])

    def parse(self, lines: Lines) -> list[pa.Array]:
        """Decode each line."""
        convert = converter(self.record)
        values = [json.loads(text, parse_float=Decimal) for text in lines.texts()]
        if self.is_exact and (more := next(filter(None, (unknown_field(each, self.record) for each in values)), "")):
            raise ValueError(f"the field {more!r} was not found at the start")
        found = arrow_array(list(map(convert, values)), t.StructField("record", self.record))
        return [column.cast(each.type) for column, each in zip(found.flatten(), arrow_schema(self.record), strict=True)]


@frozen
class CsvLines(RecordLines):
    """Values between separators in each line.

    Attributes:
        header: whether the first line of each file has the names of the fields.
        sep, quote: the separator of values, and the character around values that contain it.
        null: the text of NULL, unless it is quoted.
        is_multiline: whether a quoted value may contain the end of a line.
    """

    header: bool
    sep: str
    quote: str
    null: str
    is_multiline: bool = False
    kind: ClassVar[str] = "csv"
    _decoders: Mapping[str, Callable[[str], Any]] = field(init=False, eq=False)

    @_decoders.default
    def _of_times(self) -> Mapping[str, Callable[[str], Any]]:
        kinds = (t.TimestampType, t.TimestampNTZType)
        return {each.name: converter(each.dataType) for each in self.record if isinstance(each.dataType, kinds)}

    def records(self, path: str, data: bytes) -> Lines:
        """Return the lines; those inside quotes are one."""
        lines = Lines.of(path, 0, data).without_bom()
        reader = self._strictly(lines)
        try:
            last = np.array([reader.line_num for _ in reader], np.int64) - 1
        except csv.Error as error:
            raise ValueError(f"{error}, in line {reader.line_num}") from error
        first = np.concatenate((np.zeros(1, np.int64), last + 1))[:-1]
        return Lines(path, 0, data, lines.starts[first], lines.ends[last])

    def read(self, lines: Lines) -> tuple[Sequence[pa.Array], Lines]:
        """Check the header, if the lines begin with it; then read the others."""
        if self.header and not lines.position and len(lines):
            self._check_header(lines.without_bom())
            lines = lines.some(slice(1, None))
        return super().read(lines)

    def _check_header(self, lines: Lines) -> None:
        text = next(lines.texts())
        try:
            found = next(csv.reader([text.decode()], delimiter=self.sep, quotechar=self.quote, strict=True), [])
        except (UnicodeDecodeError, csv.Error) as error:
            raise SpoutError(
                f"{lines.place}: the header can't be read: {error}; to fix this: convert the file to UTF-8, with a "
                f"line feed at the end of each line"
            ) from error
        if found != self.record.names:
            raise SpoutError(
                f"{lines.place}: the header names the fields {found}, and schema= has {self.record.names}; to fix "
                f"this: give FileSpout the fields of the file, in its order"
            )

    def _strictly(self, lines: Lines) -> Any:
        """Return Python's reader of these lines, which raises `csv.Error` for the quotes that Arrow would leave out."""
        texts = (text.decode("latin-1") + "\n" for text in lines.texts())  # separators and quotes are ASCII
        if csv.field_size_limit() < len(lines.block):
            csv.field_size_limit(len(lines.block))
        return csv.reader(texts, delimiter=self.sep, quotechar=self.quote, strict=True)

    def _has_odd_quotes(self, text: bytes) -> bool:
        """Return whether a quote isn't around a value or doubled: in the middle of it, or around the end of a line."""
        around = np.frombuffer(b"\n" + text + b"\n", np.uint8)
        quotes, ends = np.flatnonzero(around == ord(self.quote)), (ord(self.sep), _LF)
        if not len(quotes):
            return False
        if not self.is_multiline and np.any(np.searchsorted(quotes, np.flatnonzero(around == _LF)) % 2):
            return True
        before, after = around[quotes - 1], around[quotes + 1]
        return bool(np.any(~np.isin(before, ends) & ~np.isin(after, (*ends, ord(self.quote)))))

    def parse(self, lines: Lines) -> list[pa.Array]:
        """Let Arrow read all lines; times are read as JSON's are."""
        text = b"\n".join(lines.texts())
        if self._has_odd_quotes(text) and sum(1 for _ in self._strictly(lines)) != len(lines):
            raise ValueError("a quoted value contains the end of the line")
        types = {each.name: pa.string() if each.name in self._decoders else each.type for each in self._arrow}
        table = self._table(text, types)
        if table.num_rows != len(lines):
            raise ValueError("a value contains the end of the line")
        return [self._column(table, each) for each in self.record.fields]

    @property
    def _arrow(self) -> pa.Schema:
        return arrow_schema(self.record)

    def _column(self, table: pa.Table, of: t.StructField) -> pa.Array:
        column = table.column(of.name).combine_chunks()
        decode = self._decoders.get(of.name)
        if decode is None:
            return column
        return arrow_array([None if text is None else decode(text) for text in column.to_pylist()], of)

    def _table(self, text: bytes, types: Mapping[str, pa.DataType]) -> pa.Table:
        """Let Arrow read all fields. A quoted text of NULL is NULL, unless the field is a string."""
        texts = [each.name for each in self.record if isinstance(each.dataType, t.StringType)]
        others = [name for name in types if name not in texts]
        if not others or f"{self.quote}{self.null}{self.quote}".encode() not in text:
            return self._read(text, types, list(types), quoted_nulls=False)
        parts = [self._read(text, types, names, quoted_nulls=names is others) for names in (texts, others) if names]
        return pa.table({name: part.column(name) for part in parts for name in part.column_names})

    def _read(
        self, text: bytes, types: Mapping[str, pa.DataType], names: Sequence[str], *, quoted_nulls: bool
    ) -> pa.Table:
        return arrow_csv.read_csv(
            pa.BufferReader(text + b"\n"),
            arrow_csv.ReadOptions(column_names=list(types), use_threads=False, block_size=len(text) + 2),
            arrow_csv.ParseOptions(delimiter=self.sep, quote_char=self.quote, newlines_in_values=self.is_multiline),
            arrow_csv.ConvertOptions(
                column_types=types,
                include_columns=names,
                null_values=[self.null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=quoted_nulls,
            ),
        )


@frozen
class LineDecoder:
    """Decodes the lines that were quarantined: a row function. It raises for those that still are no records.

    Attributes:
        format: fails for such a line.
    """

    format: LineFormat

    def __call__(self, row: Sequence[Any]) -> Sequence[Any]:
        """Return the row of a line, given it, or the line."""
        *values, path, position, text = row
        if text is None:
            return [*values, path, position]
        line = Lines(path, position, text, np.zeros(1, np.int64), np.full(1, len(text)))
        columns, _ = self.format.read(line)
        return [*(column_values(each)[0] for each in columns), path, position]


_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "csv": {"header": False, "sep": ",", "quote": '"', "nullValue": "", "multiLine": False},
    "json": {"multiLine": False},
}


def format_of(
    name: str,
    schema: str | t.StructType | None,
    options: Mapping[str, Any] | None,
    on_decode_error: str,
    text: TextLines,
    evolution: Evolution,
) -> LineFormat | WholeFormat:
    """Return the format for the arguments of a user.

    Raises:
        TopologyError: an argument can't work.
    """
    given = _checked_options(name, options or {})
    if name != "text" and text != TextLines("utf-8", "strict"):
        raise TopologyError(f"format={name!r} is read as UTF-8, and takes no encoding= or errors=")
    if evolution.adds and name in ("text", "csv", "binary"):
        raise TopologyError(f"format={name!r} takes no schema_evolution: its fields have no names of their own")
    if name in WHOLE:
        return whole_format(name, schema, on_decode_error, evolution)
    if name == "text":
        if schema is not None:
            raise TopologyError("format='text' takes no schema: its rows have value, path and position")
        return text
    return _of_records(name, record_of(schema), given, on_decode_error, evolution)


def _checked_options(name: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
    known = _OPTIONS.get(name, {})
    if options and not known:
        raise TopologyError(f"format={name!r} takes no options")
    if unknown := sorted(set(options) - set(known)):
        raise TopologyError(f"there is no option {unknown[0]!r} of {name}; there are {', '.join(known)}")
    given = {**known, **options}
    for option, default in known.items():
        if isinstance(default, bool) and not isinstance(given[option], bool):
            raise TopologyError(f"options['{option}'] is True or False, not {shown(given[option])}")
    return given


def _of_records(
    name: str, record: t.StructType, options: Mapping[str, Any], on_error: str, evolution: Evolution
) -> RecordLines:
    if name == "csv":
        return _csv(record, on_error, options)
    check_json_type(record)
    return JsonLines(record, on_error, evolution.is_found and not evolution.adds, options["multiLine"])


def _csv(fields: t.StructType, on_error: str, options: Mapping[str, Any]) -> CsvLines:
    for each in fields:
        if isinstance(each.dataType, t.StructType | t.ArrayType | t.MapType | t.BinaryType):
            raise TopologyError(f"the field {each.name!r} is {each.dataType.simpleString()}, which CSV has not")
    for name in ("sep", "quote"):
        if not (isinstance(options[name], str) and len(options[name]) == 1 and options[name].isascii()):
            raise TopologyError(f"options['{name}'] is one ASCII character, not {shown(options[name])}")
    if not isinstance(options["nullValue"], str):
        raise TopologyError(f"options['nullValue'] is a text, not {shown(options['nullValue'])}")
    return CsvLines(
        fields,
        on_error,
        header=options["header"],
        sep=options["sep"],
        quote=options["quote"],
        null=options["nullValue"],
        is_multiline=options["multiLine"],
    )
