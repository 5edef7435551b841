"""The values of a field's type that a column of a user's own table can hold. Runs in Python workers, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

DECIMALS = 76
"""Digits of Arrow's widest decimals, which hold all others."""

Test: TypeAlias = tuple[Callable[[pa.Array], pa.Array], str]
"""A function that finds the values that a column can't hold, and the reason."""


@frozen(kw_only=True)
class Limits:
    """The values that a column can hold.

    A database might round, cut or replace others, or refuse them without naming one.

    Attributes:
        column: the column's type, for messages.
        bounds: the least and the greatest number.
        chars: the maximum number of characters of a text.
        octets: the maximum number of bytes of a text in UTF-8, or of a binary value.
        is_padded: whether values of fewer bytes, or texts that end in blanks, come back changed.
        members: the allowed texts; empty: all.
        pattern: a pattern that the whole text must match, and the reason to name if it doesn't.
        avoids: a pattern that no text may match, and the reason to name if one does.
        keeps_minus_zero: whether -0.0 isn't stored as 0.0.
        is_required: whether NULL is refused, or replaced by another value.
    """

    column: str
    bounds: tuple[int, int] | None = None
    chars: int | None = None
    octets: int | None = None
    is_padded: bool = False
    members: tuple[str, ...] = ()
    pattern: tuple[str, str] | None = None
    avoids: tuple[str, str] | None = None
    keeps_minus_zero: bool = True
    is_required: bool = False

    @property
    def are_needed(self) -> bool:
        """Whether there are values that the column can't hold."""
        return self != Limits(column=self.column)

    def first_beyond(self, values: pa.Array) -> tuple[int, str] | None:
        """Return the number of the first value that the column can't hold, with the reason; None: it holds all."""
        values = plain_array(values)
        if self.is_required and values.null_count:
            return values.is_null().index(True).as_py(), f"{self.column} does not hold NULL"
        for is_beyond, reason in self._tests(values.type):
            number = pc.fill_null(is_beyond(values), False).index(True).as_py()
            if number >= 0:
                return number, reason
        return None

    def _tests(self, kind: pa.DataType) -> Iterator[Test]:
        if self.bounds is not None:
            least, greatest = self.bounds
            yield (lambda values: _is_beyond(values, least, greatest)), f"{self.column} holds {least} to {greatest}"
        if pa.types.is_floating(kind) and not self.keeps_minus_zero:
            yield _is_minus_zero, f"{self.column} would store it as 0.0"
        if not pa.types.is_nested(kind):
            yield from self._tests_of_lengths(kind)
        yield from self._tests_of_texts()

    def _tests_of_lengths(self, kind: pa.DataType) -> Iterator[Test]:
        chars, octets = self.chars, self.octets
        if chars is not None and pa.types.is_large_string(kind):
            yield (lambda values: pc.greater(pc.utf8_length(values), chars)), f"{self.column} holds {chars} characters"
        if octets is not None:
            most = f"{self.column} holds {octets} bytes"
            yield (lambda values: pc.greater(pc.binary_length(values), octets)), most
            if self.is_padded:
                yield (lambda values: pc.less(pc.binary_length(values), octets)), f"{most}, and fills them up"
        elif self.is_padded:
            yield (lambda values: pc.ends_with(values, " ")), f"{self.column} doesn't keep blanks at the end"

    def _tests_of_texts(self) -> Iterator[Test]:
        if self.members:
            known = pa.array(self.members, pa.large_string())
            yield (
                (lambda values: pc.and_(pc.is_valid(values), pc.invert(pc.is_in(values, known)))),
                f"{self.column} holds one of {', '.join(map(repr, self.members))}",
            )
        if self.pattern is not None:
            whole, told = self.pattern
            yield (lambda values: pc.invert(pc.match_substring_regex(values, f"^(?:{whole})$"))), told
        if self.avoids is not None:
            other, why = self.avoids
            yield (lambda values: pc.match_substring_regex(values, f"^(?:{other})$")), why


def plain_array(values: pa.Array) -> pa.Array:
    """Return the same values without dictionaries and views; texts and binary values as Arrow's large types."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    kind = values.type
    if any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)):
        return values.cast(pa.large_string())
    if any(test(kind) for test in _BINARY):
        return values.cast(pa.large_binary())
    return values


_BINARY = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)


def _is_minus_zero(values: pa.Array) -> pa.Array:
    return pc.and_(pc.equal(values, 0.0), pc.less(pc.divide(1.0, values), 0.0))


def _is_beyond(values: pa.Array, least: int, greatest: int) -> pa.Array:
    scale = values.type.scale if pa.types.is_decimal(values.type) else 0
    wide: Any = pa.decimal256(DECIMALS, scale)
    exact = pc.trunc(values.cast(wide)) if scale else values.cast(wide)
    low, high = (pc.cast(pa.scalar(bound, pa.decimal256(DECIMALS, 0)), wide) for bound in (least, greatest))
    return pc.or_(pc.less(exact, low), pc.greater(exact, high))
