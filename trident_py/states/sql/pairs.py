"""The fields that fit the columns of a user's own table: of the same or a wider type, or a text of another type's form.

If a column would round or cut all values of a type, the sink refuses it at the start. `Limits` checks each value.
"""

from __future__ import annotations

from pyspark.sql import types as t

from trident_py.errors import StateError
from trident_py.states.sql.catalog import Family, FoundColumn, signed
from trident_py.states.sql.columns import TypedColumn, is_nested
from trident_py.states.sql.limits import Limits

_INTEGER_BITS: dict[type[t.DataType], int] = {t.ByteType: 8, t.ShortType: 16, t.IntegerType: 32, t.LongType: 64}
_DAY = r"\d{4}-\d\d-\d\d"
_ZONE = r"(Z|[+-]\d\d(:?\d\d)?)"


def limits_of(field: TypedColumn, column: FoundColumn) -> Limits:
    """Return the values of ``field`` that ``column`` can hold.

    Raises:
        StateError: the column would round, cut or replace them.
    """
    if column.is_generated:
        raise refusal(field, column, "the database makes its values itself", "leave the field out")
    found = _limits(field, column)
    if found is None:
        raise refusal(field, column, *_narrowing(field, column))
    return found


def refusal(field: TypedColumn, column: FoundColumn, reason: str, way: str) -> StateError:
    """Return the error for a field that does not fit a column."""
    return StateError(
        f"field {field.name!r} is {field.kind.simpleString()}, and column {column.name!r} of the table is "
        f"{column.written}: {reason}; to fix this: {way}"
    )


def _limits(field: TypedColumn, column: FoundColumn) -> Limits | None:
    """Return the limits; None: the field does not fit."""
    match field.kind:
        case t.ByteType() | t.ShortType() | t.IntegerType() | t.LongType():
            return _of_integer(_INTEGER_BITS[type(field.kind)], column)
        case t.DecimalType():
            return _of_decimal(field.kind, column)
        case t.FloatType() | t.DoubleType():
            bits = 24 if isinstance(field.kind, t.FloatType) else 53
            return _plain(column) if column.family is Family.FLOAT and (column.size or 53) >= bits else None
        case t.BooleanType():
            fits = column.family is Family.BOOLEAN or (column.family is Family.INTEGER and not column.parses)
            return _plain(column) if fits else None
        case t.StringType():
            return _of_text(column)
        case t.BinaryType():
            return _sized(column) if column.family is Family.BINARY else None
    if is_nested(field.kind):
        fits = column.family is Family.JSON or (column.family is Family.TEXT and column.size is None)
        return _plain(column) if fits else None
    return _of_time(field.kind, column)


def _of_integer(bits: int, column: FoundColumn) -> Limits | None:
    least, greatest = signed(bits)
    match column.family:
        case Family.INTEGER:
            low, high = column.bounds
            return _within(column, None if low <= least and greatest <= high else column.bounds)
        case Family.EXACT:
            return _within(column, _digits_before_point(column, len(str(greatest))))
        case Family.FLOAT:
            return _plain(column) if bits <= (column.size or 53) else None
        case Family.TEXT if not column.is_padded:
            return _plain(column)
    return None


def _of_decimal(kind: t.DecimalType, column: FoundColumn) -> Limits | None:
    match column.family:
        case Family.EXACT if column.digits is None or column.digits[1] >= kind.scale:
            return _within(column, _digits_before_point(column, kind.precision - kind.scale))
        case Family.INTEGER if kind.scale == 0:
            return _within(column, column.bounds)
    return None


def _digits_before_point(column: FoundColumn, digits: int) -> tuple[int, int] | None:
    if column.digits is None or column.digits[0] - column.digits[1] >= digits:
        return None
    most = 10 ** (column.digits[0] - column.digits[1]) - 1
    return -most, most


def _of_text(column: FoundColumn) -> Limits | None:
    match column.family:
        case Family.TEXT:
            return Limits(
                column=column.written,
                chars=column.size,
                octets=column.octets,
                is_padded=column.is_padded,
                is_required=column.is_required,
            )
        case Family.FORM | Family.JSON:
            return Limits(column=column.written, members=column.members, is_required=column.is_required)
        case Family.DATE:
            return _matching(column, _DAY, "2024-02-29")
        case Family.CLOCK:
            return _matching(column, f"{_DAY}([ T]{_time(column.size)})?", "2024-02-29 12:00:00")
        case Family.INSTANT if column.parses:
            return _matching(column, f"{_DAY}[ T]{_time(column.size)}{_ZONE}", "2024-02-29 12:00:00Z")
        case Family.INTEGER | Family.BOOLEAN | Family.EXACT if column.parses and column.digits is None:
            return _plain(column)
    return None


def _time(digits: int | None) -> str:
    fraction = rf"(\.\d{{1,{digits or 6}}})?" if digits != 0 else ""
    return rf"\d\d:\d\d(:\d\d{fraction})?"


def _of_time(kind: t.DataType, column: FoundColumn) -> Limits | None:
    is_whole = column.size is None or column.size >= 6
    match kind, column.family:
        case t.DateType(), Family.DATE | Family.CLOCK:
            return _plain(column)
        case t.TimestampType(), Family.INSTANT | Family.CLOCK if is_whole:
            return _plain(column)
        case t.TimestampNTZType(), Family.CLOCK if is_whole:
            return _plain(column)
    return None


def _narrowing(field: TypedColumn, column: FoundColumn) -> tuple[str, str]:
    """Return the reason why a field does not fit a column, and a way to convert it explicitly."""
    row, loses = f"row.{field.name}", "the database would round or cut its values in silence"
    match field.kind, column.family:
        case t.FloatType() | t.DoubleType() | t.DecimalType(), Family.INTEGER:
            return loses, f"round on purpose, as by map(lambda row: (int(round({row})),), '{field.name} bigint')"
        case t.FloatType() | t.DoubleType() | t.DecimalType(), Family.EXACT:
            precision, scale = column.digits or (38, 18)
            precision = min(precision, 38)
            return loses, (
                f"round on purpose, as by map(lambda row: (round(Decimal({row}), {scale}),), "
                f"'{field.name} decimal({precision},{scale})')"
            )
        case _, Family.FLOAT:
            kind = "float" if column.size == 24 else "double"
            return loses, f"round on purpose, as by map(lambda row: (float({row}),), '{field.name} {kind}')"
        case t.TimestampType() | t.TimestampNTZType(), Family.DATE:
            return loses, f"cut on purpose, as by map(lambda row: ({row}.date(),), '{field.name} date')"
        case t.TimestampType() | t.TimestampNTZType(), Family.CLOCK | Family.INSTANT if column.size not in (None, 6):
            return loses, (
                f"give the column six digits of a second, or cut on purpose, as by "
                f"map(lambda row: ({row}.isoformat(' ', 'seconds'),), '{field.name} string')"
            )
        case _, Family.TEXT:
            return "how its values would read is not the same in each database", (
                f"make the text yourself, as by map(lambda row: (str({row}),), '{field.name} string')"
            )
    return "such a column doesn't hold such values as they are", "declare the field with the column's type, or cast it"


def _plain(column: FoundColumn) -> Limits:
    return Limits(column=column.written, is_required=column.is_required)


def _sized(column: FoundColumn) -> Limits:
    return Limits(column=column.written, octets=column.size, is_padded=column.is_padded, is_required=column.is_required)


def _within(column: FoundColumn, bounds: tuple[int, int] | None) -> Limits:
    return Limits(column=column.written, bounds=bounds, is_required=column.is_required)


def _matching(column: FoundColumn, pattern: str, example: str) -> Limits:
    told = f"{column.written} is written as {example!r}"
    return Limits(column=column.written, pattern=(pattern, told), is_required=column.is_required)
