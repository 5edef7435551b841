"""Rows for user code: tuples with values that can also be looked up by name."""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache, partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import types as t

from coordinators.values.canonical import Fingerprint, Json


class Row(tuple[Any, ...]):
    """One row: values by attribute (``row.word``), by name (``row["word"]``) and by position (``row[0]``).

    It is a tuple, so it equals and hashes like one, as Storm's do. Use ``row["odd name"]`` for a field whose name is no
    identifier, or is a method of this class except ``count`` and ``index``. Access by attribute is fastest, as fast as
    a namedtuple's.
    """

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = ()
    _positions: ClassVar[Mapping[str, int]] = {}
    _make: ClassVar[Callable[[Iterable[Any]], Row]]

    if TYPE_CHECKING:
        # Fields with these names are values, not the methods of a tuple.
        count: Any
        index: Any

    def __getitem__(self, key: Any) -> Any:
        if type(key) is str:
            if key not in self._positions:
                raise KeyError(f"there is no field {key!r}; there are {', '.join(map(repr, self._fields))}")
            key = self._positions[key]
        return tuple.__getitem__(self, key)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"there is no field {name!r}; there are {', '.join(map(repr, self._fields))}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._fields, tuple(self))

    def __repr__(self) -> str:
        return f"Row({', '.join(f'{name}={value!r}' for name, value in zip(self._fields, self, strict=True))})"

    def _asdict(self) -> dict[str, Any]:
        """Return the values by name, like the method of a namedtuple."""
        return dict(zip(self._fields, self, strict=True))


_METHODS = frozenset(dir(Row)) - {"count", "index"} | {"_make"}


@lru_cache(maxsize=1024)
def row_class(names: tuple[str, ...]) -> type[Row]:
    """Return the class of rows with these fields; its ``_make`` makes a row from values, and doesn't count them."""
    # The attributes are a namedtuple's: read in C, although the class's __getitem__ is in Python.
    getters: Any = namedtuple("getters", names, rename=True)  # type: ignore[misc]
    attributes: dict[str, Any] = {
        name: getattr(getters, getter)
        for name, getter in zip(names, tuple[str, ...](getters._fields), strict=True)
        if name not in _METHODS
    }
    positions = {name: position for position, name in enumerate(names)}
    made: type[Row] = type("Row", (Row,), {**attributes, "__slots__": (), "_fields": names, "_positions": positions})
    made._make = partial(tuple.__new__, made)
    return made


def _restored(names: tuple[str, ...], values: tuple[Any, ...]) -> Row:
    return row_class(names)._make(values)


def rows_of(data: pa.RecordBatch | pa.Table) -> list[Row]:
    """Return the rows of Arrow data."""
    return list(map(row_class(tuple(data.schema.names))._make, zip(*columns_in(data), strict=True)))


def values_of(rows: Sequence[Row], names: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return the values of some fields of each row; all rows have the same fields."""
    if not rows or not names:
        return [()] * len(rows)
    places = map(rows[0]._fields.index, names)
    columns = [map(tuple.__getitem__, rows, repeat(place)) for place in places]  # in C
    return list(zip(*columns, strict=True))


def keys_in(rows: pa.Table, fields: Sequence[str] | Sequence[int]) -> list[tuple[Any, ...]]:
    """Return the values of some fields of each row of Arrow data, by their names or positions."""
    columns = [column_values(rows.column(each), str(each)) for each in fields]
    return list(zip(*columns, strict=True)) if columns else [()] * rows.num_rows


def columns_in(data: pa.RecordBatch | pa.Table) -> list[list[Any]]:
    """Return the values of each field of Arrow data."""
    return list(map(column_values, data.columns, data.schema.names))


def column_values(column: pa.Array | pa.ChunkedArray, field: str = "") -> list[Any]:
    """Convert a column's values to Python's: structs to Rows, maps to dicts, timestamps to datetimes in UTC.

    Raises:
        ValueError: a date or timestamp is in a year that Python doesn't support; names ``field`` and the value.
    """
    try:
        if not pa.types.is_nested(column.type):
            values: list[Any] = _in_utc(column).to_pylist()
            return values
        convert = _converter(column.type)
        return [None if value is None else convert(value) for value in column.to_pylist()]
    except OverflowError as error:
        raise ValueError(_beyond(column, field)) from error


def _beyond(column: pa.Array | pa.ChunkedArray, field: str) -> str:
    """Return the message about the value of ``column`` in a year that Python doesn't support."""
    for place in range(len(column)):
        part = column.slice(place, 1)
        try:
            part.to_pylist()
        except OverflowError:
            shown = "" if pa.types.is_nested(part.type) else f" {part.cast(pa.string())[0].as_py()}"
            break
    else:
        shown = ""
    name = f"field {field!r}" if field else "a field"
    return (
        f"{name} has a {column.type}{shown}, and Python knows the years 1 to 9999 only; filter such rows by a Column "
        f"first, or turn the field into a string by `sql` or `transform`"
    )


def _in_utc(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    # Spark returns timestamps in the session's time zone, but values in user functions must not depend on it.
    if pa.types.is_timestamp(column.type) and column.type.tz not in (None, "UTC"):
        return column.cast(pa.timestamp("us", tz="UTC"))
    return column


def _converter(kind: pa.DataType) -> Callable[[Any], Any]:
    """Return a function that converts a value from Arrow, which is not ``None``, to the value in a row."""
    if pa.types.is_struct(kind):
        make = row_class(tuple(field.name for field in kind))._make
        parts = [(field.name, _optional(_converter(field.type))) for field in kind]
        return lambda value: make([convert(value[name]) for name, convert in parts])
    if pa.types.is_map(kind):
        key, entry = _converter(kind.key_type), _optional(_converter(kind.item_type))
        return lambda value: {key(name): entry(item) for name, item in value}
    if pa.types.is_nested(kind):
        element = _optional(_converter(kind.value_type))
        return lambda value: [element(item) for item in value]
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return lambda value: value.astimezone(UTC)
    return lambda value: value


def _optional(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


Codec: TypeAlias = tuple[Callable[[Any], Any], Callable[[Any], Any]]
"""The conversion to JSON and back; neither function receives None."""


def json_rows(rows: Sequence[Sequence[Any]], schema: t.StructType) -> list[Json]:
    """Return ``rows``, which match ``schema``, as lists for JSON."""
    to_json, _ = _struct(schema)
    return [to_json(row) for row in rows]


def rows_of_json(rows: Sequence[Json], schema: t.StructType) -> list[tuple[Any, ...]]:
    """Return the rows that `json_rows` made."""
    _, from_json = _struct(schema)
    return [from_json(row) for row in rows]


def codec_of(kind: t.DataType) -> Codec:
    """Return the conversion of values of ``kind`` to JSON and back."""
    match kind:
        case t.StructType():
            return _struct(kind)
        case t.ArrayType():
            return _array(kind)
        case t.MapType():
            return _map(kind)
    return _CODECS.get(type(kind), _AS_IT_IS)


def _nullable(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _struct(kind: t.StructType) -> Codec:
    codecs = [codec_of(field.dataType) for field in kind.fields]
    encoders, decoders = ([_nullable(codec[way]) for codec in codecs] for way in (0, 1))

    def to_json(value: Any) -> Json:
        values = [value.get(name) for name in kind.names] if isinstance(value, dict) else value
        return [encode(part) for encode, part in zip(encoders, values, strict=True)]

    return to_json, lambda value: tuple(decode(part) for decode, part in zip(decoders, value, strict=True))


def _array(kind: t.ArrayType) -> Codec:
    encode, decode = map(_nullable, codec_of(kind.elementType))
    return lambda value: list(map(encode, value)), lambda value: list(map(decode, value))


def _map(kind: t.MapType) -> Codec:
    (encode_key, decode_key), (encode, decode) = (
        map(_nullable, codec_of(part)) for part in (kind.keyType, kind.valueType)
    )
    return (
        lambda value: [[encode_key(key), encode(item)] for key, item in value.items()],
        lambda value: {decode_key(key): decode(item) for key, item in value},
    )


def _float(value: float) -> Json:
    return float(value) if math.isfinite(value) else repr(float(value))


_AS_IT_IS: Codec = (lambda value: value, lambda value: value)
_INTEGER: Codec = (int, int)
_FLOAT: Codec = (_float, float)
_DATETIME: Codec = (datetime.isoformat, datetime.fromisoformat)
_CODECS: dict[type[t.DataType], Codec] = {
    t.BooleanType: (bool, bool),
    t.ByteType: _INTEGER,
    t.ShortType: _INTEGER,
    t.IntegerType: _INTEGER,
    t.LongType: _INTEGER,
    t.FloatType: _FLOAT,
    t.DoubleType: _FLOAT,
    t.DecimalType: (str, Decimal),
    t.StringType: (str, str),
    t.BinaryType: (lambda value: b64encode(value).decode(), b64decode),
    t.DateType: (date.isoformat, date.fromisoformat),
    t.TimestampType: _DATETIME,
    t.TimestampNTZType: _DATETIME,
}


KIND = "rows"
"""The kind of `hash_rows`, which is compared with hashes. It must change with the hash."""

CHUNK_ROWS = 2048
_PAGE = 1 << 16
_BASE = 0x9E3779B97F4A7C15
_NULL = np.uint64(0xD6E8FEB86659FD93)


def _powers(base: int) -> np.ndarray:
    return np.multiply.accumulate(np.array([1, *[base % 2**64] * _PAGE], np.uint64))


_POWERS, _INVERSE_POWERS = _powers(_BASE), _powers(pow(_BASE, -1, 2**64))


def hash_rows(data: pa.Table | pa.RecordBatch) -> Fingerprint:
    """Return the fingerprint of the rows of ``data``: the sum of their hashes, modulo 2^64."""
    batches = data.to_batches(CHUNK_ROWS) if isinstance(data, pa.Table) else _chunks(data)
    return Fingerprint(data.num_rows, sum(map(_hash_batch, batches)) % 2**64, KIND)


def hash_tables(tables: Sequence[pa.Table]) -> list[Fingerprint]:
    """Return the fingerprint of the rows of each table, all with the same columns: small ones share a pass."""
    found: list[Fingerprint] = []
    some: list[pa.Table] = []
    rows = 0
    for table in tables:
        if rows + table.num_rows > CHUNK_ROWS:
            found += _hashed_together(some)
            some, rows = [], 0
        some.append(table)
        rows += table.num_rows
    return [*found, *_hashed_together(some)]


def _hashed_together(tables: Sequence[pa.Table]) -> list[Fingerprint]:
    if len(tables) < 2:
        return list(map(hash_rows, tables))
    whole = pa.concat_tables(tables).combine_chunks().to_batches()
    hashes = hashes_of_rows(whole[0]) if whole else np.zeros(0, np.uint64)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(hashes, dtype=np.uint64)])
    ends = np.cumsum([0, *(table.num_rows for table in tables)])
    totals = sums[ends[1:]] - sums[ends[:-1]]
    return [Fingerprint(table.num_rows, total, KIND) for table, total in zip(tables, totals.tolist(), strict=True)]


def _chunks(batch: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
    return [batch.slice(first, CHUNK_ROWS) for first in range(0, batch.num_rows, CHUNK_ROWS)]


def _hash_batch(batch: pa.RecordBatch) -> int:
    return int(hashes_of_rows(batch).sum(dtype=np.uint64))


def hashes_of_rows(batch: pa.RecordBatch) -> np.ndarray:
    """Return the hash of each row, as unsigned 64-bit numbers; for at most about `CHUNK_ROWS` rows."""
    return _joined(map(_hashes, batch.columns), batch.num_rows)


def _joined(columns: Iterable[np.ndarray], count: int) -> np.ndarray:
    """Return the hashes of rows from their columns."""
    joined: np.ndarray = np.zeros(count, np.uint64)
    for hashes in columns:
        joined = mixed(joined + hashes)
    return joined


def mixed(words: np.ndarray) -> np.ndarray:
    """Return SplitMix64 of each word: different words stay different."""
    words = words + np.uint64(_BASE)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
    return words


def _hashes(array: pa.Array) -> np.ndarray:
    """Return the hash of each value; `_joined` mixes it."""
    hashes = _hashes_of_type(array) if len(array) else np.zeros(0, np.uint64)
    if array.null_count:
        return np.where(array.is_valid().to_numpy(zero_copy_only=False), hashes, _NULL)
    return hashes


def _hashes_of_type(array: pa.Array) -> np.ndarray:
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        _, offsets, data = array.buffers()
        values = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
        return _hashes_of_sequences(values, np.frombuffer(offsets, "<i4", len(array) + 1, 4 * array.offset))
    if pa.types.is_list(kind):
        offsets = array.offsets.to_numpy()
        return _hashes_of_sequences(mixed(_hashes(_between(array.values, offsets))), offsets - offsets[0])
    if pa.types.is_map(kind):
        offsets = array.offsets.to_numpy()
        entries = [_hashes(_between(each, offsets)) for each in (array.keys, array.items)]
        return _hashes_of_sequences(_joined(entries, len(entries[0])), offsets - offsets[0])
    if pa.types.is_struct(kind):
        return _joined((_hashes(array.field(number)) for number in range(kind.num_fields)), len(array))
    if pa.types.is_decimal128(kind):
        return _joined(_fixed(array, "<u8", 2).reshape(-1, 2).T, len(array))
    return _words(array)


def _words(array: pa.Array) -> np.ndarray:
    """Return each value as a 64-bit number."""
    kind = array.type
    if pa.types.is_boolean(kind):
        array = array.cast(pa.int8())
    elif pa.types.is_floating(kind):
        numbers: np.ndarray = _fixed(array, f"<f{kind.bit_width // 8}").astype("<f8")
        numbers[np.isnan(numbers)] = np.nan
        return numbers.view(np.uint64)
    elif not (pa.types.is_integer(kind) or pa.types.is_temporal(kind)):
        raise TypeError(f"a row cannot hold values of the Arrow type {kind}")
    numbers = _fixed(array, f"<i{array.type.bit_width // 8}").astype("<i8")
    return numbers.view(np.uint64)


def _fixed(array: pa.Array, dtype: str, words: int = 1) -> np.ndarray:
    first = array.offset * words * np.dtype(dtype).itemsize
    return np.frombuffer(array.buffers()[1], dtype, len(array) * words, first)


def _between(values: pa.Array, offsets: np.ndarray) -> pa.Array:
    return values.slice(offsets[0], offsets[-1] - offsets[0])


def _hashes_of_sequences(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the hash of each run of ``values``; the first is from ``offsets[0]`` to ``offsets[1]``, and so on."""
    count, first = len(offsets) - 1, 0
    sums = np.empty(count, np.uint64)
    while first < count:
        stop = int(np.searchsorted(offsets, int(offsets[first]) + _PAGE, "right")) - 1
        if stop > first:
            part = values[offsets[first] : offsets[stop]]
            sums[first:stop] = _sums(part, offsets[first : stop + 1] - offsets[first])
        else:
            stop = first + 1
            sums[first:stop] = _sum_of_pages(values[offsets[first] : offsets[stop]])
        first = stop
    return sums


def _sums(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the weighted sum of each run and a final 1: the weights are 1, the base, its square, and so on."""
    upto = np.zeros(len(values) + 1, np.uint64)
    np.cumsum(values * _POWERS[: len(values)], out=upto[1:])
    starts, ends = offsets[:-1], offsets[1:]
    sums: np.ndarray = (upto[ends] - upto[starts]) * _INVERSE_POWERS[starts] + _POWERS[ends - starts]
    return sums


def _sum_of_pages(values: np.ndarray) -> np.ndarray:
    """Return the sum of one run that is longer than a page."""
    whole = np.arange(0, len(values), _PAGE)
    sums = [_sums(values[at : at + _PAGE], np.array([0, len(values[at : at + _PAGE])])) for at in whole]
    return _hashes_of_sequences(mixed(np.concatenate(sums)), np.array([0, len(sums)]))
