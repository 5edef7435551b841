"""Rows for user code: tuples with values that can also be looked up by name."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa


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
    columns = map(column_values, data.columns, data.schema.names)
    return list(map(row_class(tuple(data.schema.names))._make, zip(*columns, strict=True)))


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
