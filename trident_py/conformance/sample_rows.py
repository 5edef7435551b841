"""Sample rows for sinks and states: of any schema, always the same, and different for each transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from pyspark.sql import types as t

ATTEMPT_ROWS = 3


def sample_rows(schema: t.StructType, txid: int, variant: int = 0, count: int = ATTEMPT_ROWS) -> list[tuple[Any, ...]]:
    """Return the rows of transaction ``txid``; variants have other rows, except the last, which is always the same.

    The last row checks that rows may be equal: a store that mistakes it for an existing row loses it.
    """
    numbers = [(txid * 8 + variant % 8) * 8 + position + 1 for position in range(count - 1)] + [0]
    texts = [f"t{txid}.{variant}.{position}" for position in range(count - 1)] + ["always"]
    return [
        tuple(value(field.dataType, number, text) for field in schema.fields)
        for number, text in zip(numbers[-count:] if count else [], texts[-count:] if count else [], strict=True)
    ]


TXIDS, VARIANTS = 500, 3
"""The numbers of transactions, and of attempts of each, that most checks need."""


def batch_name(txid: int, variant: int) -> str:
    """Return the name of the rows of `sample_rows`."""
    return f"{txid}.{variant}"


def sample_batches(schema: t.StructType) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of the transactions that most checks need."""
    numbers = [(txid, variant) for txid in range(1, TXIDS) for variant in range(VARIANTS)]
    return {batch_name(*number): sample_rows(schema, *number) for number in numbers}


_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)

_ATOMIC: Mapping[type[t.DataType], Callable[[int, str], Any]] = {
    t.StringType: lambda number, text: text,
    t.VarcharType: lambda number, text: text,
    t.CharType: lambda number, text: text,
    t.BinaryType: lambda number, text: text.encode(),
    t.BooleanType: lambda number, text: bool(number % 2),
    t.ByteType: lambda number, text: number % 128,
    t.ShortType: lambda number, text: number % 32768,
    t.IntegerType: lambda number, text: number,
    t.LongType: lambda number, text: number,
    t.FloatType: lambda number, text: number / 2,
    t.DoubleType: lambda number, text: number / 2,
    t.DateType: lambda number, text: date(2026, 1, 1) + timedelta(days=number),
    t.TimestampType: lambda number, text: _EPOCH + timedelta(seconds=number),
    t.TimestampNTZType: lambda number, text: (_EPOCH + timedelta(seconds=number)).replace(tzinfo=None),
}


def value(kind: t.DataType, number: int, text: str) -> Any:
    """Return a value of a type, made of a number and a text."""
    match kind:
        case t.ArrayType():
            return [value(kind.elementType, number, text)]
        case t.MapType():
            return {value(kind.keyType, number, text): value(kind.valueType, number, text)}
        case t.DecimalType():
            return Decimal(number % 10 ** (kind.precision - kind.scale))
        case t.StructType():
            return tuple(value(field.dataType, number, text) for field in kind.fields)
    return _ATOMIC[type(kind)](number, text)


def comparable(row: Sequence[Any]) -> tuple[Any, ...]:
    """Return a row for comparison: nested values as tuples, moments in UTC without zone."""
    return tuple(_plain(each) for each in row)


def _plain(each: Any) -> Any:
    if isinstance(each, dict):
        return tuple(sorted((_plain(key), _plain(its)) for key, its in each.items()))
    if isinstance(each, list | tuple):
        return tuple(map(_plain, each))
    if isinstance(each, bytearray | memoryview):
        return bytes(each)
    if isinstance(each, datetime):
        return (each if each.tzinfo else each.astimezone()).astimezone(UTC).replace(tzinfo=None)
    return each
