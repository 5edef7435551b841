"""Typed columns of all states in SQL tables."""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import partial
from types import NoneType
from typing import Any, TypeAlias

from attrs import evolve, frozen
from pyspark.sql import types as t

from trident_py.errors import StateError
from trident_py.rows.ddl import parse_ddl
from trident_py.rows.row import Codec, codec_of, row_class
from trident_py.rows.schema import clipped
from trident_py.states.sql.limits import Limits

Convert: TypeAlias = Callable[[Any], Any]


def is_nested(kind: t.DataType) -> bool:
    """Return whether values of ``kind`` have parts."""
    return isinstance(kind, t.ArrayType | t.MapType | t.StructType)


def json_text(kind: t.DataType, checked: Callable[[str], str]) -> tuple[Convert, Convert]:
    """Return two conversions: from values of ``kind`` to ``checked`` JSON text, and back from the client's value."""
    encode, decode = _codec(kind)

    def to_text(value: Any) -> str:
        return checked(as_text(json.dumps(encode(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)))

    return to_text, lambda stored: decode(json.loads(stored) if isinstance(stored, str | bytes) else stored)


def _codec(kind: t.DataType) -> Codec:
    match kind:
        case t.StructType():
            return _struct(kind)
        case t.ArrayType():
            encode, decode = map(_optional, _codec(kind.elementType))
            return lambda value: list(map(encode, _sequence(value))), lambda value: list(map(decode, value))
        case t.MapType():
            return _map(kind)
    if isinstance(kind, t.FloatType | t.DoubleType):
        encode, decode = codec_of(kind)
        # PostgreSQL's jsonb has no minus zero among its numbers; it is a text, as infinity is.
        return lambda value: encode(value) if value or math.copysign(1, value) > 0 else "-0.0", decode
    return codec_of(kind)


def _struct(kind: t.StructType) -> Codec:
    names, make = kind.names, row_class(tuple(kind.names))._make
    codecs = [tuple(map(_optional, _codec(each.dataType))) for each in kind.fields]

    def encode(value: Any) -> dict[str, Any]:
        parts = [value[name] for name in names] if isinstance(value, dict) else _sequence(value)
        return {name: to(part) for name, (to, _), part in zip(names, codecs, parts, strict=True)}

    return encode, lambda value: make([back(value[name]) for name, (_, back) in zip(names, codecs, strict=True)])


def _map(kind: t.MapType) -> Codec:
    (encode_key, decode_key), (encode, decode) = _codec(kind.keyType), map(_optional, _codec(kind.valueType))
    if isinstance(kind.keyType, t.StringType):
        return (
            lambda value: {encode_key(key): encode(item) for key, item in value.items()},
            lambda value: {decode_key(key): decode(item) for key, item in value.items()},
        )
    return (
        lambda value: [[encode_key(key), encode(item)] for key, item in value.items()],
        lambda value: {_hashable(decode_key(key)): decode(item) for key, item in value},
    )


def _optional(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _sequence(value: Any) -> Any:
    if isinstance(value, str | bytes | dict) or not hasattr(value, "__iter__"):
        raise TypeError(value)
    return value


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


class UnfitError(StateError):
    """A value doesn't fit its column.

    Attributes:
        value: the value.
    """

    def __init__(self, text: str, value: Any = None) -> None:
        super().__init__(text)
        self.value = value

    def in_row(self, columns: Iterable[TypedColumn], row: Iterable[Any]) -> UnfitError:
        """Return the same error with the row of the value, and the fix."""
        shown = ", ".join(f"{column.name}={clipped(part)}" for column, part in zip(columns, row, strict=True))
        return UnfitError(
            f"{self}, in the row ({shown}); to fix this: map the field to a value that fits, or filter such rows out",
            self.value,
        )


class RefusedValueError(ValueError):
    """A column can't hold a value; the text of the error is the reason."""


@contextmanager
def naming_unfit(where: str) -> Iterator[None]:
    """Add ``where``, which names topology, attempt and table, to errors about values that don't fit."""
    try:
        yield
    except UnfitError as error:
        raise StateError(f"{where}: {error}") from error


@frozen
class TypedColumn:
    """A typed column.

    Attributes:
        storage: the column's type in the store.
        merges: the values of `CombinerAggregator.merge` that SQL computes here as Spark would.
        to_sql: converts a value that is not NULL to its stored form. It refuses values of another type, which the
            database might convert, such as '7' to 7.
        from_sql: converts a stored value back; None: it is the value.
        plain: a type whose values are stored unchanged.
        check: the text after the type in CREATE TABLE; ``{0}`` is the name.
        limits: the values that a column of a user's own table holds; None: all.
    """

    name: str
    kind: t.DataType
    storage: str
    merges: frozenset[str]
    to_sql: Convert
    from_sql: Convert | None = None
    plain: type = NoneType
    check: str = ""
    limits: Limits | None = None

    def stored(self, values: Sequence[Any]) -> Iterable[Any]:
        """Return the stored forms of ``values``.

        Raises:
            UnfitError: a value doesn't fit the column.
        """
        kinds = {*map(type, values)} - {NoneType}
        if kinds <= {self.plain} or (self.to_sql is as_text and kinds == {str} and _are_texts(values)):
            return values
        return [None if value is None else self._converted(self.to_sql, value) for value in values]

    def loaded(self, value: Any) -> Any:
        """Return the value that is stored as ``value``."""
        return value if value is None or self.from_sql is None else self.from_sql(value)

    def _converted(self, convert: Convert, value: Any) -> Any:
        try:
            return convert(value)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            why = f": {error}" if isinstance(error, RefusedValueError) else ""
            raise self.unfit(value, why) from error

    def unfit(self, value: Any, reason: str = "") -> UnfitError:
        """Return the error for a value that the column can't hold."""
        return UnfitError(
            f"field {self.name!r} is {self.kind.simpleString()} and cannot hold {clipped(value)}{reason}", value
        )


def declared(columns: Sequence[TypedColumn]) -> str:
    """Return the declared fields as text, to be compared with the fields of the existing table."""
    return ", ".join(f"{column.name} {column.kind.simpleString()}" for column in columns)


def declared_fields(text: str) -> tuple[t.StructType, t.StructField]:
    """Return the key fields and the value field that `declared` wrote as ``text``.

    Raises:
        StateError: ``text`` was not written by `declared`.
    """
    if not isinstance(text, str):
        raise StateError(
            f"the header has {clipped(text)} as the fields of the table; to fix this: restore the database"
        )
    named = [column.partition(" ") for column in text.split(", ")]
    *keys, value = parse_ddl(", ".join(f"`{name}` {kind}" for name, _, kind in named)).fields
    return t.StructType(keys), value


def loaded_rows(columns: Sequence[TypedColumn], rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Return the values that were stored as ``rows`` in ``columns``."""
    return [tuple(column.loaded(part) for column, part in zip(columns, row, strict=True)) for row in rows]


def checked(name: str, database: str, what: str, pattern: re.Pattern[str]) -> str:
    """Return ``name``, if it is a valid name of a table or field.

    Raises:
        StateError: it has other characters, is too long, or is reserved.
    """
    if not isinstance(name, str) or not pattern.fullmatch(name):
        raise StateError(
            f"{what} {name!r} cannot be a {what}'s name in {database}: use ASCII letters, digits and underscores, "
            f"a letter first, and not too many: {pattern.pattern}"
        )
    return name


def as_key(column: TypedColumn) -> TypedColumn:
    """Return the column for a part of a key, in which 0.0 and -0.0 are the same."""
    if not isinstance(column.kind, t.FloatType | t.DoubleType):
        return column
    return evolve(column, to_sql=partial(_without_sign_of_zero, column.to_sql), plain=NoneType)


def _without_sign_of_zero(to_sql: Convert, value: Any) -> Any:
    return to_sql(as_float(value) + 0.0)


def check_distinct(columns: Sequence[TypedColumn], store: str) -> None:
    """Refuse names that differ in case only.

    Raises:
        StateError: two do.
    """
    names = [column.name.lower() for column in columns]
    for column, lowered in zip(columns, names, strict=True):
        if names.count(lowered) > 1:
            raise StateError(f"field {column.name!r} appears twice; {store} does not tell upper case from lower")


def of_type(*kinds: type) -> Convert:
    """Make a conversion that accepts values of ``kinds`` only; a bool is not a number."""

    def convert(value: Any) -> Any:
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise TypeError(value)
        return value

    return convert


def as_text(value: Any) -> str:
    """Return a text unchanged; refuse other types, and half of a surrogate pair, which no encoding has."""
    if not isinstance(value, str):
        raise TypeError(value)
    try:
        value.isascii() or value.encode()
    except UnicodeEncodeError:
        raise RefusedValueError("it is not Unicode text") from None
    return value


def _are_texts(values: Sequence[str | None]) -> bool:
    """Return true if `as_text` accepts each value: one look for all of them."""
    try:
        text = "".join(filter(None, values))
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def as_integer(value: Any) -> int:
    """Return a whole number as an int; refuse other types, including bools and floats."""
    if isinstance(value, bool):
        raise TypeError(value)
    return operator.index(value)


def as_float(value: Any) -> float:
    """Return a number as a float; refuse other types, including texts of numbers."""
    if isinstance(value, str | bytes | bytearray):
        raise TypeError(value)
    return float(value)


def as_day(value: date) -> date:
    """Return a date unchanged; refuse one with a time of day."""
    if isinstance(value, datetime) or not isinstance(value, date):
        raise TypeError(value)
    return value


def exact_decimal(precision: int, scale: int) -> Convert:
    """Make a conversion to decimals of this precision and scale; it refuses a number that would be rounded."""
    context = Context(prec=precision, traps=[Inexact, InvalidOperation])
    unit = Decimal(1).scaleb(-scale)

    def convert(value: Decimal | int) -> Decimal:
        exact = Decimal(value) if isinstance(value, int) else value
        if not exact.is_finite():
            raise ValueError(value)
        return exact.quantize(unit, context=context)

    return convert
